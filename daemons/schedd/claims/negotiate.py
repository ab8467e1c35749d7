"""Tells negotiators what waits, and takes the slots that they offer, each on a connection that the schedd keeps.

Where several negotiators divide the pool's slots, each is told all that waits and all that is held, and its slice is
what it offers; of those that would hand out the same slice, one is listened to (`negotiator_lease`).

New work is announced at once, though not sooner than ANNOUNCE_PAUSE_S after the last; that there is less of it, which
happens with each job that a claim takes, only within ANNOUNCE_LESS_S: too many slots offered in the meantime are handed
back.

HTCondor's manual: admin-manual/cm-configuration (the negotiation cycle).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from typing import Final

import trio

from daemons.base.pace import Pace
from daemons.base.sync import Signal, first_of
from daemons.daemon_core.tasks import Tasks
from daemons.schedd.claims.claims import Claims
from daemons.schedd.claims.negotiator_lease import NegotiatorLease
from daemons.schedd.core.core import Core
from daemons.schedd.core.holdings import Holdings
from daemons.schedd.files.transfer_turns import TransferTurns
from pool.base.errors import PoolError, UserError
from pool.classad import ClassAd
from pool.config import Config
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.waiting.flocking import FlockLevels
from pool.jobs.waiting.groups import WaitingGroup, urgency
from protocol.messages.negotiator import AnnounceWork, MeetNegotiator, ResourceRequest, ReturnMatches, SubmitterHolds
from protocol.messages.offers import (
    AskLease,
    LeaseAnswer,
    MatchesTaken,
    NegotiatorReads,
    OfferMatches,
    ReadsNoted,
    Rejection,
    RejectRequests,
)
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, Service, answer
from protocol.security import needs
from protocol.wire.address import Address, of_pool
from protocol.wire.message import replace

ANNOUNCE_PAUSE_S: Final = 0.01
ANNOUNCE_LESS_S: Final = 0.3
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 5.0
GROUPS_MAX: Final = 2000
"""Groups of jobs announced at a time: those of the highest priority first."""


@dataclass
class Place:
    """A pool to negotiate with: where its negotiators are, and what this schedd holds and wants there."""

    levels: FlockLevels
    holdings: Holdings
    addresses: Callable[[Config], list[Address]]
    moved: Signal = field(default_factory=Signal)
    """Fires when `addresses` may say something else."""
    connected: Callable[[Address, bool], None] = lambda _address, _is_connected: None
    wants: Callable[[WaitingGroup], bool] = lambda _group: True
    pool: str = ""
    """Its name, where jobs flock to it."""
    level: int = 0
    level_changed: Callable[[str], None] = lambda _submitter: None


class Slice:
    """The slots that one negotiator hands out, or one of several: who has the lease, and what it has been told."""

    def __init__(self, name: str, lease: NegotiatorLease) -> None:
        self.name, self.lease = name, lease
        self.announced = False
        self.anew = True
        self.heard = 0
        self.given = 0

    @property
    def is_served(self) -> bool:
        """Whether a negotiator of it is listened to."""
        return self.lease.is_given


class Negotiation:
    """The schedd's side of negotiations with one pool."""

    def __init__(self, core: Core, claims: Claims, turns: TransferTurns, place: Place) -> None:
        self._core = core
        self._place = place
        self._turns = turns
        self._claims = claims
        self._changed, self._more = Signal(), Signal()
        self._ads: dict[tuple[str, int], ClassAd] = {}
        self._slices: dict[str, Slice] = {}
        self._slice_of: dict[Peer, Slice] = {}
        self._met: dict[str, Peer] = {}
        """By the negotiators' own addresses: one that is reached in two ways is met once."""
        core.start.on_reconfigure(lambda _config: place.moved.fire())
        self.service = Service("schedd", needs.SCHEDD_TO_NEGOTIATOR)

    def answers(self) -> list[Answer]:
        """What the negotiator says, on the connection that the schedd makes."""
        return [
            answer(AskLease, self.asked),
            answer(OfferMatches, self.offered),
            answer(RejectRequests, self.rejected),
            answer(NegotiatorReads, self.reads),
        ]

    def work_changed(self, more: bool) -> None:
        """What waits has changed."""
        self._changed.fire()
        if more:
            self._more.fire()

    async def run(self) -> None:
        """Stay connected to the negotiator, or to each of several, and keep those informed that negotiate."""
        following: dict[Address, trio.Event] = {}
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self._core.log)
            while True:
                moved = self._place.moved.next()
                addresses = self._addresses()
                for address in following.keys() - set(addresses):
                    following.pop(address).set()
                for address in addresses:
                    if address not in following:
                        following[address] = trio.Event()
                        tasks.keep(self._follow, address, following[address])
                await moved.wait()

    def _addresses(self) -> list[Address]:
        try:
            return self._place.addresses(self._core.start.config)
        except PoolError as error:
            self._core.log.always(f"No negotiator: {error}")
            return []

    async def _follow(self, address: Address, dropped: trio.Event) -> None:
        await first_of(partial(self._stay, address), dropped)  # anew after a failure, so no scope, which is used once

    async def _stay(self, address: Address) -> None:
        retry_s, said = RETRY_FIRST_S, ""
        while True:
            elsewhere: Peer | None = None
            if self._place.pool:  # others are no home: nobody calls there without a reason
                await self._until_needed()
            try:
                async with endpoints.connected(
                    address,
                    security=self._core.start.security,
                    network=self._core.start.world.network,
                    service=self.service,
                ) as peer:
                    self._core.log.full("Connected to the negotiator.", address=str(address))
                    retry_s, said = RETRY_FIRST_S, ""
                    elsewhere = await self._meet(peer)
                    if elsewhere is None:
                        await self._serve(peer, address)
            except PoolError as error:
                news = retry_s >= 1.0 and str(error) != said  # a restart of the negotiator is none, and once is enough
                said = str(error) if news else said
                self._core.log.say("D_ALWAYS" if news else "D_FULLDEBUG", f"No negotiator{self._there}: {error}")
            if elsewhere is not None:
                await elsewhere.closed.wait()
            await trio.sleep(retry_s)
            retry_s = min(RETRY_MAX_S, 2 * retry_s)

    @property
    def _there(self) -> str:
        return f" at {self._place.pool}" if self._place.pool else ""

    async def _until_needed(self) -> None:
        """Until there is something to ask for, or to say."""
        while not self._place.holdings and not self.requests():
            await self._changed.wait()

    async def _meet(self, peer: Peer) -> Peer | None:
        """Hear which slice is the negotiator's; the other connection to it, where there is one.

        A negotiator that is one of several asks for a lease when it leads; any other is listened to at once.
        """
        met = await peer.call(MeetNegotiator(schedd=self._core.settings.name))
        other = self._met.get(met.name) if met.name else None
        if other is not None and not other.closed.is_set():
            return other
        self._met[met.name] = peer
        slice = self._slices.get(met.slice)
        if slice is None:
            kept, name = self._core.kept_leases, f"{self._place.pool}/{met.slice}"
            lease = NegotiatorLease(self._core.log, lambda: self.work_changed(True), kept, name)
            slice = self._slices[met.slice] = Slice(met.slice, lease)
        self._slice_of[peer] = slice
        if not met.leased:
            slice.lease.alone(peer)
        return None

    async def _serve(self, peer: Peer, address: Address) -> None:
        """Keep the negotiator informed until the connection ends."""
        self._place.connected(address, True)
        try:
            await self._inform(peer, self._slice_of[peer])
        finally:
            slice = self._slice_of.pop(peer)
            slice.lease.ended(peer)
            if not self._place.pool and not slice.is_served:
                self._core.waiting.forget_rejections(slice.name)
            self._place.holdings.forget(peer)
            self._place.connected(address, False)

    async def _inform(self, peer: Peer, slice: Slice) -> None:
        lease = slice.lease
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_with, peer, nursery.cancel_scope)
            while not peer.closed.is_set():
                if not lease.serves(peer):
                    await first_of(lease.changed, peer.closed)
                    continue
                if slice.given != lease.given:
                    slice.given, slice.announced, slice.anew, slice.heard = lease.given, False, True, 0
                more, changed = self._more.next(), self._changed.next()
                announced_at = trio.current_time()
                await self._announce(peer, slice)
                await changed.wait()
                if not more.is_set():
                    with trio.move_on_after(ANNOUNCE_LESS_S):
                        await more.wait()
                if trio.current_time() < announced_at + ANNOUNCE_PAUSE_S:
                    await trio.sleep_until(announced_at + ANNOUNCE_PAUSE_S)

    @staticmethod
    async def _end_with(peer: Peer, scope: trio.CancelScope) -> None:
        await peer.closed.wait()
        scope.cancel()

    async def _announce(self, peer: Peer, slice: Slice) -> None:
        requests, holdings = self.requests(), self._place.holdings
        held, given_back = holdings.news(peer, anew=slice.anew)
        if not (requests or slice.announced or holdings or given_back):
            return
        slice.announced, anew, slice.anew = bool(requests), slice.anew, False
        served = [one.name for one in self._slices.values() if one.is_served]
        totals = holdings.of_slice(slice.name, served)
        in_use = totals.by_submitter.items()
        announcement = AnnounceWork(
            schedd=self._core.settings.name,
            requests=requests,
            in_use={name: SubmitterHolds(slots=one.slots, weight=one.weight) for name, one in in_use},
            held=held,
            given_back=given_back,
            limits=dict(totals.limits),
            heard=slice.heard,
        )
        if anew:  # whoever may not announce hears so
            await peer.call(announcement)
        else:  # lost only with the connection, and on the next all is said anew
            await peer.notify(announcement)

    def requests(self) -> list[ResourceRequest]:
        """What waits for slots, one request for jobs that are alike; nothing where no more jobs may run."""
        core = self._core
        if self._claims.is_full:
            return []
        groups = nlargest(GROUPS_MAX, filter(self._place.wants, core.waiting.groups()), key=urgency)
        ads: dict[tuple[str, int], ClassAd] = {}
        requests = []
        for group, count in self._claims.gangs.wanted(groups).items():
            if self._turns.has_enough(group.submitter):
                continue
            ad = self._ad(group, ads)
            if ad is not None:
                ad = self._claims.gangs.narrowed(group, ad)
                requests.append(
                    ResourceRequest(
                        submitter=group.submitter,
                        autocluster=group.autocluster,
                        ad=ad,
                        count=count,
                        prio=group.priority.prio,
                        leftovers=core.settings.takes_leftovers,
                    )
                )
        self._ads = ads
        return requests

    def _ad(self, group: WaitingGroup, ads: dict[tuple[str, int], ClassAd]) -> ClassAd | None:
        """A job that stands for its group; the same one as last time, as long as the group is there."""
        key = (group.submitter, group.autocluster)
        ad = ads.get(key) or self._ads.get(key)
        if ad is None:
            job = group.first()
            if job is None:
                return None
            ad = self._core.autoclusters.representative(self._core.queue.ad(job))
        ads[key] = ad
        return ad

    def _slice(self, peer: Peer) -> Slice:
        """The slice of whoever speaks; UserError before it was met."""
        if peer not in self._slice_of:
            raise UserError("this schedd has not met this negotiator yet")
        return self._slice_of[peer]

    async def asked(self, peer: Peer, request: AskLease) -> LeaseAnswer:
        """A negotiator wants the lease of its slice, or gives it back."""
        return await self._slice(peer).lease.ask(peer, request)

    def offered(self, peer: Peer, request: OfferMatches) -> MatchesTaken:
        """Take as many slots as there are jobs for them, and hand the others back."""
        slice = self._slice(peer)
        slice.lease.require(peer)
        core = self._core
        learned = False
        slice.heard = request.number
        core.log.full("Takes matches.", term=slice.lease.term, offered=len(request.matches))
        matches = [replace(one, startd_address=of_pool(one.startd_address, peer.pool)) for one in request.matches]
        for match in matches:
            learned |= core.autoclusters.learn_slot(match.slot_ad)
        taken, unused = 0, []
        for match in matches:
            if self._claims.take(match, self._place.pool, slice.name):
                taken += 1
            else:
                unused.append(match.claim_id)
        if learned:
            core.sort_waiting()
            self.work_changed(True)
        self._satisfied({match.submitter for match in request.matches})
        if unused:
            core.tasks.start(self._hand_back, peer, unused)
        else:
            self.work_changed(False)  # the negotiator counts what it has offered until it hears what became of it
        return MatchesTaken(taken=taken)

    def _satisfied(self, submitters: set[str]) -> None:
        """Those of them of whom no job waits any more need no further pools."""
        left = submitters - {group.submitter for group in self._core.waiting.groups()}
        for name in left:
            if self._place.levels.satisfied(name, self._place.level, trio.current_time()):
                self._place.level_changed(name)

    async def _hand_back(self, peer: Peer, claim_ids: list[str]) -> None:
        try:
            await peer.notify(ReturnMatches(claim_ids=claim_ids))
        except PoolError as error:
            self._core.log.full(f"Matches could not be handed back: {error}")
        self.work_changed(False)

    def reads(self, peer: Peer, request: NegotiatorReads) -> ReadsNoted:
        """Jobs are alike only where the negotiator finds them so."""
        anew = self._core.autoclusters.learn_names(request.attributes)
        if anew:
            self._core.sort_waiting()
            self.work_changed(True)
        return ReadsNoted(anew=anew)

    def rejected(self, peer: Peer, message: RejectRequests) -> None:
        """Remember why jobs got no slot, for those who ask."""
        now, place = self._core.now(), self._place
        for name in {rejection.submitter for rejection in message.rejections}:
            if place.levels.unsatisfied(name, place.level, trio.current_time()):
                place.level_changed(name)
        slice = self._slice(peer).name
        if place.pool:  # what users are told of is the home pool, and no other puts their jobs on hold
            return
        for rejection in message.rejections:
            self._core.waiting.reject(rejection.submitter, rejection.autocluster, rejection.reason, now, slice)
            self._claims.gangs.rejected(rejection.submitter, rejection.autocluster)
            if rejection.dear:
                self._core.tasks.start(self._hold_group, rejection)

    async def _hold_group(self, rejection: Rejection) -> None:
        """Hold the jobs that wait with an expression that is too dear to be matched."""
        core, pace = self._core, Pace()
        which = rejection.submitter, rejection.autocluster
        reason = f"The job attribute {rejection.dear} costs too much processor time to be matched with slots"
        for group in [one for one in core.waiting.groups() if (one.submitter, one.autocluster) == which]:
            while (job := group.first()) is not None:
                core.hold(job, reason, HoldCode.EXPRESSION_TOO_COSTLY)
                if group.first() is job:
                    break
                await pace.breathe()
