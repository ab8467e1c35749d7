"""Keeps a daemon's ads at the pool's collectors.

A daemon says what shall be there: `put` an ad, or another under the same type and name; `drop` one. A task per
collector brings that about, at once at each change, after a lost connection, and each UPDATE_INTERVAL for those ads of
which it has not spoken for a while, so that lifetimes do not run out. At the daemon's end its ads are taken back.

A collector is sent each ad whole once on a connection, and then what is different. One that has not the ad which the
changes are of (it expired, or somebody else gave it another) says so, and is sent the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import trio

from daemons.base.sync import Backoff, Signal, first_of
from daemons.daemon_core.locate import collector_addresses
from daemons.daemon_core.tasks import Tasks
from pool.ads.kept import KeptAd
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.hosts.daemon_names import kept_name
from pool.power.offline import is_offline
from protocol.messages.collector import AdChanges, AdUpdate, ChangeAds, InvalidateAds, UpdateAds, UpdateAlike
from protocol.rpc import endpoints
from protocol.wire.ad_rows import pack_rows
from protocol.wire.address import Address
from protocol.wire.message import Request

if TYPE_CHECKING:
    from daemons.daemon_core.run import DaemonStart

ADS_PER_UPDATE_MAX: Final = 50
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 30.0
GOODBYE_S: Final = 2.0

CLOCKS: Final = frozenset({"mycurrenttime"})
"""An ad that is different in nothing else is not news."""
OWN_INTERVAL: Final = {"MASTER": "MASTER_UPDATE_INTERVAL", "DEFRAG": "DEFRAG_UPDATE_INTERVAL"}
FIRST_VERSION_BITS: Final = 48
"""Versions begin at chance: what another daemon of the same name has sent is never taken for this one's."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Advert:
    """An ad that shall be there, and its secret half; small, for a collector forwards all of its ads."""

    ad: KeptAd
    private: KeptAd | None


@dataclass(frozen=True, slots=True)
class _Sent:
    """What a collector has of an ad, as far as its sender knows."""

    advert: _Advert
    version: int
    at: float


