"""What watchers of a collector's ads are told: all that is there, or what has happened since; then each change."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from pool.ads.limits import asked_for
from pool.ads.seen import AdChange
from pool.ads.table import AdStore, Told, Watch
from pool.base.ids import is_number
from pool.classad import ClassAd, expr
from protocol.messages.collector import AdDelta, WatchAds
from protocol.rpc.deadlines import LongWait
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer
from protocol.security import needs
from protocol.security.authorize import Denied

DELTAS_AT_ONCE_MAX: Final = 64
GENERATION_BYTES: Final = 8
DIGITS_MAX: Final = 18


class Watches:
    """The watches of one table of ads, for as long as this process lives: that is its generation."""

    def __init__(self, start: DaemonStart, table: AdStore) -> None:
        self._start, self._table = start, table
        self._generation = secrets.token_hex(GENERATION_BYTES)
        self._began = trio.current_time()

    def answers(self) -> list[Answer]:
        """Whoever may read may watch."""
        return [answer(WatchAds, self.watch)]

    async def watch(self, peer: Peer, request: WatchAds, send: SendItem[AdDelta]) -> None:
        """All ads of the types, or what became of them since the token; then each change, until the watcher leaves."""
        if request.private and (objection := needs.PRIVATE_ADS.objection(peer.who)):
            raise Denied(f"{peer.identity} may not see the private halves of ads: it {objection}")
        wanted = asked_for(request.projection)
        constraint = expr(request.constraint) if request.constraint else None
        changed, since = Signal(), self._since(request.resume)
        watch = self._table.watch(request.ad_types, constraint, changed.fire, since=since, goes_on=bool(request.resume))
        synced, settled = False, request.resume is None
        try:
            while True:
                news = changed.next()
                await self._tell(watch, request, wanted, send)
                # Only once nothing waits: a watcher takes what was not named before SYNCED to be gone.
                if not synced and not watch:
                    settled = settled or self._settles_in_s() <= 0
                    await send(self._synced(since is not None, settled))
                    synced = True
                elif synced and not settled and self._settles_in_s() <= 0:
                    settled = True
                    await send(AdDelta(change=AdChange.SETTLED))
                if not watch:
                    with LongWait(math.inf if settled else max(0.0, self._settles_in_s())):
                        await news.wait()
        finally:
            self._table.unwatch(watch)

    async def _tell(self, watch: Watch, request: WatchAds, wanted: Sequence[str], send: SendItem[AdDelta]) -> None:
        """What is new. A constraint is evaluated as its delta is taken, which may cost much: one, then a breath."""
        pace = Pace()
        while deltas := watch.take(1 if request.constraint else DELTAS_AT_ONCE_MAX):
            for told in deltas:
                if (said := _delta(told, wanted, request)) is not None:
                    await send(said)
            await pace.breathe()

    def _synced(self, resumed: bool, settled: bool) -> AdDelta:
        at, generation = self._table.at, self._generation
        return AdDelta(change=AdChange.SYNCED, at=at, generation=generation, resumed=resumed, settled=settled)

    def _since(self, token: str | None) -> int | None:
        """The number at which the watch of this token ended; None where all has to be told."""
        generation, _, number = (token or "").partition(".")
        if generation != self._generation or not is_number(number) or len(number) > DIGITS_MAX:
            return None
        return int(number) if self._table.remembers(int(number)) else None

    def _settles_in_s(self) -> float:
        """In how many seconds ads of before this process that have not come again would have expired."""
        return self._began + self._table.lifetime_s - trio.current_time()


def _delta(told: Told, wanted: Sequence[str], request: WatchAds) -> AdDelta | None:
    """What a watcher is told; None where it is nothing of what is wanted."""
    ad_type, name, stored, before, at = told
    if stored is None:
        return AdDelta(change=AdChange.REMOVE, ad_type=ad_type, name=name, at=at)
    secret = stored.secret if request.private else None
    if before is None or not request.changes_only or (before.secret is None) != (stored.secret is None):
        ad, private = _chosen(stored.ad, wanted), None if secret is None else secret.ad()
        return AdDelta(change=AdChange.UPDATE, ad_type=ad_type, name=name, ad=ad, private=private, at=at)
    if secret is not None and before.secret is not None and not secret.news_since(before.secret):
        secret = None
    news = stored.kept.news_since(before.kept)
    ad, removed = _chosen(news.changed, wanted), _named(news.removed, wanted)
    if not ad and not removed and secret is None:
        return None
    private = None if secret is None else secret.ad()
    return AdDelta(change=AdChange.CHANGE, ad_type=ad_type, name=name, ad=ad, private=private, removed=removed, at=at)


def _chosen(ad: ClassAd, wanted: Sequence[str]) -> ClassAd:
    return ad.project(wanted) if wanted else ad


def _named(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    keys = {name.lower() for name in wanted}
    return [name for name in names if not wanted or name.lower() in keys]
