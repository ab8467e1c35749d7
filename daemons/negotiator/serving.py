"""Whom this negotiator serves: jobs by NEGOTIATOR_JOB_CONSTRAINT, submitters by NEGOTIATOR_SUBMITTER_CONSTRAINT.

Submitters are judged by the ads that schedds send the collector of them, which it is asked to watch. What a negotiator
does not serve is told so, and may be served by another negotiator of the same pool.

Source: HTCondor manual, "Configuration Macros".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import trio

from daemons.base.sync import Backoff
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.run import DaemonStart
from pool.ads.seen import AdChange
from pool.base.errors import PoolError
from pool.classad import ClassAd, Expr
from pool.hosts.daemon_names import kept_name
from pool.matching import JobRequest, Rejected
from protocol.messages.collector import AdDelta, WatchAds

RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 10.0
NOT_THE_JOB: Final = "the negotiator's NEGOTIATOR_JOB_CONSTRAINT leaves the job out"
NOT_THE_SUBMITTER: Final = "the negotiator's NEGOTIATOR_SUBMITTER_CONSTRAINT leaves the submitter out"


class Serving:
    """What is served; `changed` is called when that may be other submitters."""

    def __init__(self, start: DaemonStart, changed: Callable[[], None]) -> None:
        self._start, self._changed = start, changed
        self._jobs: Expr | None = None
        self._submitters = ""
        self._watching = trio.CancelScope()
        self._served: set[str] = set()
        self._read()

    def reconfigured(self) -> None:
        """Constraints may be others now."""
        before = self._submitters
        self._read()
        if self._submitters != before:
            self._served.clear()
            self._watching.cancel()

    def _read(self) -> None:
        config = self._start.config
        self._jobs = config.expr("NEGOTIATOR_JOB_CONSTRAINT")
        self._submitters = config["NEGOTIATOR_SUBMITTER_CONSTRAINT"] or ""

    def choose(self, requests: Iterable[JobRequest]) -> tuple[list[JobRequest], list[Rejected]]:
        """What of this is served, and why the rest is not."""
        chosen, refused = [], []
        for request in requests:
            if reason := self.objection(request):
                refused.append(Rejected(request, request.count, reason))
            else:
                chosen.append(request)
        return chosen, refused

    def objection(self, request: JobRequest) -> str:
        """Why this is not served; empty when it is."""
        if self._submitters and _key(request.submitter, request.schedd) not in self._served:
            return NOT_THE_SUBMITTER
        if self._jobs is not None and self._jobs.eval(request.ad) is not True:
            return NOT_THE_JOB
        return ""

    async def run(self) -> None:
        """Watch submitters, for ever; but where there is no constraint nothing is asked of the collector."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                with self._watching:
                    if not self._submitters:
                        await trio.sleep_forever()
                    await self._watch(backoff)
            except PoolError as error:
                self._start.log.full(f"The collector tells nothing of submitters: {error}")
            self._watching = trio.CancelScope()
            await backoff.wait()

    async def _watch(self, backoff: Backoff) -> None:
        heard = set[str]()
        async with collector_connected(self._start) as peer:
            async with peer.stream(WatchAds(ad_types=["Submitter"], constraint=self._submitters)) as deltas:
                async for delta in deltas:
                    if delta.change is AdChange.SYNCED:
                        backoff.reset()
                        self._served &= heard
                        self._changed()
                    else:
                        heard.add(delta.name.lower())
                        self._hear(delta)

    def _hear(self, delta: AdDelta) -> None:
        name = delta.name.lower()
        if (delta.change is not AdChange.REMOVE) != (name in self._served):
            self._served ^= {name}
            self._changed()


def _key(submitter: str, schedd: str) -> str:
    return kept_name(ClassAd({"MyType": "Submitter", "Name": submitter, "ScheddName": schedd})).lower()
