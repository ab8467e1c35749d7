"""Keeps a daemon's ads at the pool's collectors.

A daemon says what shall be there: `put` an ad, or another under the same type and name; `drop` one. A task per
collector brings that about, at once at each change, after a lost connection, and everything anew each UPDATE_INTERVAL,
so that lifetimes do not run out. At the daemon's end its ads are taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from daemons.base.sync import Backoff, Signal, first_of
from daemons.daemon_core.locate import collector_addresses
from daemons.daemon_core.tasks import Tasks
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.hosts.daemon_names import kept_name
from protocol.messages.collector import AdUpdate, InvalidateAds, UpdateAds
from protocol.rpc import endpoints
from protocol.wire.address import Address
from protocol.wire.message import Request

if TYPE_CHECKING:
    from daemons.daemon_core.run import DaemonStart

ADS_PER_UPDATE_MAX: Final = 50
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 30.0
GOODBYE_S: Final = 2.0

Key = tuple[str, str]


class _Target:
    """One collector, and what it does not know yet."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.stale: dict[Key, None] = {}  # in the order in which the ads changed
        self.changed = Signal()
        self.peer: endpoints.Peer | None = None


class Adverts:
    """The ads that a daemon wants to be known, and the tasks that make them so."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._ads: dict[Key, AdUpdate] = {}
        self._own: Key | None = None
        self._targets: list[_Target] = []
        self._reached = trio.Event()

    def put(self, ad: ClassAd, private: ClassAd | None = None) -> None:
        """From now on this is the ad of its MyType and name (`kept_name`); `private` is its secret half."""
        key = _key(ad)
        self._ads[key] = AdUpdate(ad=ad, private=private)
        self._changed(key)

    def drop(self, ad_type: str, name: str) -> None:
        """There shall be no ad that is kept under this name any more."""
        if self._ads.pop((ad_type, name), None) is not None:
            self._changed((ad_type, name))

    def refresh(self) -> None:
        """Make the daemon's own ad anew and publish it."""
        ad = self._start.own_ad()
        if "MyType" in ad:
            self._own = _key(ad)
            self.put(ad)

    async def reached(self) -> None:
        """Wait until a collector has everything that was put."""
        await self._reached.wait()

    async def run(self) -> None:
        """Publish until cancelled, then say goodbye on the connections that there are."""
        self._targets = [_Target(address) for address in collector_addresses(self._start.config)]
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
                with trio.move_on_after(GOODBYE_S):
                    async with trio.open_nursery() as goodbyes:
                        for target in self._targets:
                            Tasks(goodbyes, self._start.log).once(self._take_back, target)
                nursery.cancel_scope.cancel()

    # ---- inside

    def _changed(self, key: Key) -> None:
        for target in self._targets:
            # To the end of the order: an ad that changes all the time does not hold up the others.
            target.stale.pop(key, None)
            target.stale[key] = None
            target.changed.fire()

    async def _repeat(self) -> None:
        while True:
            knob = "MASTER_UPDATE_INTERVAL" if self._start.subsystem == "MASTER" else "UPDATE_INTERVAL"
            await trio.sleep(self._start.config.seconds(knob))
            self.refresh()
            for key in list(self._ads):
                self._changed(key)

    async def _keep(self, target: _Target) -> None:
        """Stay connected to one collector."""
        log, backoff = self._start.log, Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        while True:
            try:
                async with endpoints.connected(
                    target.address, security=self._start.security, network=self._start.world.network
                ) as peer:
                    # A new connection may be to a collector that has been restarted and knows nothing.
                    target.stale = dict.fromkeys(self._ads)
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
                await self._send_stale(target, peer)
                self._reached.set()
                if not target.stale:
                    await first_of(target.changed, peer.closed)
        finally:
            target.peer = None

    async def _send_stale(self, target: _Target, peer: endpoints.Peer) -> None:
        while target.stale:
            keys = list(target.stale)[:ADS_PER_UPDATE_MAX]
            for key in keys:
                # Before the call: what changes while it is on its way is stale again, and is sent once more.
                del target.stale[key]
            updates = [self._ads[key] for key in keys if key in self._ads]
            requests: list[Request[Any]] = [UpdateAds(updates=updates)] if updates else []
            gone = [key for key in keys if key not in self._ads]
            requests += [InvalidateAds(ad_type=ad_type, names=[name]) for ad_type, name in gone]
            for request in requests:
                try:
                    await peer.call(request)
                except endpoints.RemoteError as error:  # refused: asking again would not help before something changes
                    self._start.log.always(f"The collector refuses ads: {error}", address=target.address)

    async def _take_back(self, target: _Target) -> None:
        peer = target.peer
        if peer is None:
            return
        by_type: dict[str, list[str]] = {}
        for ad_type, name in self._ads:
            by_type.setdefault(ad_type, []).append(name)
        try:
            for ad_type, names in by_type.items():
                await peer.call(InvalidateAds(ad_type=ad_type, names=names))
        except PoolError:
            pass  # the lifetimes of the ads will do it


def _key(ad: ClassAd) -> Key:
    return str(ad["MyType"]), kept_name(ad)
