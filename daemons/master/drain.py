"""`condor_off -drain` and `condor_restart -drain`: the jobs of this host finish first, then its daemons are stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from daemons.daemon_core.locate import socket_of
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.master.supervise import Keeper
from pool.hosts.supervision import ProcessState
from protocol.messages.master import DrainFirst
from protocol.messages.startd import DrainMachine
from protocol.rpc import endpoints
from protocol.wire.address import Address
from protocol.wire.message import DONE, Done


class Drainage:
    """At most one order that waits for the startd to end; a later order to the master takes its place."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._waiting: trio.CancelScope | None = None

    def give_up(self) -> None:
        """Another order has come: what waits is not done any more."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def begin(
        self, asked: DrainFirst, startd: Keeper | None, tasks: Tasks, then: Callable[[], Awaitable[None]]
    ) -> Done:
        """Have the startd drain and end, and do `then` when it has; answered when it drains, or says why not."""
        self.give_up()
        if startd is None or startd.state is ProcessState.STOPPED:
            await then()
            return DONE
        address = Address.unix(str(socket_of(self._start.config, "startd")))
        async with endpoints.connected(
            address, network=self._start.world.network, security=self._start.security
        ) as peer:
            await peer.call(
                DrainMachine(
                    on_completion="exit",
                    reason=asked.reason or "the host is to be shut down",
                    check=asked.check,
                    start=asked.start,
                )
            )
        tasks.once(self._wait, startd, then)
        return DONE

    async def _wait(self, startd: Keeper, then: Callable[[], Awaitable[None]]) -> None:
        with trio.CancelScope() as scope:
            self._waiting = scope
            await startd.until(ProcessState.STOPPED)
            self._waiting = None
        if not scope.cancelled_caught:
            self._start.log.always("The startd is drained; now the other daemons.")
            await then()
