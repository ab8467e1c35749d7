"""Moves slots: hands events to the state machine, and does what it says must be done.

Everything that happens to a slot comes through `apply`; `evaluate` asks the owner's policy what should happen, `wake`
the clock. What a move asks for is done by `effects`. All of it is plain code without awaits, so a slot is never seen in
the middle of a move.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from daemons.run import DaemonStart
from daemons.startd.ads import Ads
from daemons.startd.effects import Effects
from daemons.startd.history import History
from daemons.startd.slot import NEVER, Slot, Slots
from daemons.startd.starters import Starters
from pool.classad import ClassAd
from pool.classad.budget import Overruns
from pool.execute.checkpoint import wants_signal
from pool.jobs.codes import HoldCode
from pool.slots.machine import Activity, Event, Leaving, State, can, leave, step
from pool.slots.policy import Eviction, Facts, eviction, next_event, wants_hold
from pool.slots.resources import CPUS
from pool.slots.statistics import Preempted
from protocol.messages.common import StopHow
from protocol.messages.startd import DeactivateClaim
from protocol.messages.starter import CheckpointJob, StopJob
from protocol.rpc import Peer

if TYPE_CHECKING:
    from daemons.startd.backfill import Backfill

ROUNDS_MAX: Final = 12
"""Most moves of one slot at one evaluation; a policy that contradicts itself waits for the next."""

COSTLY_POLLS_MAX: Final = 3
"""Polls with which a claim's job may have the owner's policy cost too much."""
_A_JOB: Final = ClassAd({"MyType": "Job", "Owner": "nobody", "JobUniverse": 5, "JobPrio": 0, "ImageSize": 1})
"""A job that says nothing unusual."""

WHY_DRAIN: Final = "the machine is draining"
CLOSE_S: Final = 0.001
"""A deadline this near has come: what is left of it is lost in the clock's rounding."""