class _Target:
    """One collector, and what it does not know yet."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.stale: dict[Key, bool] = {}  # in the order in which the ads changed; whether it is to be renewed
        self.sent: dict[Key, _Sent] = {}
        self.changed = Signal()
        self.telling = False
        self.peer: endpoints.Peer | None = None


class Adverts:
    """The ads that a daemon wants to be known, and the tasks that make them so."""

    def __init__(self, start: DaemonStart, addresses: Sequence[Address] = (), *, of_others: bool = False) -> None:
        self._start = start
        self._of_others = of_others
        """They are not this daemon's: its own is not among them, and its end is not theirs."""
        self._addresses = addresses
        """Collectors of other pools; the own pool's where there are none."""
        self._ads: dict[Key, _Advert] = {}
        self._own: Key | None = None
        self._targets: list[_Target] = []
        self._reached = trio.Event()
        self._told = Signal()
        """A collector has all that it was to be told."""
        self._versions = itertools.count(start.world.rng.getrandbits(FIRST_VERSION_BITS) + 1)

    def put(self, ad: ClassAd, private: ClassAd | None = None) -> None:
        """From now on this is the ad of its MyType and name (`kept_name`); `private` is its secret half."""
        key = _key(ad)
        before = self._ads.get(key)
        # A copy: what is sent next is what is different from this, whatever its maker does with his.
        kept = KeptAd(ad, like=None if before is None else before.ad)
        self._ads[key] = _Advert(kept, None if private is None else KeptAd(private))
        self._changed(key)

    def drop(self, ad_type: str, name: str) -> None:
        """There shall be no ad that is kept under this name any more."""
        if self._ads.pop((ad_type, name), None) is not None:
            self._changed((ad_type, name))

    def names(self) -> list[Key]:
        """Type and name of each ad that shall be there."""
        return list(self._ads)

    def refresh(self) -> None:
        """Make the daemon's own ad anew and publish it."""
        ad = self._start.own_ad()
        if "MyType" in ad:
            self._own = _key(ad)
            self.put(ad)

    async def reached(self) -> None:
        """Wait until a collector has everything that was put."""
        await self._reached.wait()

    async def has_all(self, ad_type: str, names: Iterable[str]) -> None:
        """Wait until a collector has these ads as they were put last; those that it refuses it never has."""
        keys = [(ad_type, name) for name in names]
        await self._told.until(lambda: any(self._has(target, keys) for target in self._targets))

    def _has(self, target: _Target, keys: Iterable[Key]) -> bool:
        if target.peer is None or target.telling:
            return False
        return all(key in target.sent and target.sent[key].advert is self._ads.get(key) for key in keys)

    async def run(self) -> None:
        """Publish until cancelled, then say goodbye on the connections that there are."""
        if not self._targets:
            addresses = self._addresses or collector_addresses(self._start.config)
            self._targets = [_Target(address) for address in addresses]
        ending = trio.Event()
        async with trio.open_nursery() as outer:
            outer.start_soon(self._run_shielded, ending)
            try:
                await trio.sleep_forever()
            finally:
                ending.set()

    async def _run_shielded(self, ending: trio.Event) -> None:
        """The connections outlive the cancellation by as long as the goodbye takes."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                tasks = Tasks(nursery, self._start.log)
                for target in self._targets:
                    tasks.keep(self._keep, target)
                tasks.keep(self._repeat)
                await ending.wait()
                if not self._of_others:
                    await self._say_goodbye()
                nursery.cancel_scope.cancel()

    async def _say_goodbye(self) -> None:
        with trio.move_on_after(GOODBYE_S):
            async with trio.open_nursery() as goodbyes:
                for target in self._targets:
                    Tasks(goodbyes, self._start.log).once(self._take_back, target)

    # ---- inside

    def _changed(self, key: Key) -> None:
        for target in self._targets:
            # To the end of the order: an ad that changes all the time does not hold up the others.
            target.stale[key] = target.stale.pop(key, False)
            target.changed.fire()

    def _renew(self, before: float) -> None:
        """Let the collectors hear of the ads of which they have heard nothing since then."""
        for target in self._targets:
            for key in self._ads:
                if (sent := target.sent.get(key)) is None or sent.at <= before:
                    target.stale[key] = True
            target.changed.fire()

    async def _repeat(self) -> None:
        while True:
            interval_s = self._start.config.seconds(OWN_INTERVAL.get(self._start.subsystem, "UPDATE_INTERVAL"))
            await trio.sleep(interval_s)
            if not self._of_others:
                self.refresh()
            self._renew(trio.current_time() - interval_s / 2)

    async def _keep(self, target: _Target) -> None:
        """Stay connected to one collector."""
        log, backoff = self._start.log, Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                async with endpoints.connected(
                    target.address, security=self._start.security, network=self._start.world.network
                ) as peer:
                    # A new connection may be to a collector that has been restarted and knows nothing, or to one that
                    # has heard nothing of ads that are gone since.
                    target.stale = dict.fromkeys((*target.sent, *self._ads), True)
                    target.sent = {key: sent for key, sent in target.sent.items() if key not in self._ads}
                    log.full("Connected to the collector.", address=target.address)
                    backoff.reset()
                    await self._publish(target, peer)
            except PoolError as error:
                log.say("D_ALWAYS" if backoff.now_s >= 1.0 else "D_FULLDEBUG", f"Collector {target.address}: {error}")
            await backoff.wait()

    async def _publish(self, target: _Target, peer: endpoints.Peer) -> None:
        target.peer = peer
        try:
            while not peer.closed.is_set():
                target.telling = True
                await self._send_stale(target, peer)
                target.telling = False
                self._reached.set()
                self._told.fire()
                if not target.stale:
                    await first_of(target.changed, peer.closed)
        finally:
            target.peer = None

    async def _send_stale(self, target: _Target, peer: endpoints.Peer) -> None:
        while target.stale:
            # Taken before the calls: what changes while they are on their way is stale again, and is sent once more.
            some = {key: target.stale.pop(key) for key in list(target.stale)[:ADS_PER_UPDATE_MAX]}
            there = [key for key in some if key in self._ads]
            await self._send_changes(target, peer, {key: some[key] for key in there if key in target.sent})
            await self._send_whole(target, peer, [key for key in there if key not in target.sent])
            for key in some.keys() - set(there):
                await self._call(target, peer, InvalidateAds(ad_type=key[0], names=[key[1]]))
                target.sent.pop(key, None)  # not before: what the connection did not take is said on the next

    async def _send_changes(self, target: _Target, peer: endpoints.Peer, keys: Mapping[Key, bool]) -> None:
        """Say what is different in ads that the collector has; those that it has not after all are sent whole next."""
        changes: dict[Key, AdChanges] = {}
        for key, renew in keys.items():
            sent, now = target.sent[key], self._ads.get(key)
            news = _changes(key, sent, now, next(self._versions)) if now is not None else None
            if now is None or news is None:  # gone meanwhile, or to be told whole
                del target.sent[key]
            elif renew or _is_news(news):
                changes[key] = news
                target.sent[key] = _Sent(now, news.version, trio.current_time())
        if not changes:
            return
        try:
            kept = await peer.call(ChangeAds(changes=list(changes.values())))
            missing = [key for number, key in enumerate(changes) if number in kept.whole]
        except endpoints.RemoteError:  # whole they are taken, or refused for a reason that is logged then
            missing = list(changes)
        for key in missing:
            target.sent.pop(key, None)

    async def _send_whole(self, target: _Target, peer: endpoints.Peer, keys: Sequence[Key]) -> None:
        sent = {key: _Sent(self._ads[key], next(self._versions), 0.0) for key in keys if key in self._ads}
        for alike in _alike(sent):
            try:
                await peer.call(_as_rows([*alike.values()]))
            except endpoints.RemoteError:  # it knows no rows, or refuses an ad, of which it says more below
                continue
            self._are_sent(target, alike)
        left = {key: one for key, one in sent.items() if key not in target.sent}
        updates = [_whole(one.advert, one.version) for one in left.values()]
        if updates and await self._call(target, peer, UpdateAds(updates=updates)):
            self._are_sent(target, left)

    def _are_sent(self, target: _Target, sent: Mapping[Key, _Sent]) -> None:
        now = trio.current_time()
        target.sent.update({key: replace(one, at=now) for key, one in sent.items()})

    async def _call(self, target: _Target, peer: endpoints.Peer, request: Request[Any]) -> bool:
        """Whether the collector has done it; asking again would not help before something changes."""
        try:
            await peer.call(request)
        except endpoints.RemoteError as error:
            self._start.log.always(f"The collector refuses ads: {error}", address=target.address)
            return False
        return True

    async def _take_back(self, target: _Target) -> None:
        peer = target.peer
        if peer is None:
            return
        by_type: dict[str, list[str]] = {}
        for (ad_type, name), advert in self._ads.items():
            if not is_offline(advert.ad.view()):  # such an ad is there to outlast its daemon: the machine goes down
                by_type.setdefault(ad_type, []).append(name)
        try:
            for ad_type, names in by_type.items():
                await peer.call(InvalidateAds(ad_type=ad_type, names=names))
        except PoolError:
            pass  # the lifetimes of the ads will do it


def _whole(advert: _Advert, version: int) -> AdUpdate:
    private = None if advert.private is None else advert.private.ad()
    return AdUpdate(ad=advert.ad.ad(), private=private, version=version)


def _alike(sent: Mapping[Key, _Sent]) -> list[dict[Key, _Sent]]:
    """Those that have the same names, together."""
    found: dict[object, dict[Key, _Sent]] = {}
    for key, one in sent.items():
        private = one.advert.private
        forms = one.advert.ad.form, None if private is None else private.form
        found.setdefault(forms, {})[key] = one
    return [*found.values()]


def _as_rows(sent: Sequence[_Sent]) -> UpdateAlike:
    privates = [one.advert.private for one in sent if one.advert.private is not None]
    return UpdateAlike(
        table=pack_rows([one.advert.ad for one in sent]),
        private=pack_rows(privates) if privates else b"",
        versions=[one.version for one in sent],
    )


def _changes(key: Key, sent: _Sent, now: _Advert, version: int) -> AdChanges | None:
    """What is different since the ad was sent; None where a private half has come or gone."""
    before = sent.advert
    if (before.private is None) != (now.private is None):
        return None
    news, private = now.ad.news_since(before.ad), None
    if now.private is not None and before.private is not None and now.private.news_since(before.private):
        private = now.private.ad()
    ad_type, name = key
    return AdChanges(
        ad_type=ad_type,
        name=name,
        base=sent.version,
        version=version,
        changed=news.changed,
        removed=list(news.removed),
        private=private,
    )


def _is_news(changes: AdChanges) -> bool:
    return bool(changes.removed) or changes.private is not None or bool(changes.changed.attrs.keys() - CLOCKS)


def _key(ad: ClassAd) -> Key:
    return str(ad["MyType"]), kept_name(ad)
