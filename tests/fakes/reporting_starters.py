"""Fake starters that tell the schedd of their jobs as real ones do, for pools in which all daemons are real.

farm = Farm(partial(ReportingStarter, network=network, wall=wall))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from pool.classad import ClassAd
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import JobEnded, JobExecuting, StarterReady
from protocol.messages.starter import RunJob, StopJob
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.message import Done
from tests.fakes.network import FakeHost, FakeStream
from tests.fakes.starters import FakeStarter


class ReportingStarter(FakeStarter):
    """One starter, which has a connection to its job's shadow while the job runs."""

    def __init__(
        self, pid: int, ours: FakeStream, theirs: FakeStream, *, network: FakeHost, wall: Callable[[], float]
    ) -> None:
        super().__init__(pid, ours, theirs)
        self._network, self._wall = network, wall
        self._is_stopped = False

    def _stop(self, peer: Peer, order: StopJob) -> Done:
        self._is_stopped = True
        return super()._stop(peer, order)

    async def _work(self, order: RunJob) -> None:
        self._is_stopped = False
        about: dict[str, Any] = {"job_id": order.job_id, "activation": order.activation}
        domain = self._network.network.trust_domain
        security = Security(SecuritySettings(trust_domain=domain, uid_domain=domain)).with_ticket(order.ticket)
        self._stop_at = trio.CancelScope(deadline=self._deadline)
        async with endpoints.connected(order.shadow_address, network=self._network, security=security) as shadow:
            await shadow.call(StarterReady(**about))
            await shadow.call(JobExecuting(**about, at=self._wall(), ad=ClassAd()))
            with self._stop_at:
                await trio.sleep_forever()
            ending = Ending.EVICTED if self._is_stopped else Ending.EXITED
            ad = ClassAd() if self._is_stopped else ClassAd({"ExitBySignal": False, "ExitCode": 0})
            await shadow.call(JobEnded(**about, ending=ending, at=self._wall(), ad=ad))
        await self._tell_end(order)
