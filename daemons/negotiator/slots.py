"""Keeps the negotiator's slots current: a watch on the collector, for as long as the daemon runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from daemons.base.sync import Backoff
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.run import DaemonStart
from daemons.negotiator.sleepers import Sleepers
from pool.ads.seen import AdChange, SeenAds
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.matching import Offers
from pool.matching.offers import claim_ids_of
from pool.matching.reads import SlotsRead
from pool.power.offline import is_offline
from protocol.messages.collector import AdDelta, WatchAds

RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 10.0

_MATTERS: Final = (
    *("State", "Activity", "Cpus", "Memory", "Disk", "GPUs", "Start", "Requirements", "RemoteUser"),
    "StartdCronChanges",
)
"""Attributes whose change is worth a cycle at once, as are those that waiting jobs ask for; others can wait."""


class SlotWatch:
    """Feeds `offers`; calls `changed` when a slot has become another in a way that matters.

    `asked_for` says whether two ads of a slot differ in what waiting jobs ask for.
    """

    def __init__(
        self,
        start: DaemonStart,
        offers: Offers,
        changed: Callable[[], None],
        asked_for: Callable[[ClassAd | None, ClassAd], bool],
        sleepers: Sleepers,
    ) -> None:
        self._sleepers = sleepers
        self._start, self._offers, self._changed, self._asked_for = start, offers, changed, asked_for
        self._seen = SeenAds()
        self.read = SlotsRead()
        self._claim_ids: dict[str, tuple[str, ...]] = {}
        """What private halves say, which the collector sends only when they are new."""
        self._constraint = self._constraint_now()
        self._watching = trio.CancelScope()
        self.synced = trio.Event()

    async def run(self) -> None:
        """Watch, and begin anew whenever the collector was lost; until then the last known slots stay."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                with self._watching:
                    await self._watch(backoff)
            except PoolError as error:
                self._start.log.always(f"The collector is lost: {error}")
            self._watching = trio.CancelScope()
            await backoff.wait()

    def reconfigured(self) -> None:
        """Slots of another NEGOTIATOR_SLOT_CONSTRAINT are asked for anew; those that it leaves out are gone at once."""
        before, self._constraint = self._constraint, self._constraint_now()
        if self._constraint != before:
            self._seen.forget_token()
            self._watching.cancel()
            self._leave_out()

    def _constraint_now(self) -> str | None:
        return self._start.config["NEGOTIATOR_SLOT_CONSTRAINT"] or None

    def _leave_out(self) -> None:
        constraint = self._start.config.expr("NEGOTIATOR_SLOT_CONSTRAINT")
        if constraint is None:
            return
        for ad in (*self._offers.ads(), *self._sleepers.ads()):
            if constraint.eval(ad) is not True:
                self._forget(ad.eval_str("Name", ""))

    async def _watch(self, backoff: Backoff) -> None:
        async with collector_connected(self._start) as peer:
            request = WatchAds(
                ad_types=["Machine"],
                private=True,
                constraint=self._constraint,
                changes_only=True,
                resume=self._seen.begin(),
            )
            async with peer.stream(request) as deltas:
                async for delta in deltas:
                    self._apply(delta)
                    if delta.change is AdChange.SYNCED:
                        for news in self._seen.doubt_ends():
                            self._forget(news.name)
                        backoff.reset()  # it has told all it knows: when it is lost, it is looked for at once
                        self.synced.set()
                        self._changed()

    def _apply(self, delta: AdDelta) -> None:
        gone = [news for news in self._seen.take(delta) if news.gone]
        for news in gone:
            self._forget(news.name)
        kept = self._seen.kept(delta.ad_type, delta.name)
        if gone or kept is None:
            self._changed()
            return
        ad, had_ids = kept.view(), self._claim_ids.get(delta.name, ())
        is_told = delta.change is not AdChange.CHANGE or bool(delta.private)
        self._claim_ids[delta.name] = ids = claim_ids_of(delta.private) if is_told else had_ids
        self.read.learn(delta.name, ad)
        if is_offline(ad):
            self._offers.remove(delta.name)
            if self._sleepers.put(delta.name, ad):
                self._changed()
            return
        self._sleepers.remove(delta.name)
        before = self._offers.ad(delta.name)
        matters = before is None or ids != had_ids or _look(before) != _look(ad) or self._asked_for(before, ad)
        self._offers.put_with(ad, ids)
        if matters:
            self._changed()

    def _forget(self, name: str) -> None:
        self._offers.remove(name)
        self._sleepers.remove(name)
        self.read.forget(name)
        self._claim_ids.pop(name, None)


def _look(ad: ClassAd) -> list[object]:
    return [ad.get(name) for name in _MATTERS]