class Moves:
    """The hands of the state machine. `changed` is told of every slot whose ad must be sent anew."""

    def __init__(
        self, start: DaemonStart, nursery: trio.Nursery, slots: Slots, ads: Ads, changed: Callable[[Slot], None]
    ) -> None:
        self._start = start
        self._nursery = nursery
        self._holders: set[Peer] = set()
        self._slots = slots
        self._ads = ads
        self._changed = changed
        self.starters: Starters | None = None
        self.backfill: Backfill
        self.deadline_moved: Callable[[Slot | None], None] = lambda slot: None
        self.drained: Callable[[], None] = lambda: None
        self.evicting: Callable[[Slot], None] = lambda _slot: None
        self.benchmark_programs: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self.stopping = self.stops_fast = False
        self.claim_ended = trio.Event()
        """Set, and replaced, when any claim is over."""
        self.job_ended = trio.Event()
        """Set, and replaced, when any job is gone from its slot."""
        self.effects = Effects(start, nursery, slots, ads, self)
        self.history = History(start)

    @property
    def polling_s(self) -> float:
        """How often the policy is evaluated even when nothing seems to change."""
        return self._ads.settings.polling_s

    def note(self, slot: Slot) -> None:
        """The slot's ad is to be sent anew."""
        self._changed(slot)

    # ---- what happens to slots

    def apply(self, slot: Slot, event: Event) -> None:
        """Follow `event`, and do what it asks for, in order."""
        before = slot.state
        slot.state, effects = step(before, event, now=self._start.world.wall())
        self._start.log.full(
            f"{slot.short}: {before.state.value}/{before.activity.value} -> "
            f"{slot.state.state.value}/{slot.state.activity.value}: {event.value}"
        )
        self._set_deadlines(slot)
        slot.changed()
        for effect in effects:
            self.effects.do(effect, slot)
        self._changed(slot)
        self.deadline_moved(slot)

    def evaluate(self, slot: Slot) -> None:
        """Let the owner's policy say what should become of the slot, until it is content."""
        with Overruns() as seen:
            self._evaluate(slot)
        if seen.count and slot.claim is not None and slot.hold is None:
            self._too_costly(slot, seen.reason)

    def _too_costly(self, slot: Slot, reason: str) -> None:
        """The policy has cost too much. Where that is the doing of the claim's job, and again and again, it ends."""
        with Overruns() as alone:
            next_event(slot.policy, slot.state, self._ads.for_policy(slot), _A_JOB, self._facts(slot))
        log = self._start.log
        if alone.count:
            log.always(f"{slot.short}: the owner's policy costs too much processor time: {alone.reason}")
            return
        slot.costly_polls += 1
        log.always(f"{slot.short}: the policy costs too much processor time with the job of the claim: {reason}")
        if slot.costly_polls >= COSTLY_POLLS_MAX:
            why = f"an attribute of the job that the machine's policy reads costs too much processor time: {reason}"
            slot.why, slot.hold = why, (why, HoldCode.EXPRESSION_TOO_COSTLY, 0)
            self.give_up(slot, why, StopHow.GRACEFUL)

    def _evaluate(self, slot: Slot) -> None:
        for _ in range(ROUNDS_MAX):
            if self._slots.get(slot.name) is not slot:
                return
            event = next_event(slot.policy, slot.state, self._ads.for_policy(slot), slot.job, self._facts(slot))
            if event is None or not can(slot.state, event):
                break
            if event is Event.CONTINUE and slot.user_suspended:
                break
            self._explain(slot, event)
            self.apply(slot, event)
        self._owner_beats_what_can_be_undone(slot)
        self._ask_for_checkpoint(slot)
        self._set_deadlines(slot)
        if slot.state.state is State.DRAINED:
            self._settle_drain()

    def _ask_for_checkpoint(self, slot: Slot) -> None:
        """A job that makes checkpoints at a signal gets it when the owner's PERIODIC_CHECKPOINT says so."""
        job = slot.job
        if job is None or slot.state.where != (State.CLAIMED, Activity.BUSY) or not wants_signal(job):
            return
        if slot.claim is None or slot.claim.activation is None or slot.starter is None:
            return
        now = self._start.world.wall()
        if not slot.checkpoint_at:  # from its start on
            slot.checkpoint_at, slot.matching_ad = now, None
        elif slot.policy.is_true("PERIODIC_CHECKPOINT", self._ads.for_policy(slot), job):
            slot.checkpoint_at, slot.matching_ad = now, None
            slot.starter.tell(CheckpointJob(activation=slot.claim.activation.activation))

    def evaluate_all(self) -> None:
        """Every slot, with a fresh look at the machine."""
        for _ in self.evaluate_each():
            pass

    def evaluate_each(self) -> Iterator[Slot]:
        """The same, one slot after another, for a caller who gives way in between."""
        self._ads.refresh()
        for slot in self._slots:
            self.evaluate(slot)
            yield slot
        self._settle_drain()
        self.deadline_moved(None)

    def facts_changed(self) -> None:
        """The machine's own attributes are different now, and the policy may be about them."""
        for slot in self._slots:
            slot.matching_ad = None
        for slot in self._slots:
            self.evaluate(slot)
        self.deadline_moved(None)

    def wake(self) -> None:
        """Deal with every deadline that has passed."""
        now = trio.current_time()
        for slot in self._slots:
            if slot.next_deadline() > now:
                continue
            if slot.claim is not None and not slot.lease_lost and slot.claim.lease.is_over(now=now):
                self._start.log.always(f"{slot.short}: the lease of {slot.claim.claim_id.public()} ran out.")
                slot.lease_lost = True
                self.give_up(slot, "the claim's lease ran out", StopHow.GRACEFUL)
            if slot.kill_at <= now:
                self.effects.kill_starter(slot)
            if slot.match_at <= now:
                self._start.log.always(f"{slot.short}: nobody came for the match in time.")
                self.match_over(slot.promised)
            if min(slot.soft_at, slot.hard_at) <= now:
                self.evaluate(slot)

    def give_up(self, slot: Slot, reason: str, how: StopHow, *, retire: bool = False, by_holder: bool = False) -> None:
        """Take the slot from its claim for good. `retire` grants the job its retirement, PEACEFUL all its time."""
        if slot.claim is None:
            return
        if by_holder and slot.pending is not None and slot.state.leaving is Leaving.BETTER_CLAIM:
            self._hasten(slot, how)
            return
        slot.state = leave(slot.state, Leaving.FOR_GOOD)
        if slot.pending is not None:
            slot.pending.settle(False, reason)
            slot.pending = None
        slot.why = slot.why or reason
        if how is StopHow.FAST:
            slot.retirement_cap = 0.0
            self.if_can(slot, Event.KILL)
        elif how is StopHow.PEACEFUL and slot.busy and not by_holder:  # a schedd cannot grant itself more time
            slot.retirement_cap = math.inf
            self.if_can(slot, Event.PREEMPT)
        elif slot.state.state is State.CLAIMED:
            slot.retirement_cap = None if retire or how is StopHow.PEACEFUL else 0.0
            if slot.busy:
                self.if_can(slot, Event.PREEMPT)
                self.evaluate(slot)
            else:
                self.if_can(slot, Event.VACATE)

    def _hasten(self, slot: Slot, how: StopHow) -> None:
        """Its holder needs the slot no more: the better claim that waits for it need not wait for retirement."""
        slot.retirement_cap = 0.0
        if how is StopHow.FAST:
            self.if_can(slot, Event.KILL)
        else:
            self.evaluate(slot)

    def make_room(self, slot: Slot) -> None:
        """A better claim waits for this slot."""
        slot.state = leave(slot.state, Leaving.BETTER_CLAIM)
        slot.why = "a better job was found for the slot"
        slot.preemptions += slot.busy
        if slot.busy:
            ranked = slot.pending is not None and slot.claim is not None and slot.pending.claim.rank > slot.claim.rank
            self._ads.statistics.preempted(Preempted.RANK if ranked else Preempted.USER_PRIO, self._start.world.wall())
            self.if_can(slot, Event.PREEMPT)
            self.evaluate(slot)
        else:
            self.if_can(slot, Event.VACATE)

    def end_for_better(self, slot: Slot, *, ranked: bool) -> None:
        """The slot ends, so that another has room for a better claim."""
        slot.why = "a better job was found for the room"
        slot.preemptions += slot.busy
        if slot.busy:
            self._ads.statistics.preempted(Preempted.RANK if ranked else Preempted.USER_PRIO, self._start.world.wall())
        self.give_up(slot, slot.why, StopHow.GRACEFUL)

    def preemption_over(self, slot: Slot) -> None:
        """The better claim went away before it had the slot."""
        slot.pending = None
        self.stays_after_all(slot)
        self._changed(slot)

    def stays_after_all(self, slot: Slot) -> None:
        """What the job was to leave for is gone: it goes on, unless it was asked to leave already."""
        if can(slot.state, Event.PREEMPTION_OVER):
            slot.why = ""
            self.apply(slot, Event.PREEMPTION_OVER)
        elif slot.state.where == (State.CLAIMED, Activity.SUSPENDED):
            slot.why, slot.state = "", leave(slot.state, Leaving.NO)
        elif slot.state.leaving is Leaving.BETTER_CLAIM:
            slot.state = leave(slot.state, Leaving.FOR_GOOD)

    def matched(self, slot: Slot, claim_id: str) -> None:
        """A schedd was given the slot, or the place of the job in it, and is expected to claim it."""
        self._slots.promise(slot, claim_id)
        self.if_can(slot, Event.MATCH)
        self.evaluate(slot)
        self._changed(slot)
        self.deadline_moved(slot)

    def match_over(self, claim_id: str) -> None:
        """Nobody will claim the slot with the id that was given away; it is good no more."""
        slot = self._slots.offering(claim_id)
        if slot is None or slot.promised != claim_id:
            return
        if slot.state.state is State.MATCHED:
            self.apply(slot, Event.MATCH_OVER)
        else:
            self.effects.forget_match(slot)
            self._set_deadlines(slot)
            self._changed(slot)

    def suspend(self, slot: Slot) -> None:
        """The schedd wants the job frozen, whatever the policy says."""
        if can(slot.state, Event.SUSPEND):
            slot.user_suspended = True
            self.apply(slot, Event.SUSPEND)

    def resume(self, slot: Slot) -> None:
        """The schedd wants the job to go on."""
        slot.user_suspended = False
        if slot.state.activity is Activity.SUSPENDED and can(slot.state, Event.CONTINUE):
            self.apply(slot, Event.CONTINUE)

    def stop_job(self, slot: Slot, asked: DeactivateClaim) -> None:
        """End the job but keep the claim: the schedd wants it so."""
        how, active = asked.how, slot.claim.activation if slot.claim is not None else None
        if slot.starter is None or active is None or how is StopHow.PEACEFUL:
            return
        vacate_s = self.eviction(slot).vacate_s if how is StopHow.GRACEFUL else 0.0
        slot.kill_at = trio.current_time() + vacate_s + self._ads.settings.killing_timeout_s
        slot.starter.tell(
            StopJob(
                activation=active.activation,
                how=how,
                reason=asked.reason,
                vacate_s=vacate_s,
                cause=asked.cause,
                transfer=asked.transfer,
            )
        )
        self.deadline_moved(None)

    def shut_down(self, how: StopHow) -> None:
        """Every claim ends: after retirement, or as long as its job wants, or now."""
        self.stopping, self.stops_fast = True, how is StopHow.FAST
        for slot in self._slots:
            self.give_up(slot, "the startd is shutting down", how, retire=how is StopHow.GRACEFUL)
            self.end_backfill(slot)

    def end_backfill(self, slot: Slot) -> None:
        """The backfill client has to leave the slot."""
        if slot.state.state is State.BACKFILL:
            self.if_can(slot, Event.EVICT_BACKFILL)

    def job_gone(self, slot: Slot) -> None:
        """Nothing runs in the slot any more."""
        if slot.claim is not None and slot.claim.activation is not None:
            now, running = trio.current_time(), slot.claim.activation
            self._ads.statistics.ended(now - running.started_at, self._start.world.wall())
            self.history.ended(slot, running)
            if slot.state.state is State.PREEMPTING and slot.why == WHY_DRAIN:
                self._ads.draining_cost.evicted(float(slot.free.amounts.of(CPUS)), running.ran_s(now=now))
            slot.claim = slot.claim.without_job(now=now)
        freed, slot.freed = slot.freed, trio.Event()
        freed.set()
        slot.usage = slot.device_use = None
        slot.user_suspended = False
        slot.kill_at = NEVER
        slot.checkpoint_at = 0.0
        slot.hold = None
        if can(slot.state, Event.JOB_GONE):
            self.apply(slot, Event.JOB_GONE)
        self.evaluate(slot)
        ended, self.job_ended = self.job_ended, trio.Event()
        ended.set()
        self._give_up_orphan(slot)

    def say_claim_ended(self) -> None:
        """Some claim is over."""
        ended, self.claim_ended = self.claim_ended, trio.Event()
        ended.set()

    def heard_from(self, slot: Slot, peer: Peer) -> None:
        """The claim's holder has spoken, over this connection."""
        slot.peer = peer
        if peer not in self._holders:
            self._holders.add(peer)
            self._nursery.start_soon(self._until_lost, peer)

    # ---- inside

    async def _until_lost(self, peer: Peer) -> None:
        await peer.closed.wait()
        self._holders.discard(peer)
        for slot in list(self._slots):
            if slot.peer is peer:
                self._give_up_orphan(slot)

    def _give_up_orphan(self, slot: Slot) -> None:
        """The lease protects a job while its schedd is away. A claim without one protects nothing: a schedd that died
        before it knew of the claim never asks for it, and any other makes a new one."""
        if slot.peer is None or not slot.peer.closed.is_set() or slot.state.where != (State.CLAIMED, Activity.IDLE):
            return
        if slot.claim is not None and slot.claim.activation is None:
            self.give_up(slot, "its schedd is gone, and no job runs", StopHow.FAST)

    def if_can(self, slot: Slot, event: Event) -> None:
        """Follow `event` where the slot can."""
        if can(slot.state, event):
            self.apply(slot, event)

    def _facts(self, slot: Slot) -> Facts:
        now = trio.current_time()
        claim = slot.claim
        over = False
        if slot.state.leaving is not Leaving.NO and slot.state.activity in (Activity.RETIRING, Activity.SUSPENDED):
            over = self.eviction(slot).soft_in_s <= CLOSE_S
        worklife = slot.policy.number("CLAIM_WORKLIFE", self._ads.matching(slot), slot.job, 1200.0)
        return Facts(
            retirement_over=over,
            vacate_over=slot.hard_at <= now,
            match_over=slot.match_at <= now,
            worklife_over=claim is not None and claim.worklife_over(worklife, now=now),
            draining=self._ads.drain is not None and not self._welcome(slot),
            backfill=not slot.children and not self.stopping,
            no_client=slot.state.state is State.BACKFILL and not self.backfill.runs and not slot.claims_coming,
            never_measured=not self._ads.benchmarked_at,
            benchmarks=not any(other.state.activity is Activity.BENCHMARKING for other in self._slots),
        )

    def _welcome(self, slot: Slot) -> bool:
        """Whether the slot's job was let in because START while draining allows it."""
        return slot.claim is not None and slot.claim.while_draining

    def eviction(self, slot: Slot) -> Eviction:
        """When the job is asked to leave, and how long it then has."""
        job, claim = slot.job, slot.claim
        if job is None or claim is None or claim.activation is None:
            return Eviction(0.0, 0.0)
        ran_s = claim.activation.ran_s(now=trio.current_time())
        return eviction(slot.policy, self._ads.matching(slot), job, ran_s=ran_s, retirement=self._ads.retirement(slot))

    def _set_deadlines(self, slot: Slot) -> None:
        now, activity = trio.current_time(), slot.state.activity
        slot.soft_at = now + self.eviction(slot).soft_in_s if activity is Activity.RETIRING and slot.busy else NEVER
        if activity is not Activity.VACATING:
            slot.hard_at = NEVER
        if not slot.promised:
            slot.match_at = NEVER
        elif slot.match_at == NEVER:
            slot.match_at = now + self._ads.settings.match_timeout_s

    def _explain(self, slot: Slot, event: Event) -> None:
        """Note why the job has to go, for the message that it is evicted with."""
        ad, job = self._ads.for_policy(slot), slot.job
        if event is Event.PREEMPT and not slot.why:
            slot.preemptions += 1
            self._ads.statistics.preempted(Preempted.OTHER, self._start.world.wall())
            if self._ads.drain is None or slot.policy.is_true("PREEMPT", ad, job):
                self._owner_wants_it_back(slot)
            else:
                slot.why, slot.state = WHY_DRAIN, leave(slot.state, Leaving.DRAINING)
        elif event in (Event.VACATE, Event.KILL) and not slot.why:
            slot.why = "the claim may take no more jobs"

    def _owner_wants_it_back(self, slot: Slot) -> None:
        """PREEMPT is true: the job leaves, and may have to be held."""
        slot.why, slot.state = "PREEMPT became true", leave(slot.state, Leaving.FOR_GOOD)
        if slot.job is not None:
            slot.hold = wants_hold(slot.policy, self._ads.for_policy(slot), slot.job)

    def _owner_beats_what_can_be_undone(self, slot: Slot) -> None:
        """While a better claim waits or the machine drains, the owner may come back: then the job has to leave."""
        if slot.state.activity is not Activity.RETIRING or slot.state.leaving is Leaving.FOR_GOOD:
            return
        if slot.policy.is_true("PREEMPT", self._ads.for_policy(slot), slot.job):
            self._owner_wants_it_back(slot)
            if slot.pending is not None:
                slot.pending.settle(False, "the machine's owner wants it back")
                slot.pending = None

    def _settle_drain(self) -> None:
        slots = list(self._slots)
        if slots and all(slot.state.where == (State.DRAINED, Activity.RETIRING) for slot in slots):
            for slot in slots:
                self.apply(slot, Event.ALL_DRAINED)
            self.drained()
