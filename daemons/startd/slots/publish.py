"""Sends the slots' ads to the pool's collectors, and shows them to whoever asks this startd itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.base.sync import Signal, first_of
from daemons.daemon_core.adverts import Adverts
from daemons.startd.slots.ads import Ads, select
from daemons.startd.slots.slot import Slot, Slots
from daemons.startd.slots.snapshot import snapshot
from pool.ads.limits import asked_for
from pool.classad import ClassAd, expr
from pool.classad.eval.budget import Patience
from pool.power.offline import offline_ad
from pool.slots.state_machine import State
from protocol.messages.collector import QueryAds
from protocol.messages.common import AdBatch
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer

DEBOUNCE_S: Final = 0.01
CLAIMED_DEBOUNCE_S: Final = 0.5
"""A claim that goes from job to job changes its slot's ad at each, and nobody can use the slot meanwhile."""
ADS_PER_BATCH: Final = 100


class Publisher:
    """Collects which slots have changed and has their ads sent together, a moment later."""

    def __init__(self, slots: Slots, ads: Ads, adverts: Adverts) -> None:
        self._slots = slots
        self._ads = ads
        self._adverts = adverts
        self._stale: dict[str, None] = {}
        self._changed = Signal()
        self._urgent = trio.Event()
        self._known_claimed: set[str] = set()

    def changed(self, slot: Slot) -> None:
        """The slot's ad is not what the collectors have."""
        if slot.state.state is not State.CLAIMED or slot.name not in self._known_claimed:
            self._urgent.set()
        self._stale[slot.name] = None
        if slot.parent is not None:
            self._stale[slot.parent.name] = None
        self._changed.fire()

    def all_changed(self) -> None:
        """Every slot's ad is to be sent."""
        for slot in self._slots:
            self._stale[slot.name] = None
        self._urgent.set()
        self._changed.fire()

    def put_now(self) -> None:
        """Hand over the ads of all slots that have changed."""
        for name in self._take_stale():
            self._put(name)

    def _take_stale(self) -> list[str]:
        stale, self._stale = self._stale, {}
        self._urgent = trio.Event()
        return list(stale)

    def _put(self, name: str) -> None:
        slot = self._slots.get(name)
        self._known_claimed.discard(name)
        if slot is not None and slot.state.state is State.CLAIMED:
            self._known_claimed.add(name)
        if slot is None:
            self._adverts.drop("Machine", name)
        elif self._slots.asleep:
            self._adverts.put(offline_ad(self._ads.published(slot), self._slots.asleep))
        else:
            self._adverts.put(self._ads.published(slot), self._ads.private(slot))

    def answers(self) -> list[Answer]:
        """What anybody asks who may read."""
        return [answer(QueryAds, self.answer)]

    async def run(self) -> None:
        """Send at each change, and everything each UPDATE_INTERVAL."""
        while True:
            if not self._stale and await first_of(self._changed, timeout_s=self._ads.settings.update_s) is None:
                self._ads.refresh()
                self.all_changed()
            with trio.move_on_after(CLAIMED_DEBOUNCE_S):
                await self._urgent.wait()
            await trio.sleep(DEBOUNCE_S)
            pace = Pace()
            for name in self._take_stale():
                self._put(name)
                await pace.breathe()

    async def answer(self, peer: Peer, asked: QueryAds, send: SendItem[AdBatch]) -> None:
        """The slots' ads as they are now (`condor_status -direct`)."""
        if asked.ad_type.lower() not in ("machine", "any"):
            return
        constraint = Patience(expr(asked.constraint)) if asked.constraint else None
        wanted, limit, pace = asked_for(asked.projection), asked.limit, Pace()
        if asked.snapshot:
            answer, limit = snapshot(list(self._slots), self._ads, constraint, limit), None
        else:
            self._ads.refresh()
            answer = select((self._ads.public(slot) for slot in list(self._slots)), constraint)
        found: list[ClassAd] = []
        for ad in answer:
            await pace.breathe()
            if limit is not None and len(found) >= limit:
                break
            if ad is not None:
                found.append(_projected(ad, wanted))
        for first in range(0, len(found), ADS_PER_BATCH):
            await send(AdBatch(ads=found[first : first + ADS_PER_BATCH]))


def _projected(ad: ClassAd, names: Sequence[str]) -> ClassAd:
    return ad.project(names) if names else ad
