"""The slots of machines that sleep: a cycle's leftovers look at them, and the collector is told which are wanted.

That goes on beside the cycles. A slot that is wanted again and again is told of no more often than each AGAIN_S: nobody
acts on it sooner, and each word of it changes an ad that the collector keeps on disk.

Source: HTCondor's manual, "Keeping a ClassAd for a Hibernating Machine" and "Machine ClassAd Attributes"
(MachineLastMatchTime).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from daemons.base.sync import Backoff, Signal
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.matching import Matched
from protocol.messages.collector import NoteWanted, WantedSlot

AGAIN_S: Final = 10.0
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 10.0
SLOTS_AT_ONCE_MAX: Final = 200


class Sleepers:
    """Their ads, and what is to be told of them."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._ads: dict[str, ClassAd] = {}
        self._told_at: dict[str, float] = {}
        self._waiting: dict[str, WantedSlot] = {}
        self._news = Signal()

    def put(self, name: str, ad: ClassAd) -> bool:
        """A slot sleeps; whether it is news."""
        is_new = name not in self._ads
        self._ads[name] = ad
        return is_new

    def remove(self, name: str) -> None:
        """A slot is awake, or gone."""
        for known in (self._ads, self._told_at, self._waiting):
            known.pop(name, None)

    def ads(self) -> list[ClassAd]:
        """All of them."""
        return list(self._ads.values())

    def wanted(self, matches: Iterable[Matched]) -> None:
        """A cycle has found jobs for these."""
        by_slot: dict[str, list[Matched]] = {}
        for matched in matches:
            by_slot.setdefault(matched.slot, []).append(matched)
        now = trio.current_time()
        for name, found in by_slot.items():
            if name in self._ads and now - self._told_at.get(name, -AGAIN_S) >= AGAIN_S:
                self._told_at[name] = now
                self._waiting[name] = WantedSlot(name=name, count=len(found), jobs=_jobs(found))
        if self._waiting:
            self._news.fire()

    async def run(self) -> None:
        """Tell the collector, for ever."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            news = self._news.next()
            if not self._waiting:
                await news.wait()
                continue
            try:
                await self._tell()
                backoff.reset()
            except PoolError as error:
                self._start.log.always(f"The collector does not hear which sleeping machines are wanted: {error}")
                await backoff.wait()

    async def _tell(self) -> None:
        """Tell all that waits; what the connection does not take is told on the next."""
        async with collector_connected(self._start) as peer:
            while some := list(self._waiting.values())[:SLOTS_AT_ONCE_MAX]:
                await peer.call(NoteWanted(slots=some))
                for one in some:
                    if self._waiting.get(one.name) is one:
                        del self._waiting[one.name]
                names = ", ".join(one.name for one in some)
                self._start.log.say("D_MATCH", f"There are jobs for machines that sleep: {names}.")


def _jobs(found: list[Matched]) -> list[ClassAd]:
    """Whose jobs they are, as OfflineMatches shows it."""
    counts: dict[tuple[str, int], int] = {}
    for matched in found:
        key = matched.request.schedd, matched.request.autocluster
        counts[key] = counts.get(key, 0) + 1
    return [
        ClassAd({"Scheduler": schedd, "AutoclusterID": autocluster, "RequestCount": count})
        for (schedd, autocluster), count in counts.items()
    ]
