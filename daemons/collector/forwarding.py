"""What a collector tells the collectors of CONDOR_VIEW_HOST: a view of this pool, or the next higher in a tree.

They are sent an ad when it comes here, and then what is different in it (`Adverts`); of an ad that has gone here they
hear that it has. This collector's end takes nothing back from them: when it comes again so do the ads, and those that
do not expire there.

Source: HTCondor's manual, "Collector Daemon Configuration Options" (COLLECTOR_FORWARD_*, CONDOR_VIEW_CLASSAD_TYPES);
what is this collector's own word of an ad is left out, for the next one says that itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.base.sync import Signal
from daemons.daemon_core.adverts import Adverts
from daemons.daemon_core.locate import collector_at, is_this_host
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from pool.ads.key import Key
from pool.ads.table import AdStore, StoredAd
from pool.classad import ClassAd, Expr
from pool.config import Config
from protocol.wire.address import Address

TAKEN_AT_ONCE: Final = 64
OWN_WORDS: Final = ("LastHeardFrom", "AuthenticatedIdentity", "AuthenticationMethod")
ALWAYS: Final = ("MyType", "Name", "ScheddName", "ClassAdLifetime")
"""Without these an ad would be another's, or live for another time."""


@dataclass(frozen=True, slots=True)
class ForwardSettings:
    """What of the ads is forwarded, and how often."""

    types: tuple[str, ...]
    filtering: bool
    watched: tuple[str, ...]
    interval_s: float
    claimed_private: bool
    projection: Expr | None

    @classmethod
    def read(cls, config: Config) -> ForwardSettings:
        """From the configuration."""
        return cls(
            types=tuple(config.list("CONDOR_VIEW_CLASSAD_TYPES")),
            filtering=config.bool("COLLECTOR_FORWARD_FILTERING"),
            watched=tuple(config.list("COLLECTOR_FORWARD_WATCH_LIST")),
            interval_s=config.seconds("COLLECTOR_FORWARD_INTERVAL"),
            claimed_private=config.bool("COLLECTOR_FORWARD_CLAIMED_PRIVATE_ADS"),
            projection=config.expr("COLLECTOR_FORWARD_PROJECTION"),
        )

    def forwarded(self, stored: StoredAd) -> tuple[ClassAd, ClassAd | None]:
        """The ad and its private half as the next collector gets them."""
        ad, private = stored.ad, stored.private
        for name in OWN_WORDS:
            ad.pop(name, None)
        if not self.claimed_private and ad.eval_str("State") == "Claimed":
            private = None
        chosen = self.projection.eval(ad) if self.projection is not None else None
        if isinstance(chosen, str) and (names := chosen.replace(",", " ").split()):
            ad = ad.project([*names, *ALWAYS])
        return ad, private


def view_addresses(config: Config) -> list[Address]:
    """The collectors of CONDOR_VIEW_HOST; this one tells itself nothing."""
    return [collector_at(config, host) for host in config.list("CONDOR_VIEW_HOST") if not is_this_host(config, host)]


class Forwarding:
    """The ads of one table, at other collectors."""

    def __init__(self, start: DaemonStart, table: AdStore, addresses: Sequence[Address]) -> None:
        self._start, self._table = start, table
        self._adverts = Adverts(start, addresses, of_others=True)
        self._told: dict[Key, tuple[float, tuple[object, ...]]] = {}
        """When an ad was last forwarded, and what of it is watched."""
        self.reconfigured()

    def reconfigured(self) -> None:
        """What changes from now on goes by the new configuration; types, from the next start on."""
        self._settings = ForwardSettings.read(self._start.config)

    async def run(self) -> None:
        """Forward until cancelled."""
        changed = Signal()
        watch = self._table.watch(self._settings.types, None, changed.fire)
        self._told.clear()
        for ad_type, name in self._adverts.names():  # of what went while this did not run
            if self._table.get(ad_type, name) is None:
                self._adverts.drop(ad_type, name)
        try:
            async with trio.open_nursery() as nursery:
                Tasks(nursery, self._start.log).keep(self._adverts.run)
                pace = Pace()
                while True:
                    news = changed.next()
                    for told in watch.take(TAKEN_AT_ONCE):
                        if told.stored is not None:
                            self._forward(told.stored)
                        elif told.before is not None:
                            self._told.pop(told.before.key, None)
                            self._adverts.drop(told.ad_type, told.name)
                        await pace.breathe()
                    if not watch:
                        await news.wait()
        finally:
            self._table.unwatch(watch)

    def _forward(self, stored: StoredAd) -> None:
        settings, now = self._settings, trio.current_time()
        if settings.filtering:
            seen = stored.kept.view()
            values = tuple(seen.eval(name) for name in settings.watched)
            last_at, before = self._told.get(stored.key, (-settings.interval_s, None))
            if values == before and now - last_at < settings.interval_s:
                return
            self._told[stored.key] = now, values
        self._adverts.put(*settings.forwarded(stored))
