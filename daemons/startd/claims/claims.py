"""What schedds ask for: claims on slots, and jobs to run under them.

Every request may come twice. A claim belongs to the schedd that used its id first, by the host that it has proven to be
on: nobody else can do anything with the id. The connection on which its holder spoke last is where word of it goes. The
owner's START is asked at the claim and again at each job.

Source: HTCondor's manual, "Configuration for Execution Points": "The Claimed State and Leases", "Claimed State".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.base.pace import LoopTurns
from daemons.base.sync import first_of
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.startd.claims.activations import Activations, has_had, started
from daemons.startd.claims.callers import claim_of_caller, job_of_caller
from daemons.startd.claims.make_room import MakeRoom
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Pending, Slot, Slots
from daemons.startd.starters.starters import Starters
from pool.base.errors import UserError
from pool.base.ids import ClaimId
from pool.classad import ClassAd
from pool.hosts.daemon_names import names_host
from pool.slots.ad import open_to
from pool.slots.claim import Claim, Holder
from pool.slots.lease import begin_lease
from pool.slots.provision.carve import fit_request, pieces_for
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import Event, EvictionCause, State, can
from protocol.messages.startd import (
    ActivateAnswer,
    ActivateClaim,
    Alive,
    ClaimAnswer,
    ContinueClaim,
    DeactivateClaim,
    EarlyOrder,
    KeepAlive,
    ReconnectAnswer,
    ReconnectClaim,
    ReleaseClaim,
    RequestClaim,
    SuspendClaim,
    WakeStarter,
)
from protocol.messages.starter import MeetSchedd
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

NOT_GOOD: Final = "the claim id is not good any more"


class Claims:
    """The handlers of `protocol.messages.startd`; `clear` gets a slot out of the backfill client's hands.

    `notice_sleep` is called before a lease begins anew, which what the machine has slept before that does not concern.
    """

    def __init__(
        self,
        start: DaemonStart,
        tasks: Tasks,
        slots: Slots,
        ads: Ads,
        moves: Moves,
        starters: Starters,
        clear: Callable[[Slot], Awaitable[None]],
        notice_sleep: Callable[[], None],
    ) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._moves = moves
        self._starters = starters
        self._clear = clear
        self._notice_sleep = notice_sleep
        self._turns = LoopTurns()
        self._room = MakeRoom(slots, ads, moves, self)
        self.activations = Activations(start, tasks, slots, ads, moves, starters)

    def answers(self) -> list[Answer]:
        """What schedds ask."""
        return [
            answer(RequestClaim, self.request, stops_with_caller=True),
            answer(ActivateClaim, self.activate),
            answer(DeactivateClaim, self.deactivate),
            answer(ReleaseClaim, self.release),
            answer(KeepAlive, self.keep_alive),
            answer(WakeStarter, self.wake_starter),
            answer(SuspendClaim, self.suspend),
            answer(ContinueClaim, self.resume),
            answer(ReconnectClaim, self.reconnect),
        ]

    # ---- claiming

    async def request(self, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        """Take a slot, or the part of a partitionable one that the job asks for."""
        self._ads.statistics.claim_asked(self._start.world.wall())
        # A certificate proves the host: one access point cannot claim in another's name.
        if peer.method == "SSL" and not names_host(asked.schedd_name, peer.host_name):
            reason = f"the schedd {asked.schedd_name} does not belong to {peer.host_name}"
            return ClaimAnswer(granted=False, reason=reason)
        asked = claim_of_caller(peer, asked)
        await self._turns.next()  # many come at once; others of this process have their turn between them
        try:
            await self._meet(asked)
            return await self._decide(peer, asked)
        finally:
            self._starters.meet_no_more(asked.claim_id)

    async def _meet(self, asked: RequestClaim) -> None:
        """Where the slot is free, a starter meets the claim's schedd while the rest is seen to."""
        slot = self._slots.offering(asked.claim_id)
        if slot is not None and can(slot.state, Event.CLAIM) and asked.shadow_address:
            await self._starters.meet(asked.claim_id, slot.name, _meeting(asked))

    async def _decide(self, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        held = self._slots.holding(asked.claim_id)
        if held is not None:
            return self._held_already(held, peer, asked)
        # One that asks again while it waits joins the wait: the room is made once.
        waiting = self._waiting(asked.claim_id)
        if waiting is not None and waiting.pending is not None:
            if not self._holds(peer, waiting.pending.claim):
                return ClaimAnswer(granted=False, reason=NOT_GOOD)
            return await self._wait_for_room(waiting, waiting.pending, peer, asked)
        if asked.room:
            return await self._room.claim(peer, asked)
        slot = self._slots.offering(asked.claim_id)
        # Not for a job that the slot would refuse: the backfill client's work is lost with it.
        if slot is not None and slot.state.state is State.BACKFILL and not self._mismatch(slot, asked.job_ad):
            await self._clear(slot)
        reason = self.objection(slot, asked)
        if slot is None or reason:
            self._start.log.always(f"Refused claim {_public(asked.claim_id)} of {asked.schedd_name}: {reason}")
            self._moves.match_over(asked.claim_id)
            return ClaimAnswer(granted=False, reason=reason)
        if slot.state.state is State.CLAIMED:
            return await self._preempt(slot, peer, asked)
        return self.grant(slot, peer, asked)

    def grant(self, slot: Slot, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        """The claim gets the slot, which is free, or a new part of it."""
        try:
            taken = self._take(slot, asked)
        except UserError as error:
            return ClaimAnswer(granted=False, reason=error.message)
        self._slots.hold(taken, self.claim_of(taken, peer, asked))
        self._moves.holders.heard_from(taken, peer)
        self._moves.apply(taken, Event.CLAIM)
        # What is left of a partitionable slot may now be one that its owner's START sees otherwise.
        if taken is not slot:
            self._moves.evaluate(slot)
            self._moves.note(slot)
        self._start.log.always(f"{taken.short}: claimed by {asked.schedd_name} for {asked.submitter}")
        fault("startd.claim_granted")
        answer = self._granted(taken, asked)
        if asked.early is not None:
            self.activations.begin_early(taken, _activation(asked, asked.early))
        return answer

    def objection(self, slot: Slot | None, asked: RequestClaim) -> str:
        """Why the claim cannot be had; empty when it can."""
        if slot is None:
            return "the claim id is not good (any more)"
        if self._moves.stopping:
            return "the startd is shutting down"
        if self._slots.asleep:
            return f"the machine goes to sleep ({self._slots.asleep.name})"
        if slot.pending is not None and slot.state.state is not State.CLAIMED:
            return f"{slot.name} is being claimed by somebody else"
        free = can(slot.state, Event.CLAIM) or (slot.state.state is State.DRAINED and self._ads.lets_in(slot))
        if slot.state.state is not State.CLAIMED and not free:
            return f"{slot.name} is {slot.state.state.value}"
        return self._mismatch(slot, asked.job_ad)

    def _mismatch(self, slot: Slot, job: ClassAd) -> str:
        """Whose Requirements stand against the pair; empty when none do."""
        ad = self._ads.matching(slot)
        if not (open_to(ad) if slot.promised else ad).eval_bool("Requirements", False, job):
            # Requirements are both together; people want to know which of them it was.
            cause = "START" if not ad.eval_bool("Start", False, job) else "its resources"
            return f"{slot.name} does not take this job ({cause})"
        if "Requirements" in job and not job.eval_bool("Requirements", False, ad):
            return f"the job's Requirements do not take {slot.name}"
        return ""

    def _take(self, slot: Slot, asked: RequestClaim) -> Slot:
        """The slot that the claim is for: this one, or a new part of it. The id is used up first: what is carved
        away takes other ids back."""
        if slot.kind is not SlotKind.PARTITIONABLE:
            self._slots.use_offer(slot, asked.claim_id)
            return slot
        ad = self._ads.matching(slot)
        wanted = fit_request(asked.job_ad, ad, slot.free.amounts, self._ads.settings.rounding)
        pieces_for(slot.free, wanted, asked.job_ad, self._slots.properties)  # fails before the id is used up
        self._slots.use_offer(slot, asked.claim_id)
        return self._slots.carve(slot, wanted, now=self._start.world.wall(), job=asked.job_ad)

    def claim_of(self, slot: Slot, peer: Peer, asked: RequestClaim) -> Claim:
        self._notice_sleep()
        now = trio.current_time()
        missed = self._ads.settings.alives_missed_max
        rank = slot.policy.number("RANK", self._ads.matching(slot), asked.job_ad, 0.0)
        return Claim(
            claim_id=ClaimId(asked.claim_id),
            digest=ClaimId(asked.claim_id).digest(),
            holder=Holder(asked.schedd_name, asked.submitter, asked.job_ad, peer.link.host, self._claimant(peer)),
            lease=begin_lease(asked.lease_s, asked.alive_interval_s, now=now, missed_max=missed),
            rank=rank,
            claimed_at=now,
            claimed_wall=self._start.world.wall(),
            alive_interval_s=asked.alive_interval_s,
            while_draining=self._ads.drain is not None,
        )

    async def _preempt(self, slot: Slot, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        """The slot is taken; the job in it must leave for this one, unless the machine likes it better.

        While the job retires a better claim may come for which the one that waits has to make way.
        """
        claim, before = self.claim_of(slot, peer, asked), slot.pending
        # Not equal: the negotiator has decided between equals by priority, which a startd does not know.
        if slot.claim is not None and claim.rank < slot.claim.rank:
            return ClaimAnswer(granted=False, reason=f"{slot.name} ranks its present job higher")
        if before is not None and claim.rank < before.claim.rank:
            return ClaimAnswer(granted=False, reason=f"{slot.name} ranks the claim that waits for it higher")
        if slot.state.leaving is not (EvictionCause.NO if before is None else EvictionCause.BETTER_CLAIM):
            return ClaimAnswer(granted=False, reason=f"{slot.name} is being given back to its owner")
        self._slots.use_offer(slot, asked.claim_id)
        slot.pending = pending = Pending(claim, peer)
        if before is not None:
            before.settle(False, f"a better claim came for {slot.name}")
        self._moves.make_room(slot, again=before is not None)
        return await self._wait_for_room(slot, pending, peer, asked)

    async def _wait_for_room(self, slot: Slot, pending: Pending, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        """Wait until the slot is free. Whoever stops waiting gives the claim up; the same request may come again."""
        pending.waiting += 1
        try:
            await first_of(pending.settled, peer.closed)
        finally:
            pending.waiting -= 1
            # Only when the last of those who asked is gone: the same request may wait on two connections.
            if not pending.waiting and not pending.settled.is_set() and slot.pending is pending:
                pending.settle(False, "the schedd that wanted the slot waits no more")
                self._moves.preemption_over(slot)
        held = self._slots.holding(asked.claim_id)
        if pending.granted and held is not None:
            self._moves.holders.heard_from(held, peer)
            return self._granted(held, asked)
        return ClaimAnswer(granted=False, reason=pending.reason or "the connection was lost")

    def _held_already(self, slot: Slot, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        claim = slot.claim
        if claim is None or slot.lease_lost or claim.holder.schedd_name != asked.schedd_name:
            return ClaimAnswer(granted=False, reason=NOT_GOOD)
        if not self._holds(peer, claim):
            return ClaimAnswer(granted=False, reason=NOT_GOOD)
        self._touch(slot, peer)
        return self._granted(slot, asked)

    def _granted(self, slot: Slot, asked: RequestClaim) -> ClaimAnswer:
        claim = slot.claim
        assert claim is not None
        # Forked now, so that it is there when the job comes, and has met its schedd by then.
        if slot.starter is None:
            meeting = _meeting(asked) if asked.shadow_address else None
            # With a job it is told of its slot anyway.
            slot_ad = self._ads.matching(slot) if asked.early is None else None
            self._starters.prepare(asked.claim_id, slot.name, meeting, slot_ad)
        return ClaimAnswer(
            granted=True,
            slot_name=slot.name,
            slot_ad=self._ads.matching(slot),
            lease_s=claim.lease.lease_s,
            alive_interval_s=claim.alive_interval_s,
        )

    # ---- running jobs

    async def activate(self, peer: Peer, asked: ActivateClaim) -> ActivateAnswer:
        """Set a starter to work on the job."""
        self._ads.statistics.activation_asked(self._start.world.wall())
        await self._turns.next()
        asked = job_of_caller(peer, asked)
        slot = self._mine(peer, asked.claim_id)
        if slot is None or slot.claim is None:
            return ActivateAnswer(started=False, reason="there is no such claim", claim_is_good=False)
        running = slot.claim.activation
        # Begun with the grant; or the same request once more, as its answer was lost.
        if running is not None and running.activation == asked.activation:
            if await self.activations.ordered(slot, asked):
                return started(slot)
            slot = self._mine(peer, asked.claim_id)
            if slot is None or slot.claim is None:
                return ActivateAnswer(started=False, reason="the claim is over", claim_is_good=False)
            running = slot.claim.activation
        if running is None and has_had(slot, asked.activation):  # this word was slower than the job
            return started(slot)
        if running is not None and not asked.concluded:
            return ActivateAnswer(started=False, reason=f"job {running.job_id} still runs in {slot.name}")
        if running is None:
            self._moves.evaluate(slot)  # the owner may have come back since the slot was claimed
        elif not await self.activations.until_free(peer, slot, asked.claim_id):  # asks the owner when the job leaves
            return ActivateAnswer(started=False, reason="the claim is over", claim_is_good=False)
        reason = self.activations.refusal(slot, asked.job_ad)
        if reason:
            self._start.log.always(f"{slot.short}: does not start job {asked.job_id}: {reason}")
            return ActivateAnswer(started=False, reason=reason, claim_is_good=False)
        return await self.activations.start(slot, asked)

    # ---- work that the machine has fetched for itself

    def mismatch(self, slot: Slot, job: ClassAd) -> str:
        """Whose Requirements stand against the pair; empty when none do."""
        return self._mismatch(slot, job)

    def take_part(self, slot: Slot, claim_id: str, work: ClassAd) -> Slot:
        """The slot for fetched work, or a new part of it; UserError when there is no room."""
        asked = RequestClaim(
            claim_id=claim_id, job_ad=work, schedd_name="", submitter="", lease_s=0.0, alive_interval_s=0.0
        )
        return self._take(slot, asked)

    # ---- the rest of a claim's life

    def deactivate(self, peer: Peer, asked: DeactivateClaim) -> Done:
        """End the job; its starter reports."""
        if (slot := self._mine(peer, asked.claim_id)) is not None:
            self._moves.stop_job(slot, asked)
        return DONE

    def release(self, peer: Peer, asked: ReleaseClaim) -> Done:
        """The schedd wants the slot no more."""
        slot = self._mine(peer, asked.claim_id)
        if slot is not None:
            self._moves.release(slot, asked.how, concluded=asked.concluded)
        else:
            self._withdraw(peer, asked.claim_id)
            self._moves.match_over(asked.claim_id)
        return DONE

    def _withdraw(self, peer: Peer, claim_id: str) -> None:
        """A claim that still waits for its slot is released."""
        slot = self._waiting(claim_id)
        if slot is not None and slot.pending is not None and self._holds(peer, slot.pending.claim):
            slot.pending.settle(False, "the claim was released")
            self._moves.preemption_over(slot)

    def keep_alive(self, peer: Peer, asked: KeepAlive) -> Alive:
        """Renew the leases."""
        return Alive(held=[self._mine(peer, claim_id) is not None for claim_id in asked.claim_ids])

    def wake_starter(self, peer: Peer, asked: WakeStarter) -> Done:
        """The schedd has to do with the job's starter."""
        slot = self._mine(peer, asked.claim_id)
        if slot is not None and slot.starter is not None:
            slot.starter.wake()
        return DONE

    def suspend(self, peer: Peer, asked: SuspendClaim) -> Done:
        """Freeze the job."""
        if (slot := self._mine(peer, asked.claim_id)) is not None:
            self._moves.suspend(slot)
        return DONE

    def resume(self, peer: Peer, asked: ContinueClaim) -> Done:
        """Thaw the job."""
        if (slot := self._mine(peer, asked.claim_id)) is not None:
            self._moves.resume(slot)
        return DONE

    def reconnect(self, peer: Peer, asked: ReconnectClaim) -> ReconnectAnswer:
        """The schedd was away; this is what became of its claim."""
        slot = self._if_held(peer, self._slots.known_by(asked.digest))
        if slot is None or slot.claim is None:
            return ReconnectAnswer(held=False)
        self._touch(slot, peer)
        lease = begin_lease(asked.lease_s, asked.alive_interval_s, now=trio.current_time())
        slot.claim = replace(slot.claim, lease=lease, alive_interval_s=asked.alive_interval_s)
        self._moves.lease_changed(slot)
        if slot.starter is not None:  # a schedd that was away knows nothing of starters that rest
            slot.starter.wake()
        running = slot.claim.activation
        return ReconnectAnswer(
            held=True,
            activation=running.activation if running is not None else "",
            slot_name=slot.name,
            slot_ad=self._ads.matching(slot),
            claim_id=self._slots.renew_id(slot) if asked.needs_id else "",
        )

    def _mine(self, peer: Peer, claim_id: str) -> Slot | None:
        """The slot of a claim that is still good, and the peer's; a word about it renews its lease."""
        slot = self.held_by(peer, claim_id)
        if slot is not None:
            self._touch(slot, peer)
        return slot

    def held_by(self, peer: Peer, claim_id: str) -> Slot | None:
        """The slot of a claim that is still good, and the peer's."""
        return self._if_held(peer, self._slots.holding(claim_id))

    def _if_held(self, peer: Peer, slot: Slot | None) -> Slot | None:
        if slot is None or slot.claim is None or slot.lease_lost or not self._holds(peer, slot.claim):
            return None
        return slot

    def _holds(self, peer: Peer, claim: Claim) -> bool:
        """Whether the peer is the schedd that used the claim's id first."""
        if self._claimant(peer) == claim.holder.bound_to:
            return True
        self._start.log.always(f"{peer} has the id of the claim {claim.claim_id.public()}, which is another's.")
        return False

    def _claimant(self, peer: Peer) -> str:
        """Whom a claim id is bound to: the host of a certificate; this one, for its own daemons; else the identity."""
        if peer.method == "SSL":
            return f"{peer.host_name}/{peer.pool}".casefold().rstrip("/")
        return self._start.host.casefold() if peer.uid in (0, self._start.security.owner_uid) else peer.identity

    def _waiting(self, claim_id: str) -> Slot | None:
        """The slot that a claim with this id waits for."""
        return next((slot for slot in self._slots if _waits(slot, claim_id)), None)

    def _touch(self, slot: Slot, peer: Peer) -> None:
        self._notice_sleep()
        self._moves.holders.heard_from(slot, peer)
        if slot.claim is not None:
            slot.claim = slot.claim.renewed(now=trio.current_time())


def _activation(asked: RequestClaim, early: EarlyOrder) -> ActivateClaim:
    """The order as it will come, as far as it is known."""
    return ActivateClaim(
        claim_id=asked.claim_id,
        activation=early.activation,
        job_id=early.job_id,
        job_ad=asked.job_ad,
        shadow_address=asked.shadow_address,
        ticket=asked.ticket,
        agent_address=early.agent_address,
        agent_ticket=early.agent_ticket,
    )


def _meeting(asked: RequestClaim) -> MeetSchedd:
    return MeetSchedd(shadow_address=asked.shadow_address, ticket=asked.ticket)


def _waits(slot: Slot, claim_id: str) -> bool:
    return slot.pending is not None and slot.pending.claim.claim_id == claim_id


def _public(claim_id: str) -> str:
    return ClaimId(claim_id).public()
