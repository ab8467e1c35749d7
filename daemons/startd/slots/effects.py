"""Does what moves of slots ask for: speaks to starters and schedds, ends claims, hands slots on.

Each effect of the state machine is one method here, plain code without awaits; what takes time is started beside it.
None of them moves a slot: one that lets something happen to its slot at once answers with that event, which the loop
follows in its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from daemons.base.log import Log
from daemons.daemon_core.run import DaemonStart
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.hands import Hands
from daemons.startd.slots.holders import ClaimHolders
from daemons.startd.slots.outlook import Outlook
from daemons.startd.slots.slot import NEVER, Slot, Slots
from daemons.startd.starters.living import LivingStarter
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import Activity, Effect, Event, State
from protocol.messages.common import StopHow
from protocol.messages.offers import ClaimChange
from protocol.messages.starter import ContinueJob, StopJob, SuspendJob

FAST_STOP_S: Final = 5.0


class Effects:
    """The performers, by effect."""

    def __init__(
        self, start: DaemonStart, slots: Slots, ads: Ads, outlook: Outlook, holders: ClaimHolders, hands: Hands
    ) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._outlook = outlook
        self._holders = holders
        self._hands = hands
        self._performers: dict[Effect, Callable[[Slot], Event | None]] = {
            Effect.FORGET_MATCH: self.forget_match,
            Effect.START_LEASE: lambda _slot: None,  # the claim brought it
            Effect.SUSPEND_JOB: self._suspend_job,
            Effect.CONTINUE_JOB: self._continue_job,
            Effect.SOFT_KILL: self._soft_kill,
            Effect.HARD_KILL: self._hard_kill,
            Effect.END_CLAIM: self._end_claim,
            Effect.NEXT_CLAIM: self._next_claim,
            # A claim without a job has nobody who would report its end.
            Effect.NO_JOB: lambda _slot: Event.JOB_GONE,
            Effect.IF_LAST_DRAINED: self._if_last_drained,
            Effect.START_CLIENT: hands.start_client,
            Effect.KILL_CLIENT: hands.kill_client,
            Effect.RUN_BENCHMARKS: hands.run_benchmarks,
        }

    def perform(self, slot: Slot, effect: Effect) -> Event | None:
        """Do what a move asks for; the event that follows from it, if one does."""
        return self._performers[effect](slot)

    def _suspend_job(self, slot: Slot) -> None:
        if slot.claim is not None and (running := slot.claim.activation) is not None:
            slot.claim = slot.claim.with_activation(running.paused(now=trio.current_time()))
            if slot.starter is not None:
                slot.starter.tell(SuspendJob(activation=running.activation))
        self._holders.tell(slot, ClaimChange.SUSPENDED, "the job was suspended")

    def _continue_job(self, slot: Slot) -> None:
        # Whoever lets the job go on, a user's wish to have it suspended is over with that.
        slot.user_suspended = False
        if slot.claim is not None and (running := slot.claim.activation) is not None:
            slot.claim = slot.claim.with_activation(running.resumed(now=trio.current_time()))
            if slot.starter is not None:
                slot.starter.tell(ContinueJob(activation=running.activation))
        self._holders.tell(slot, ClaimChange.CONTINUED, "the job goes on")

    def _soft_kill(self, slot: Slot) -> None:
        vacate_s = self._outlook.eviction(slot).vacate_s
        slot.hard_at = trio.current_time() + vacate_s
        self._stop(slot, StopHow.GRACEFUL, vacate_s)

    def _hard_kill(self, slot: Slot) -> None:
        patience = self._ads.settings.killing_timeout_s
        if (
            self._slots.ending is StopHow.FAST
        ):  # nobody may be left to whom the starter could report; it must not hold up the stop
            patience = min(patience, FAST_STOP_S)
        slot.kill_at = trio.current_time() + patience
        self._stop(slot, StopHow.FAST, 0.0)

    def _stop(self, slot: Slot, how: StopHow, vacate_s: float) -> None:
        claim = slot.claim
        if claim is None or claim.activation is None:
            return
        # Before the starter hears of it: its report may come at once, and has to find the eviction noted.
        self._hands.evicting(slot)
        reason, code, subcode = slot.hold if slot.hold is not None else (slot.why, 0, 0)
        self._start.log.always(f"{slot.short}: job {job_name(slot)} must leave ({how.value}): {reason}")
        self._holders.tell(slot, ClaimChange.VACATING, reason, code, subcode)
        if slot.starter is not None:
            slot.starter.tell(
                StopJob(
                    activation=claim.activation.activation,
                    how=how,
                    reason=reason,
                    vacate_s=vacate_s,
                    hold_code=code,
                    hold_subcode=subcode,
                )
            )

    def kill_starter(self, slot: Slot) -> None:
        """Its starter did not do in time what it was told."""
        slot.kill_at = NEVER
        if slot.starter is not None and slot.busy:
            self._start.log.always(
                f"{slot.short}: the starter {slot.starter.pid} did not end its job in time; killing it."
            )
            self._hands.kill_starter(slot.starter)

    def _end_claim(self, slot: Slot) -> None:
        self._holders.tell(slot, ClaimChange.RELEASED, slot.why or "the claim is over")
        claim = self._slots.let_go(slot)
        if claim is not None:
            self._start.log.always(f"{slot.short}: claim {claim.claim_id.public()} is over. {slot.why}".rstrip())
        self._ads.loads.claim_over(slot)
        if slot.starter is not None:
            # Idle by now, or about to be: what it still has to clean up is its own, and the slot's next claim gets
            # another.
            slot.starter.leave()
            slot.starter = None
        self._hands.dismiss_starter(slot.name)
        slot.peer, slot.why, slot.retirement_cap, slot.lease_lost, slot.promised = None, "", None, False, ""
        slot.costly_polls = 0
        slot.soft_at = slot.hard_at = slot.kill_at = NEVER
        if slot.kind is SlotKind.DYNAMIC and slot.pending is None:
            self._slots.destroy(slot)
            if slot.parent is not None:
                self._hands.changed(slot.parent)
        else:
            self._slots.refill(slot)

    def _next_claim(self, slot: Slot) -> Event | None:
        pending, slot.pending = slot.pending, None
        if pending is None:
            slot.why = "the claim that waited is gone"
            return Event.KILL
        self._slots.hold(slot, pending.claim.granted(trio.current_time(), self._start.world.wall()))
        slot.peer = pending.peer
        pending.settle(True)
        return None

    def _if_last_drained(self, _slot: Slot) -> None:
        if all(slot.state.where == (State.DRAINED, Activity.IDLE) for slot in self._slots):
            self._hands.drained()

    def forget_match(self, slot: Slot) -> None:
        """The id that a schedd was given is good no more."""
        if slot.promised:
            self._slots.use_offer(slot, slot.promised)


def job_name(slot: Slot) -> str:
    """The job in the slot, as logs call it."""
    running = slot.claim.activation if slot.claim is not None else None
    return str(running.job_id) if running is not None else "?"


def say_started(log: Log, slot: str, starter: LivingStarter, activation: str, job: str) -> None:
    """One line that the job has started: whoever hears of it first says it, for a short job may be over before its
    starter's answer is looked at."""
    if starter.logged != activation:
        starter.logged = activation
        log.always(f"{slot}: started job {job}", pid=starter.pid)
