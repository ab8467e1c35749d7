"""What happens to slots: each thing that others tell of one is noted here, and becomes an event of the loop.

The loop (`loop`) moves slots by the table, has `effects` do what moves ask for, and asks the owner (`policy`). Nobody
else moves one: who is called by the loop only puts further events into it.

Source: HTCondor's manual, "Configuration for Execution Points": "State and Activity Transitions", which
`pool.slots.state_machine` has as a table and `pool.slots.policy` as expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.startd.slots import leaving
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.effects import Effects
from daemons.startd.slots.hands import Hands
from daemons.startd.slots.history import History
from daemons.startd.slots.holders import ClaimHolders
from daemons.startd.slots.leaving import WHY_DRAIN, WHY_RELEASED
from daemons.startd.slots.loop import SlotLoop
from daemons.startd.slots.outlook import Outlook
from daemons.startd.slots.policy import OwnersPolicy
from daemons.startd.slots.slot import NEVER, Slot, Slots
from pool.slots.counters import Preempted
from pool.slots.drain import Drain
from pool.slots.provision.resources import CPUS
from pool.slots.state_machine import Activity, Effect, Event, State, can, step
from protocol.messages.common import StopHow
from protocol.messages.startd import DeactivateClaim
from protocol.messages.starter import StopJob


class Moves:
    """The only way to move a slot. Whom moves concern is in `hands`."""

    def __init__(self, start: DaemonStart, tasks: Tasks, slots: Slots, ads: Ads, hands: Hands) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._hands = hands
        self._outlook = Outlook(slots, ads, hands.client_runs)
        self.holders = ClaimHolders(tasks, slots, self._orphaned)
        self._effects = Effects(start, slots, ads, self._outlook, self.holders, hands)
        owner = OwnersPolicy(start, slots, ads, self._outlook)
        self._loop = SlotLoop[Slot](self._follow, self._effects.perform, self._moved, owner.next, self._all_drained)
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

    # ---- the loop

    def apply(self, slot: Slot, event: Event) -> None:
        """Follow `event`, and what follows from it, until all slots are at rest."""
        self._loop.put(slot, event)
        self._loop.run()

    def if_can(self, slot: Slot, event: Event) -> None:
        """Follow `event` where the slot can."""
        if can(slot.state, event):
            self.apply(slot, event)

    def evaluate(self, slot: Slot) -> None:
        """Let the owner's policy say what should become of the slot, until it is content."""
        self._loop.ask(slot)
        self._loop.run()

    def _and_ask(self, slot: Slot, event: Event | None) -> None:
        """Follow the event, if there is one, and let the owner say what comes next."""
        if event is not None:
            self._loop.put(slot, event)
        self.evaluate(slot)

    def _follow(self, slot: Slot, event: Event) -> tuple[Effect, ...]:
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

    def _moved(self, slot: Slot) -> None:
        self._hands.changed(slot)
        self._hands.deadline_moved(slot)

    def _all_drained(self) -> list[tuple[Slot, Event]]:
        """What happens to the slots once the last of them has come to Drained, or only guests are left."""
        if self._ads.drain is None:
            return []
        if sent_away := self._send_guests_away(self._ads.drain):
            return sent_away
        if any(one.state.where != (State.DRAINED, Activity.RETIRING) for one in self._slots):
            return []
        return [(slot, Event.ALL_DRAINED) for slot in self._slots]

    def _send_guests_away(self, drain: Drain) -> list[tuple[Slot, Event]]:
        """When the jobs of before are gone, those that came since the drain began go too, and none follows."""
        claims = [slot.claim for slot in self._slots if slot.claim is not None]
        if drain.start is None or not all(claim.while_draining for claim in claims):
            return []
        self._ads.drain = replace(drain, start=None)
        for slot in self._slots:
            slot.changed()
            self._hands.changed(slot)
        gone = [(slot, leaving.give_up(slot, WHY_DRAIN, StopHow.GRACEFUL)) for slot in self._slots]
        return [(slot, event) for slot, event in gone if event is not None]

    # ---- what happens to slots

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
        self._hands.deadline_moved(None)

    def facts_changed(self) -> None:
        """The machine's own attributes are different now, and the policy may be about them."""
        for slot in self._slots:
            slot.matching_ad = None
            self._loop.ask(slot)
        self._loop.run()
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
        self._hands.deadline_moved(slot)

    def give_up(self, slot: Slot, reason: str, how: StopHow, *, retire: bool = False, by_holder: bool = False) -> None:
        """Take the slot from its claim for good. `retire` grants the job its retirement, PEACEFUL all its time."""
        if slot.claim is not None:
            self._and_ask(slot, leaving.give_up(slot, reason, how, retire=retire, by_holder=by_holder))

    def make_room(self, slot: Slot, *, again: bool = False) -> None:
        """A better claim waits for this slot; `again`: for another one, which makes way for it."""
        ranked = slot.pending is not None and slot.claim is not None and slot.pending.claim.rank > slot.claim.rank
        if again:
            slot.changed()
            self.note(slot)
        else:
            self._count_preemption(slot, ranked=ranked)
        self._and_ask(slot, leaving.make_room(slot, ranked=ranked))

    def end_for_better(self, slot: Slot, *, ranked: bool) -> None:
        """The slot ends, so that another has room for a better claim."""
        slot.why = leaving.WHY_RANK if ranked else leaving.WHY_PRIORITY
        self._count_preemption(slot, ranked=ranked)
        self.give_up(slot, slot.why, StopHow.GRACEFUL)

    def _count_preemption(self, slot: Slot, *, ranked: bool) -> None:
        if slot.busy:
            slot.preemptions += 1
            self._ads.statistics.preempted(Preempted.RANK if ranked else Preempted.USER_PRIO, self._start.world.wall())

    def preemption_over(self, slot: Slot) -> None:
        """The better claim went away before it had the slot."""
        slot.pending = None
        self.stays_after_all(slot)
        self._hands.changed(slot)

    def stays_after_all(self, slot: Slot) -> None:
        """What the job was to leave for is gone: it goes on, unless it was asked to leave already."""
        if (event := leaving.stays_after_all(slot)) is not None:
            self.apply(slot, event)

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
        released = slot.claim is not None and slot.claim.released
        event = leaving.give_up(slot, WHY_RELEASED, StopHow.GRACEFUL, by_holder=True) if released else None
        self._and_ask(slot, event)
        slot.freed.fire()
        self.job_ended.fire()
        self.holders.give_up_orphan(slot)

    # ---- inside

    def _orphaned(self, slot: Slot) -> None:
        self.give_up(slot, "its schedd is gone, and no job runs", StopHow.FAST)
