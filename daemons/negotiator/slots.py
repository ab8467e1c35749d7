"""Keeps the negotiator's slots current: a watch on the collector, for as long as the daemon runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from daemons.base.sync import Backoff
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PeerError, PoolError
from pool.classad import ClassAd
from pool.classad.eval.delta import Delta, changed_by
from pool.matching import Offers
from pool.matching.offers import claim_ids_of
from protocol.messages.collector import AdChange, AdDelta, WatchAds

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
    ) -> None:
        self._start, self._offers, self._changed, self._asked_for = start, offers, changed, asked_for
        self._known: dict[str, object] = {}
        self._private: dict[str, ClassAd | None] = {}
        """The private halves, of which the collector says only what is new."""
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
        """NEGOTIATOR_SLOT_CONSTRAINT may be another now: then the slots are asked for anew."""
        before, self._constraint = self._constraint, self._constraint_now()
        if self._constraint != before:
            self._watching.cancel()

    def _constraint_now(self) -> str | None:
        return self._start.config["NEGOTIATOR_SLOT_CONSTRAINT"] or None

    async def _watch(self, backoff: Backoff) -> None:
        async with collector_connected(self._start) as peer:
            request = WatchAds(
                ad_types=["Machine"],
                private=True,
                constraint=self._constraint,
                changes_only=True,
            )
            heard: set[str] | None = set()
            async with peer.stream(request) as deltas:
                async for delta in deltas:
                    if heard is not None and delta.change is AdChange.SYNCED:
                        # Slots of before stay until then: a collector that has just begun knows but few, and all would
                        # be lost for a moment.
                        self._forget_others(heard)
                        heard = None
                        backoff.reset()  # it has told all it knows: when it is lost, it is looked for at once
                        self.synced.set()
                        self._changed()
                    elif delta.change is not AdChange.SYNCED:
                        if heard is not None:
                            heard.add(delta.name)
                        self._apply(delta)

    def _apply(self, delta: AdDelta) -> None:
        if delta.change is AdChange.REMOVE or delta.ad is None:
            self._offers.remove(delta.name)
            self._known.pop(delta.name, None)
            self._private.pop(delta.name, None)
            self._changed()
            return
        before, ad, private = self._offers.ad(delta.name), delta.ad, delta.private
        if delta.change is AdChange.CHANGE:
            if before is None:
                raise PeerError(f"it tells of a change of {delta.name}, which it has not told of before")
            ad = changed_by(before, Delta(delta.ad, delta.removed))
            private = private or self._private.get(delta.name)
        self._private[delta.name] = private
        asked_for = self._asked_for(before, ad)
        self._offers.put(ad, private)
        look = _look(ad, private)
        if self._known.get(delta.name) != look or asked_for:
            self._known[delta.name] = look
            self._changed()

    def _forget_others(self, heard: set[str]) -> None:
        """The collector has said all it knows: what it did not name is gone."""
        for name in set(self._known) - heard:
            self._offers.remove(name)
            del self._known[name]
            self._private.pop(name, None)


def _look(ad: ClassAd, private: ClassAd | None) -> object:
    return [ad.get(name) for name in _MATTERS], claim_ids_of(private)
