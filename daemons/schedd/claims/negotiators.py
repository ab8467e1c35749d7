"""Where the home pool's negotiators are: those of the configuration, and further ones that the collector knows.

A pool may have several, each of which hands out a slice of its slots (NEGOTIATOR_SLOT_CONSTRAINT). Those beside the
collectors are known without a question; what else calls itself a negotiator, a watch tells, at once when it comes.

Source: HTCondor's manual, "Running Multiple Negotiators in One Pool".
"""

from __future__ import annotations

from typing import Final

from daemons.base.sync import Backoff, Signal
from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.locate import nearest, negotiator_addresses
from daemons.daemon_core.run import DaemonStart
from pool.ads.seen import AdChange, SeenAds
from pool.base.errors import PoolError, UserError
from pool.config import Config
from protocol.messages.collector import WatchAds
from protocol.wire.address import Address

RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 5.0
NEGOTIATORS_MAX: Final = 100
"""More of them than any pool has are not believed."""
_TYPES: Final = ("Negotiator", "HAD")
"""The ads of those that negotiate, and of those that stand by."""


class Negotiators:
    """`addresses` says where they are now; `changed` fires when they may be elsewhere."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._seen = SeenAds()
        self._further: tuple[Address, ...] = ()
        self._connected: set[Address] = set()
        self.changed = Signal()

    def addresses(self, config: Config) -> list[Address]:
        """Each once, as far as that can be told by their addresses; ConfigError where not even the first is known."""
        known = negotiator_addresses(config)
        places = {(one.path, one.host, one.port, one.sock) for one in known}
        return [*known, *(one for one in self._further if (one.path, one.host, one.port, one.sock) not in places)]

    async def run(self) -> None:
        """Follow the collector, for ever; while it is away, those that are known stay."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                await self._watch(backoff)
            except PoolError as error:
                self._start.log.full(f"Negotiators are not watched: {error}")
            await backoff.wait()

    async def _watch(self, backoff: Backoff) -> None:
        async with collector_connected(self._start) as peer:
            shown = ["MyType", "Name", "MyAddress"]
            request = WatchAds(ad_types=list(_TYPES), projection=shown, resume=self._seen.begin())
            async with peer.stream(request) as deltas:
                async for delta in deltas:
                    self._seen.take(delta)
                    if delta.change in (AdChange.SYNCED, AdChange.SETTLED):
                        backoff.reset()
                    self._look()

    def connected(self, address: Address, is_connected: bool) -> None:
        """A negotiator that there is a connection to is there, whatever becomes of its ad."""
        if is_connected:
            self._connected.add(address)
        else:
            self._connected.discard(address)
            self._look()

    def _look(self) -> None:
        found = self._connected.intersection(self._further)
        for ad in self._seen:
            try:
                found.add(nearest(self._start.config, ad.eval_str("MyAddress", "")))
            except UserError:
                pass  # it does not say where it is
        further = tuple(sorted(found, key=str)[:NEGOTIATORS_MAX])
        if further != self._further:
            self._further = further
            self.changed.fire()
