"""Moves slots: hands events to the state machine, and has done what it says must be done.

Everything that happens to a slot comes through `apply`; `evaluate` asks the owner's policy what should happen, `wake`
the clock. All of it is plain code without awaits, so a slot is never seen in the middle of a move. The rules:

* One loop moves a slot (`_follow`): it takes an event, does the effects of the move in their order, and takes the
  events that they bring next. What effects do is in `effects`, which moves nothing itself.
* Where a move asks for it (SETTLE), the owner's policy is asked when the loop has nothing more to do.
* The policy is asked again after each of its moves until it is content, ROUNDS_MAX times at most: one that contradicts
  itself waits for the next poll.

Source: HTCondor's manual, "Configuration for Execution Points": "State and Activity Transitions", which
`pool.slots.state_machine` has as a table and `pool.slots.policy` as expressions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.effects import Effects
from daemons.startd.slots.hands import Hands
from daemons.startd.slots.history import History
from daemons.startd.slots.holders import ClaimHolders
from daemons.startd.slots.outlook import Outlook
from daemons.startd.slots.slot import NEVER, Slot, Slots
from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns
from pool.files.checkpoint import wants_signal
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.universes import Universe
from pool.slots.counters import Preempted
from pool.slots.policy import next_event, wants_hold
from pool.slots.provision.resources import CPUS
from pool.slots.state_machine import Activity, Effect, Event, EvictionCause, State, can, leave, step
from protocol.messages.common import StopHow
from protocol.messages.startd import DeactivateClaim
from protocol.messages.starter import CheckpointJob, StopJob

ROUNDS_MAX: Final = 12
"""Most moves of one slot at one evaluation; a policy that contradicts itself waits for the next."""

COSTLY_POLLS_MAX: Final = 3
"""Polls with which a claim's job may have the owner's policy cost too much."""
_A_JOB: Final = ClassAd(
    {"MyType": "Job", "Owner": "nobody", "JobUniverse": Universe.VANILLA, "JobPrio": 0, "ImageSize": 1}
)
"""A job that says nothing unusual."""

WHY_DRAIN: Final = "the machine is draining"
WHY_RELEASED: Final = "the schedd released the claim"


class Moves:
    """The only one who moves slots. Whom moves concern is in `hands`."""

    def __init__(self, start: DaemonStart, tasks: Tasks, slots: Slots, ads: Ads, hands: Hands) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._hands = hands
        self._outlook = Outlook(slots, ads, hands.client_runs)
        self.holders = ClaimHolders(tasks, slots, self._orphaned)
        self._effects = Effects(start, slots, ads, self._outlook, self.holders, hands)
        self.history = History(start)
        self.job_ended = Signal()
        """Any job is gone from its slot."""

    @property
    def polling_s(self) -> float:
        """How often the policy is evaluated even when nothing seems to change."""
        return self._ads.settings.polling_s

    @property
    def stopping(self) -> bool:
        """Whether the startd was told to stop: nothing begins any more."""
        return self._slots.ending is not None

    def note(self, slot: Slot) -> None:
        """The slot's ad is to be sent anew."""
        self._hands.changed(slot)

    def lease_changed(self, slot: Slot) -> None:
        """The claim has another lease, which may end sooner."""
        self._hands.deadline_moved(slot)

    # ---- what happens to slots

    def apply(self, slot: Slot, event: Event) -> None:
        """Follow `event`, and what follows from it, until the slot is at rest."""
        if self._follow(slot, event):
            self.evaluate(slot)

    def if_can(self, slot: Slot, event: Event) -> None:
        """Follow `event` where the slot can."""
        if can(slot.state, event):
            self.apply(slot, event)

    def _follow(self, slot: Slot, event: Event) -> bool:
        """Move the slot by `event` and by those that effects bring; whether its policy is to be asked then."""
        events, settle = deque([event]), False
        while events:
            for effect in self._move(slot, events.popleft()):
                settle |= effect is Effect.SETTLE
                if (next_one := self._effects.perform(effect, slot)) is not None:
                    events.append(next_one)
            self._hands.changed(slot)
            self._hands.deadline_moved(slot)
        return settle

    def _move(self, slot: Slot, event: Event) -> tuple[Effect, ...]:
        """Take the arrows of one event; what is to be done because of them."""
        before = slot.state
        slot.state, effects = step(before, event, now=self._start.world.wall())
        self._start.log.full(
            f"{slot.short}: {before.state.value}/{before.activity.value} -> "
            f"{slot.state.state.value}/{slot.state.activity.value}: {event.value}"
        )
        self._outlook.set_deadlines(slot)
        slot.changed()
        return effects

    def evaluate(self, slot: Slot) -> None:
        """Let the owner's policy say what should become of the slot, until it is content."""
        with Overruns() as seen:
            self._evaluate(slot)
        if seen.count and slot.claim is not None and slot.hold is None:
            self._too_costly(slot, seen.reason)

    def _too_costly(self, slot: Slot, reason: str) -> None:
        """The policy has cost too much. Where that is the doing of the claim's job, and again and again, it ends."""
        with Overruns() as alone:
            next_event(slot.policy, slot.state, self._ads.for_policy(slot), _A_JOB, self._outlook.facts(slot))
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
            event = next_event(slot.policy, slot.state, self._ads.for_policy(slot), slot.job, self._outlook.facts(slot))
            if event is None or not can(slot.state, event):
                break
            if event is Event.CONTINUE and slot.user_suspended:
                break
            self._explain(slot, event)
            self._follow(slot, event)  # whether it asks for the policy or not: that is asked next
        self._owner_beats_what_can_be_undone(slot)
        self._ask_for_checkpoint(slot)
        self._outlook.set_deadlines(slot)
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
        self._hands.deadline_moved(None)

    def facts_changed(self) -> None:
        """The machine's own attributes are different now, and the policy may be about them."""
        for slot in self._slots:
            slot.matching_ad = None
        for slot in self._slots:
            self.evaluate(slot)
        self._hands.deadline_moved(None)

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
                self._effects.kill_starter(slot)
            if slot.match_at <= now:
                self._start.log.always(f"{slot.short}: nobody came for the match in time.")
                self.match_over(slot.promised)
            if min(slot.soft_at, slot.hard_at) <= now:
                self.evaluate(slot)

    def release(self, slot: Slot, how: StopHow, *, concluded: bool) -> None:
        """Its holder needs the slot no more. `concluded`: the job in it has reported its end, and leaves by itself."""
        if concluded and slot.claim is not None and slot.claim.activation is not None:
            slot.claim = replace(slot.claim, released=True)
            self.expect_end(slot)
        else:
            self.give_up(slot, WHY_RELEASED, how, by_holder=True)

    def expect_end(self, slot: Slot) -> None:
        """The job in the slot has reported its end; a starter that does not clean up after it in time is killed."""
        vacate_s = self._outlook.eviction(slot).vacate_s
        slot.kill_at = min(slot.kill_at, trio.current_time() + vacate_s + self._ads.settings.killing_timeout_s)
        self._hands.deadline_moved(None)

    def give_up(self, slot: Slot, reason: str, how: StopHow, *, retire: bool = False, by_holder: bool = False) -> None:
        """Take the slot from its claim for good. `retire` grants the job its retirement, PEACEFUL all its time."""
        if slot.claim is None:
            return
        if by_holder and slot.pending is not None and slot.state.leaving is EvictionCause.BETTER_CLAIM:
            self._hasten(slot, how)
            return
        slot.state = leave(slot.state, EvictionCause.FOR_GOOD)
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
                self.if_can(slot, Event.RELEASE if by_holder else Event.VACATE)

    def _hasten(self, slot: Slot, how: StopHow) -> None:
        """Its holder needs the slot no more: the better claim that waits for it need not wait for retirement."""
        slot.retirement_cap = 0.0
        if how is StopHow.FAST:
            self.if_can(slot, Event.KILL)
        else:
            self.evaluate(slot)

    def make_room(self, slot: Slot) -> None:
        """A better claim waits for this slot."""
        slot.state = leave(slot.state, EvictionCause.BETTER_CLAIM)
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
        self._hands.changed(slot)

    def stays_after_all(self, slot: Slot) -> None:
        """What the job was to leave for is gone: it goes on, unless it was asked to leave already."""
        if can(slot.state, Event.PREEMPTION_OVER):
            slot.why = ""
            self.apply(slot, Event.PREEMPTION_OVER)
        elif slot.state.where == (State.CLAIMED, Activity.SUSPENDED):
            slot.why, slot.state = "", leave(slot.state, EvictionCause.NO)
        elif slot.state.leaving is EvictionCause.BETTER_CLAIM:
            slot.state = leave(slot.state, EvictionCause.FOR_GOOD)

    def matched(self, slot: Slot, claim_id: str) -> None:
        """A schedd was given the slot, or the place of the job in it, and is expected to claim it."""
        self._slots.promise(slot, claim_id)
        self.if_can(slot, Event.MATCH)
        self.evaluate(slot)
        self._hands.changed(slot)
        self._hands.deadline_moved(slot)

    def match_over(self, claim_id: str) -> None:
        """Nobody will claim the slot with the id that was given away; it is good no more."""
        slot = self._slots.offering(claim_id)
        if slot is None or slot.promised != claim_id:
            return
        if slot.state.state is State.MATCHED:
            self.apply(slot, Event.MATCH_OVER)
        else:
            self._effects.forget_match(slot)
            self._outlook.set_deadlines(slot)
            self._hands.changed(slot)

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
        vacate_s = self._outlook.eviction(slot).vacate_s if how is StopHow.GRACEFUL else 0.0
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
        self._hands.deadline_moved(None)

    def shut_down(self, how: StopHow) -> None:
        """Every claim ends: after retirement, or as long as its job wants, or now."""
        self._slots.ending = how
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
        slot.usage = slot.device_use = None
        slot.sandbox_kib = 0
        slot.user_suspended = False
        slot.kill_at = NEVER
        slot.checkpoint_at = 0.0
        slot.hold = None
        if can(slot.state, Event.JOB_GONE):
            self.apply(slot, Event.JOB_GONE)
        if slot.claim is not None and slot.claim.released:
            self.give_up(slot, WHY_RELEASED, StopHow.GRACEFUL, by_holder=True)
        self.evaluate(slot)
        self.job_ended.fire()
        self.holders.give_up_orphan(slot)

    # ---- inside

    def _orphaned(self, slot: Slot) -> None:
        self.give_up(slot, "its schedd is gone, and no job runs", StopHow.FAST)

    def _explain(self, slot: Slot, event: Event) -> None:
        """Note why the job has to go, for the message that it is evicted with."""
        ad, job = self._ads.for_policy(slot), slot.job
        if event is Event.PREEMPT and not slot.why:
            slot.preemptions += 1
            self._ads.statistics.preempted(Preempted.OTHER, self._start.world.wall())
            if self._ads.drain is None or slot.policy.is_true("PREEMPT", ad, job):
                self._owner_wants_it_back(slot)
            else:
                slot.why, slot.state = WHY_DRAIN, leave(slot.state, EvictionCause.DRAINING)
        elif event in (Event.VACATE, Event.KILL) and not slot.why:
            slot.why = "the claim may take no more jobs"

    def _owner_wants_it_back(self, slot: Slot) -> None:
        """PREEMPT is true: the job leaves, and may have to be held."""
        slot.why, slot.state = "PREEMPT became true", leave(slot.state, EvictionCause.FOR_GOOD)
        if slot.job is not None:
            slot.hold = wants_hold(slot.policy, self._ads.for_policy(slot), slot.job)

    def _owner_beats_what_can_be_undone(self, slot: Slot) -> None:
        """While a better claim waits or the machine drains, the owner may come back: then the job has to leave."""
        if slot.state.activity is not Activity.RETIRING or slot.state.leaving is EvictionCause.FOR_GOOD:
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
            self._hands.drained()
