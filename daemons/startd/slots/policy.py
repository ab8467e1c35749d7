"""Asks the owner's policy what should become of a slot (`pool.slots.policy`), and notes why; nothing here moves one.

A policy that costs too much processor time counts as one that says nothing. Where that is the doing of the claim's job,
and again and again, the job has to leave.
"""

from __future__ import annotations

from typing import Final

from daemons.daemon_core.run import DaemonStart
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.leaving import WHY_DRAIN, WHY_PREEMPT, give_up, refuse_pending
from daemons.startd.slots.outlook import Outlook
from daemons.startd.slots.slot import Slot, Slots
from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns
from pool.files.checkpoint import is_asked_for_one
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.universes import Universe
from pool.slots.counters import Preempted
from pool.slots.policy import next_event, wants_hold
from pool.slots.state_machine import Activity, Event, EvictionCause, State, can, leave
from protocol.messages.common import StopHow
from protocol.messages.starter import CheckpointJob

COSTLY_POLLS_MAX: Final = 3
"""Polls with which a claim's job may have the owner's policy cost too much."""
_A_JOB: Final = ClassAd(
    {"MyType": "Job", "Owner": "nobody", "JobUniverse": Universe.VANILLA, "JobPrio": 0, "ImageSize": 1}
)
"""A job that says nothing unusual."""


class OwnersPolicy:
    """The one who asks."""

    def __init__(self, start: DaemonStart, slots: Slots, ads: Ads, outlook: Outlook) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._outlook = outlook

    def next(self, slot: Slot) -> Event | None:
        """What the owner wants to happen to the slot now; None when it is content."""
        if self._slots.get(slot.name) is not slot or self._has_just_answered(slot):
            return None
        with Overruns() as seen:
            if (event := self._wanted(slot)) is not None:
                return event
            self._beats_what_can_be_undone(slot)
            self._ask_for_checkpoint(slot)
            self._outlook.set_deadlines(slot)
        slot.content = slot.matching_ad, slot.state, int(self._start.world.wall())
        if seen.count and slot.claim is not None and slot.hold is None:
            return self._too_costly(slot, seen.reason)
        return None

    def _has_just_answered(self, slot: Slot) -> bool:
        """Whether the policy of a slot that waits for its claim's next job would see nothing else than a moment ago:
        the same ad in the same second. Each job would have it asked twice, as the last one leaves and as it comes."""
        if slot.content is None or slot.state.where != (State.CLAIMED, Activity.IDLE):
            return False
        ad, state, second = slot.content
        return slot.matching_ad is ad is not None and slot.state is state and int(self._start.world.wall()) == second

    def _wanted(self, slot: Slot) -> Event | None:
        event = next_event(slot.policy, slot.state, self._ads.for_policy(slot), slot.job, self._outlook.facts(slot))
        if event is None or not can(slot.state, event) or (event is Event.CONTINUE and slot.user_suspended):
            return None
        self._explain(slot, event)
        return event

    def _too_costly(self, slot: Slot, reason: str) -> Event | None:
        """The policy has cost too much; what happens to the slot because of that."""
        with Overruns() as alone:
            next_event(slot.policy, slot.state, self._ads.for_policy(slot), _A_JOB, self._outlook.facts(slot))
        log = self._start.log
        if alone.count:
            log.always(f"{slot.short}: the owner's policy costs too much processor time: {alone.reason}")
            return None
        slot.costly_polls += 1
        log.always(f"{slot.short}: the policy costs too much processor time with the job of the claim: {reason}")
        if slot.costly_polls < COSTLY_POLLS_MAX:
            return None
        why = f"an attribute of the job that the machine's policy reads costs too much processor time: {reason}"
        slot.why, slot.hold = why, (why, HoldCode.EXPRESSION_TOO_COSTLY, 0)
        return give_up(slot, why, StopHow.GRACEFUL)

    def _explain(self, slot: Slot, event: Event) -> None:
        """Note why the job has to go, for the message that it is evicted with."""
        ad, job = self._ads.for_policy(slot), slot.job
        if event is Event.PREEMPT and not slot.why:
            slot.preemptions += 1
            self._ads.statistics.preempted(Preempted.OTHER, self._start.world.wall())
            if self._ads.drain is None or slot.policy.is_true("PREEMPT", ad, job):
                self._wants_it_back(slot)
            else:
                slot.why, slot.state = WHY_DRAIN, leave(slot.state, EvictionCause.DRAINING)
        elif event in (Event.VACATE, Event.KILL) and not slot.why:
            slot.why = "the claim may take no more jobs"

    def _wants_it_back(self, slot: Slot) -> None:
        """PREEMPT is true: the job leaves, and may have to be held."""
        slot.why, slot.state = WHY_PREEMPT, leave(slot.state, EvictionCause.FOR_GOOD)
        if slot.job is not None:
            slot.hold = wants_hold(slot.policy, self._ads.for_policy(slot), slot.job)

    def _beats_what_can_be_undone(self, slot: Slot) -> None:
        """While a better claim waits or the machine drains, the owner may come back: then the job has to leave."""
        if slot.state.activity is not Activity.RETIRING or slot.state.leaving is EvictionCause.FOR_GOOD:
            return
        if slot.policy.is_true("PREEMPT", self._ads.for_policy(slot), slot.job):
            self._wants_it_back(slot)
            refuse_pending(slot, "the machine's owner wants it back")

    def _ask_for_checkpoint(self, slot: Slot) -> None:
        """A job that makes checkpoints at a signal gets it when the owner's PERIODIC_CHECKPOINT says so.

        So does one that CRIU makes them of.
        """
        job = slot.job
        if job is None or slot.state.where != (State.CLAIMED, Activity.BUSY) or not is_asked_for_one(job):
            return
        if slot.claim is None or slot.claim.activation is None or slot.starter is None:
            return
        now = self._start.world.wall()
        if not slot.checkpoint_at:  # from its start on
            slot.checkpoint_at, slot.matching_ad = now, None
        elif slot.policy.is_true("PERIODIC_CHECKPOINT", self._ads.for_policy(slot), job):
            slot.checkpoint_at, slot.matching_ad = now, None
            slot.starter.tell(CheckpointJob(activation=slot.claim.activation.activation))
