"""The collector: every ad of the pool, each for its lifetime. Whoever lives says so again when it restarts.

Who may publish what goes by the ad's type (`protocol.security.needs.ADS`), and a host of the pool speaks of itself
alone: the ads that it publishes, replaces or takes back name the host of its certificate. The central manager's hosts,
its own processes and whoever has a token with the level are not bound to a host. The private half of an ad, which holds
claim ids, is given to nobody but the negotiator.

Source: HTCondor's manual, "Collector Daemon Configuration Options" (CLASSAD_LIFETIME, COLLECTOR_REQUIREMENTS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from sys import intern
from typing import Final, NamedTuple

import trio

from daemons.base.pace import Pace
from daemons.base.sync import Signal, first_of
from daemons.collector.forwarding import Forwarding, view_addresses
from daemons.collector.persistent import PersistentAds
from daemons.collector.watches import Watches
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.senders import bound_to, may_give
from daemons.daemon_core.tasks import Tasks
from pool.ads.absent import AbsentAds
from pool.ads.kept import KeptAd, came
from pool.ads.key import Key, key_of
from pool.ads.limits import asked_for, daemon_limits
from pool.ads.offline import OfflineAds, startd_of
from pool.ads.table import ANY, AdStore, Place, StoredAd
from pool.base.errors import PeerError, PoolError, UserError
from pool.classad import ClassAd, Expr, expr
from pool.classad.eval.delta import Delta
from pool.classad.values.truth import is_true
from pool.hosts.daemon_names import belongs, kept_name
from pool.power.offline import LAST_MATCH, first_slot, is_offline, noted
from protocol.messages.collector import (
    AdChanges,
    AdUpdate,
    ChangeAds,
    ChangesKept,
    InvalidateAds,
    Invalidated,
    NoteWanted,
    QueryAds,
    UpdateAds,
    UpdateAlike,
)
from protocol.messages.common import AdBatch
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer
from protocol.security import needs
from protocol.security.authorize import Denied
from protocol.wire.ad_rows import unpack_rows
from protocol.wire.ad_table import pack_kept
from protocol.wire.message import DONE, Done

BATCH_ADS_MAX: Final = 64
OFFLINE_TYPE: Final = "machine"
_OFFLINE, _LIFETIME = "offline", "classadlifetime"
TABLE_ROWS_MAX: Final = 256
TABLE_CELLS_MAX: Final = 32_768

PUBLISHERS: Final = {ad_type.lower(): need for ad_type, need in needs.ADS.items()}


class Collector:
    """The table of ads, and the requests about it."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._table = AdStore(lifetime_s=start.config.seconds("CLASSAD_LIFETIME"), limits=daemon_limits(start.config))
        self._absent = AbsentAds()
        self._watches = Watches(start, self._table)
        self._offline = OfflineAds()
        self._persistent = PersistentAds(start, self._to_keep)
        self._updates = 0
        self._queries = 0
        self._expiry_moved = Signal()
        views = view_addresses(start.config)
        self._forwarding = Forwarding(start, self._table, views) if views else None
        self.reconfigured()
        self._load()

    def reconfigured(self) -> None:
        """New ads live as long as the new configuration says."""
        self._table.lifetime_s = self._start.config.seconds("CLASSAD_LIFETIME")
        self._table.limits = limits = daemon_limits(self._start.config)
        requirements = self._start.config.expr("ABSENT_REQUIREMENTS")
        self._absent.configure(requirements, self._start.config.seconds("ABSENT_EXPIRE_ADS_AFTER"), limits)
        self._expires_invalidated = self._start.config.bool("EXPIRE_INVALIDATED_ADS")
        if self._forwarding is not None:
            self._forwarding.reconfigured()

    def _load(self) -> None:
        """Have the ads again that outlast a collector."""
        for kept in self._persistent.load():
            ads = self._absent if kept.ad.eval_bool("Absent") is True else self._table
            try:
                ads.put(kept.ad, now=kept.heard_at, sender=kept.sender)
            except PoolError as error:
                self._start.log.always(f"An ad of before is not kept: {error}")
        for stored in self._table.of_type("Machine"):
            self._offline.note(stored.key, offline=True)

    def _to_keep(self, key: Key) -> StoredAd | None:
        """The ad of this place that has to outlast this process."""
        stored = self._get(*key)
        lasts = stored is not None and (stored.ad.eval_bool("Absent") is True or is_offline(stored.ad))
        return stored if lasts else None

    # ---- requests

    def answers(self) -> list[Answer]:
        """What is published and asked."""
        return [
            answer(UpdateAds, self.update),  # what more it takes depends on the ads
            answer(UpdateAlike, self.update_alike),
            answer(ChangeAds, self.change),
            answer(InvalidateAds, self.invalidate),
            answer(QueryAds, self.query),
            answer(NoteWanted, self.note_wanted),
            *self._watches.answers(),
        ]

    async def update(self, peer: Peer, request: UpdateAds) -> Done:
        """Keep the ads; those that cannot be kept keep no other out, and the first of them is named."""
        # The message may be looked at by others yet: what is kept is a copy.
        return await self._update(peer, map(_whole, request.updates))

    async def update_alike(self, peer: Peer, request: UpdateAlike) -> Done:
        """The same of ads that came as rows."""
        ads, versions = unpack_rows(request.table), request.versions
        secrets: Sequence[KeptAd | None] = unpack_rows(request.private) if request.private else [None] * len(ads)
        if not len(ads) == len(secrets) == len(versions):
            raise PeerError(f"{len(ads)} ads with {len(secrets)} private halves and {len(versions)} versions")
        return await self._update(peer, map(_Update, ads, secrets, versions))

    async def _update(self, peer: Peer, updates: Iterable[_Update]) -> Done:
        giver, refused, pace, others_ran = self._giver(peer), None, Pace(), False
        self._start.security.revoked.check(peer.link.certificate)  # of a host that is not yet cut off
        for update in updates:
            if others_ran:  # else nobody can have been put out since the last look, and nothing else has changed
                self._start.security.revoked.check(peer.link.certificate)
                giver = self._giver(peer)
            try:
                self._keep_whole(giver, update)
            except PoolError as error:
                refused = refused or error
            others_ran = await pace.breathe()
        self._forget_offline(giver)
        if refused is not None:
            raise refused
        return DONE

    def _giver(self, peer: Peer) -> _Giver:
        return _Giver(peer, self._start.world.wall(), self._start.config.expr("COLLECTOR_REQUIREMENTS"))

    async def change(self, peer: Peer, request: ChangeAds) -> ChangesKept:
        """Keep ads as they are after the changes; name those that have to be sent whole."""
        giver, whole, refused, pace, others_ran = self._giver(peer), [], None, Pace(), False
        self._start.security.revoked.check(peer.link.certificate)
        for number, change in enumerate(request.changes):
            if others_ran:
                self._start.security.revoked.check(peer.link.certificate)
                giver = self._giver(peer)
            try:
                if not self._keep_changed(giver, change):
                    whole.append(number)
            except PoolError as error:
                refused = refused or error
            others_ran = await pace.breathe()
        self._forget_offline(giver)
        if refused is not None:
            raise refused
        return ChangesKept(whole=whole)

    def _keep_changed(self, giver: _Giver, change: AdChanges) -> bool:
        """Keep what the ad is now; false where it is not the one that the sender means, of whom it must be."""
        before = self._table.get(change.ad_type, change.name)
        if before is None or not before.version or before.version != change.base:
            return False
        kept = before.kept.changed_by(Delta(change.changed, change.removed))
        arrived = _arrived(giver, kept, before)
        if before.sender != arrived.sender or arrived.place.key != before.key:
            return False
        secret = before.secret if change.private is None else KeptAd(change.private)
        self._keep(giver, arrived, before, secret, change.version, kept.having)
        return True

    def _keep_whole(self, giver: _Giver, update: _Update) -> None:
        came, secret, version = update
        arrived = _arrived(giver, came)
        before = self._table.at_place(arrived.place)
        like, like_secret = (None, None) if before is None else (before.kept, before.secret)
        kept_secret = None if secret is None else secret.to_keep(like=like_secret)
        self._keep(giver, arrived, before, kept_secret, version, lambda said: came.to_keep(said, like=like))

    def _keep(
        self,
        giver: _Giver,
        arrived: _Arrived,
        before: StoredAd | None,
        secret: KeptAd | None,
        version: int,
        having: Callable[[dict[str, object]], KeptAd],
    ) -> None:
        """Keep the ad, `having` what the collector says of it."""
        ad, place, sender = arrived
        self._may_keep(giver, arrived, before)
        if giver.requirements is not None and not is_true(giver.requirements.eval(ad.view())):
            raise UserError(f"COLLECTOR_REQUIREMENTS refuses the ad {place.name}")
        said = giver.said
        offline = place.key[0] == OFFLINE_TYPE and ad.get(_OFFLINE) is not None and is_offline(ad.view())
        if offline and ad.get(_LIFETIME) is None:
            said = {**said, "ClassAdLifetime": int(self._start.config.seconds("OFFLINE_EXPIRE_ADS_AFTER"))}
        if offline and before is not None and is_offline(before.kept.view()):
            told = ad.view()
            said = said | {name: value for name, value in noted(before.kept.view()).items() if name not in told}
        if not place.ad_type or not place.name:
            raise UserError("an ad for the collector needs MyType and Name")
        earliest = self._table.next_expiry()
        stored = self._table.put_at(place, having(said), secret, now=giver.now, sender=sender, version=version)
        self._absent.forget(place)
        self._persistent.note(place.key, stays=offline)
        if offline or (self._offline and place.key[0] == OFFLINE_TYPE):
            self._offline.note(place.key, offline=offline)
            if not offline:
                giver.awake.add(startd_of(place.key))
        self._updates += 1
        if before is None:
            self._start.log.full("New ad.", type=place.ad_type, name=place.name, sender=giver.peer.identity)
        if earliest is None or stored.expires_at < earliest:
            self._expiry_moved.fire()

    def _forget_offline(self, giver: _Giver) -> None:
        """Forget the offline ads of slots that did not come back with their startd."""
        for startd in giver.awake:
            for ad_type, name in self._offline.of(startd):
                if (stored := self._table.get(ad_type, name)) is not None:
                    self._take_back(giver.peer, stored)

    def _may_keep(self, giver: _Giver, arrived: _Arrived, before: StoredAd | None) -> None:
        """Denied where the peer may not publish the ad."""
        ad, (_, ad_type, name), sender = arrived
        peer = giver.peer
        if ad_type not in giver.may_publish:
            self._require(peer, ad_type)
            giver.may_publish.add(ad_type)
        if not may_give(peer, ad):
            self._start.log.always(f"{peer} publishes what is not its own: {ad_type} {name} of {_machine(ad)}.")
            raise Denied(f"the ad {ad_type} {name} of {_machine(ad)} does not belong to {peer.host_name}")
        if peer.pool and before is not None and before.sender != sender:
            raise Denied(f"there is another {ad_type} {name}, which is not of {peer.pool}")

    async def note_wanted(self, peer: Peer, request: NoteWanted) -> Done:
        """Write into the ads of offline slots that there are jobs for them, and which."""
        now, pace = int(self._start.world.wall()), Pace()
        for one in request.slots:
            await pace.breathe()
            self._note(one.name, {LAST_MATCH: now, "MachineMatchCount": one.count, "OfflineMatches": one.jobs})
            if first := first_slot(one.name):
                self._note(first, {f"{one.name.partition('@')[0]}_{LAST_MATCH}": now})
        return DONE

    def _note(self, name: str, found: Mapping[str, object]) -> None:
        """A slot whose machine is awake again has its own ad, and nothing is written into that."""
        stored = self._table.get(OFFLINE_TYPE, name)
        if stored is None or not is_offline(stored.kept.view()):
            return
        kept = stored.kept.changed_by(Delta(ClassAd(found)))
        # Heard when it was heard, so that its lifetime goes on; in no version, so that its startd sends the next whole.
        place = Place(stored.key, stored.ad_type, stored.name)
        self._table.put_at(place, kept, stored.secret, now=stored.heard_at, sender=stored.sender, version=0)
        self._persistent.note(stored.key, stays=True)

    async def invalidate(self, peer: Peer, request: InvalidateAds) -> Invalidated:
        """Forget ads by name, or by constraint: of those, what the caller might have published."""
        self._start.security.heed_revocations()  # a host that was put out is cut off first, or it publishes them anew
        if request.ad_type.lower() != ANY:
            self._require(peer, request.ad_type)
        named = (self._get(request.ad_type, name) for name in request.names)
        chosen = named if request.names else self._select(request.ad_type, _constraint(request.constraint))
        count = 0
        pace = Pace()
        for stored in chosen:
            await pace.breathe()
            if stored is not None and self._take_back(peer, stored):
                count += 1
        return Invalidated(count=count)

    def _take_back(self, peer: Peer, stored: StoredAd) -> bool:
        host = bound_to(peer)
        others = bool(peer.pool) and stored.sender != _sender(peer.identity, stored.kept)
        if others or _publisher(stored.ad_type).objection(peer.who) or (host and not belongs(stored.kept, host)):
            self._start.log.always(f"{peer} may not take back {stored.ad_type} {stored.name}.")
            return False
        self._start.log.full("Ad taken back.", type=stored.ad_type, name=stored.name, by=peer.identity)
        there, absent = (ads.remove(stored.ad_type, stored.name) for ads in (self._table, self._absent))
        stays = (
            self._expires_invalidated and there is not None and self._absent.take(there, now=self._start.world.wall())
        )
        self._persistent.note(stored.key, stays=stays)
        self._offline.note(stored.key, offline=False)
        return (there or absent) is not None

    def _get(self, ad_type: str, name: str) -> StoredAd | None:
        return self._table.get(ad_type, name) or self._absent.get(ad_type, name)

    def _select(self, ad_type: str, constraint: Expr | None) -> Iterator[StoredAd | None]:
        """The ads that are there, and those of absent machines where the constraint reads that."""
        return chain(self._table.select(ad_type, constraint), self._absent.select(ad_type, constraint))

    async def query(self, peer: Peer, request: QueryAds, send: SendItem[AdBatch]) -> None:
        """The ads of a type for which the constraint is true, in batches."""
        self._queries += 1
        constraint, wanted = _constraint(request.constraint), asked_for(request.projection)
        as_table = request.tables and bool(wanted)
        most = max(1, min(TABLE_ROWS_MAX, TABLE_CELLS_MAX // len(wanted))) if as_table else BATCH_ADS_MAX
        left = request.limit if request.limit is not None else -1
        batch: list[KeptAd] = []
        pace = Pace()
        for stored in self._select(request.ad_type, constraint):
            if constraint is not None:  # else it is the batches that cost something
                await pace.breathe()
            if left == 0:
                break
            if stored is None:
                continue
            batch.append(stored.kept)
            left -= 1
            if len(batch) >= most:
                await pace.breathe()
                await send(_batch(batch, wanted, as_table))
                batch = []
        if batch:
            await send(_batch(batch, wanted, as_table))

    def _require(self, peer: Peer, ad_type: str) -> None:
        if objection := _publisher(ad_type).objection(peer.who):
            raise Denied(f"{peer.identity} may not publish ads of type {ad_type}: it {objection}")

    # ---- tasks

    async def expire(self) -> None:
        """Drop each ad when its time is over, or keep it as that of an absent machine."""
        wall = self._start.world.wall
        while True:
            moved = self._expiry_moved.next()
            for stored in self._table.expire(wall()):
                self._persistent.note(stored.key, stays=self._absent.take(stored, now=wall()))
                self._offline.note(stored.key, offline=False)
                said_s = round(wall() - stored.heard_at)
                self._start.log.always("Ad is absent.", type=stored.ad_type, name=stored.name, silent_s=said_s)
            for stored in self._absent.expire(wall()):
                self._persistent.note(stored.key, stays=False)
                self._start.log.always("Absent machine is forgotten.", name=stored.name)
            due = min(
                (at for at in (self._table.next_expiry(), self._absent.next_expiry()) if at is not None), default=None
            )
            # The wall clock may be set: never a wait of no time at all, which would be a loop.
            await first_of(moved, timeout_s=math.inf if due is None else max(0.01, due - wall()))

    def run(self, tasks: Tasks) -> None:
        """Start what goes on beside the requests."""
        tasks.keep(self.expire)
        tasks.keep(self._persistent.run)
        if self._forwarding is not None:
            tasks.keep(self._forwarding.run)

    def ad(self) -> ClassAd:
        """The collector's own ad."""
        counts = {ad_type.lower(): count for ad_type, count in self._table.counts().items()}
        submitters = [stored.ad for stored in self._table.of_type("Submitter")]
        return ClassAd(
            {
                "MyType": "Collector",
                "Name": self._start.config.str("COLLECTOR_NAME"),
                "CollectorHost": self._start.host,
                "MachineAds": counts.get("machine", 0),
                "SubmitterAds": counts.get("submitter", 0),
                "Machine": self._start.host,
                "HostsTotal": counts.get("machine", 0),
                "RunningJobs": sum(ad.eval_int("RunningJobs", 0) for ad in submitters),
                "IdleJobs": sum(ad.eval_int("IdleJobs", 0) for ad in submitters),
                "UpdatesTotal": self._updates,
                "QueriesTotal": self._queries,
                "TotalAds": len(self._table),
            }
        )


async def main(start: DaemonStart, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until told to stop."""
    collector = Collector(start)
    start.service.offer(collector.answers())
    start.describe(collector.ad)
    start.on_reconfigure(lambda _config: collector.reconfigured())
    async with trio.open_nursery() as nursery:
        await nursery.start(start.serve)
        tasks = Tasks(nursery, start.log)
        collector.run(tasks)
        tasks.keep(start.adverts.run)
        task_status.started()
        await start.stopping()
        nursery.cancel_scope.cancel()


def _publisher(ad_type: str) -> needs.Need:
    return PUBLISHERS.get(ad_type.lower(), needs.OTHER_ADS)


def _whole(update: AdUpdate) -> _Update:
    private = update.private
    return _Update(came(update.ad), None if private is None else came(private), update.version)


def _batch(ads: list[KeptAd], wanted: Sequence[str], as_table: bool) -> AdBatch:
    """Some ads of an answer, with the attributes that are wanted (none named: all)."""
    if as_table:
        return AdBatch(ads=[], table=pack_kept(ads, wanted))
    return AdBatch(ads=[kept.view().project(wanted) if wanted else kept.ad() for kept in ads])


class _Update(NamedTuple):
    """An ad that came, its private half, and its version."""

    ad: KeptAd
    secret: KeptAd | None
    version: int


class _Giver:
    """Who publishes, until others run: what holds for all of its ads in a message is found out once."""

    def __init__(self, peer: Peer, now: float, requirements: Expr | None) -> None:
        self.peer, self.identity, self.now, self.requirements = peer, peer.identity, now, requirements
        self.may_publish: set[str] = set()
        """Types of ads, as they are spelt."""
        self.awake: set[str] = set()
        """Startds of which a slot was heard that is not offline."""
        self.said: dict[str, object] = {
            "LastHeardFrom": int(now),
            "AuthenticatedIdentity": self.identity,
            "AuthenticationMethod": peer.method,
        }


class _Arrived(NamedTuple):
    """An ad that somebody publishes, where it belongs, and who is charged for it."""

    ad: KeptAd
    place: Place
    sender: str


def _arrived(giver: _Giver, ad: KeptAd, before: StoredAd | None = None) -> _Arrived:
    ad_type, name = ad.eval_str("MyType", ""), kept_name(ad)
    if before is not None and ad_type == before.ad_type and name == before.name:
        place = Place(before.key, before.ad_type, before.name)
    else:
        place = Place(key_of(ad_type, name), intern(ad_type), name)
    return _Arrived(ad, place, _sender(giver.identity, ad))


def _sender(identity: str, ad: KeptAd) -> str:
    """Who is charged for the ad."""
    return f"{identity} at {_machine(ad)}"


def _constraint(text: str | None) -> Expr | None:
    """The constraint of a request; ClassAdError, which goes to the caller, shows where it is wrong."""
    return expr(text) if text else None


def _machine(ad: KeptAd) -> str:
    return ad.eval_str("Machine", "") or ad.eval_str("MyAddress", "") or "nowhere"
