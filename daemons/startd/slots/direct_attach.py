"""Offers the free slots to one schedd alone, which matches them itself (STARTD_DIRECT_ATTACH_SCHEDD_NAME).

No negotiator has part in it: what collectors are told of these slots takes no match (`Ads.published`).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from daemons.base.pace import Pace
from daemons.base.sync import Signal, first_of
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.locate import collector_at, nearest
from daemons.daemon_core.run import DaemonStart
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.slot import Slots
from pool.base.errors import PeerError, PoolError
from pool.classad.syntax.unparse import quote
from pool.config import Config
from pool.slots.state_machine import State
from protocol.messages.collector import AdUpdate, QueryAds
from protocol.messages.offers import ATTACHED_SLOTS_MAX, AttachSlots
from protocol.rpc import endpoints
from protocol.wire.address import Address

RETRY_FIRST_S: Final = 1.0
"""How long after a failure the next attempt comes, at first; it doubles up to the interval."""


@dataclass(frozen=True)
class Target:
    """Whose the slots are."""

    schedd: str
    pool: str
    submitter: str
    interval_s: float

    @classmethod
    def read(cls, config: Config) -> Target:
        """What the configuration says now."""
        return cls(
            config.str("STARTD_DIRECT_ATTACH_SCHEDD_NAME"),
            config.str("STARTD_DIRECT_ATTACH_SCHEDD_POOL"),
            config.str("STARTD_DIRECT_ATTACH_SUBMITTER_NAME"),
            config.seconds("STARTD_DIRECT_ATTACH_INTERVAL"),
        )


class DirectAttach:
    """The task that offers."""

    def __init__(self, start: DaemonStart, slots: Slots, ads: Ads) -> None:
        self._start, self._slots, self._ads = start, slots, ads
        self._said = ""
        self._changed = Signal()

    def reconfigured(self) -> None:
        """The knobs may say something else now."""
        self._changed.fire()

    async def run(self) -> None:
        """Offer what is free at each interval; sooner after a failure, and when nothing was free and a claim ends."""
        retry_s = RETRY_FIRST_S
        while True:
            changed = self._changed.next()
            target = Target.read(self._start.config)
            claim_ended = self._slots.claim_ended.next()
            slots = await self._free() if target.schedd else []
            failure = await self._try(target, slots) if slots else ""
            pause_s = min(retry_s, target.interval_s) if failure else target.interval_s
            retry_s = 2 * retry_s if failure else RETRY_FIRST_S
            await first_of(changed, *([] if slots else [claim_ended]), timeout_s=pause_s)

    async def _try(self, target: Target, slots: list[AdUpdate]) -> str:
        """Make one offer; what went wrong."""
        try:
            await self._offer(target, slots)
        except PoolError as error:
            self._say(f"No slots for the schedd {target.schedd}: {error}")
            return str(error) or type(error).__name__
        self._say(f"Slots are offered to the schedd {target.schedd} alone.")
        return ""

    async def _free(self) -> list[AdUpdate]:
        """The slots that can be had, as a collector would be told of them with their claim ids."""
        found, pace = [], Pace()
        for slot in self._slots:
            if slot.state.state is State.UNCLAIMED and self._slots.offers_of(slot):
                found.append(AdUpdate(ad=self._ads.public(slot), private=self._ads.private(slot)))
            await pace.breathe()
        return found

    async def _offer(self, target: Target, slots: list[AdUpdate]) -> None:
        taken = 0
        async with self._connected(await self._address(target)) as schedd:
            for first in range(0, len(slots), ATTACHED_SLOTS_MAX):
                some = slots[first : first + ATTACHED_SLOTS_MAX]
                taken += (await schedd.call(AttachSlots(slots=some, submitter=target.submitter))).taken
        self._start.log.full(f"{len(slots)} slots offered to {target.schedd}; {taken} jobs take them.")

    def _connected(self, address: Address) -> AbstractAsyncContextManager[endpoints.Peer]:
        return endpoints.connected(address, security=self._start.security, network=self._start.world.network)

    async def _address(self, target: Target) -> Address:
        """Where the schedd is, by what the collector of its pool has heard; PeerError when it has not."""
        config = self._start.config
        query = QueryAds(
            ad_type="Scheduler",
            constraint=f"Name == {quote(target.schedd)}",
            projection=["MyAddress"],
        )
        collector = (
            self._connected(collector_at(config, target.pool)) if target.pool else collector_connected(self._start)
        )
        async with collector as peer, peer.stream(query) as batches:
            async for batch in batches:
                for ad in batch.ads:
                    if address := ad.eval_str("MyAddress", ""):
                        return nearest(config, address)
        raise PeerError(f"the collector {target.pool or 'of this pool'} knows of no schedd of this name")

    def _say(self, line: str) -> None:
        """In the log, once until something else is true."""
        if line != self._said:
            self._start.log.always(line)
            self._said = line
