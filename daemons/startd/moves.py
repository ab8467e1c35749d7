"""Moves slots: hands events to the state machine, and does what it says must be done.

Everything that happens to a slot comes through `apply`; `evaluate` asks the owner's policy what should happen, `wake`
the clock. All of it is plain code without awaits, so a slot is never seen in the middle of a move.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from daemons.run import DaemonStart
from daemons.startd.ads import Ads
from daemons.startd.benchmarks import measure
from daemons.startd.slot import NEVER, Slot, Slots
from daemons.startd.starters import Starter, Starters
from pool.classad import ClassAd
from pool.errors import PeerError
from pool.slots.machine import Activity, Effect, Event, Leaving, State, can, leave, step
from pool.slots.policy import HOLD_BY_STARTD, Eviction, Facts, eviction, next_event, wants_hold
from pool.slots.resources import CPUS
from pool.slots.slot_types import SlotKind
from pool.slots.statistics import Preempted
from protocol.messages.common import StopHow
from protocol.messages.schedd import ClaimChange, ClaimChanged
from protocol.messages.starter import ActivationOver, ContinueJob, DeviceUse, JobInfo, StopJob, SuspendJob
from protocol.rpc import Peer

if TYPE_CHECKING:
    from daemons.startd.backfill import Backfill

ROUNDS_MAX: Final = 12
"""Most moves of one slot at one evaluation; a policy that contradicts itself waits for the next."""

FAST_STOP_S: Final = 5.0
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
        self.stopping = self._stops_fast = False
        self.claim_ended = trio.Event()
        """Set, and replaced, when any claim is over."""
        self.job_ended = trio.Event()
        """Set, and replaced, when any job is gone from its slot."""
        self._do: dict[Effect, Callable[[Slot], None]] = {
            Effect.FORGET_MATCH: self._forget_match,
            Effect.START_LEASE: lambda _slot: None,  # the claim brought it
            Effect.SUSPEND_JOB: self._suspend_job,
            Effect.CONTINUE_JOB: self._continue_job,
            Effect.SOFT_KILL: self._soft_kill,
            Effect.HARD_KILL: self._hard_kill,
            Effect.END_CLAIM: self._end_claim,
            Effect.NEXT_CLAIM: self._next_claim,
            Effect.NO_JOB: lambda slot: self.apply(slot, Event.JOB_GONE),
            Effect.SETTLE: self.evaluate,
            Effect.START_CLIENT: lambda slot: self.backfill.start_client(slot),
            Effect.KILL_CLIENT: lambda slot: self.backfill.kill_client(slot),
            Effect.RUN_BENCHMARKS: lambda slot: nursery.start_soon(self._benchmark, slot),
        }

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
            self._do[effect](slot)
        self._changed(slot)
        self.deadline_moved(slot)

    def evaluate(self, slot: Slot) -> None:
        """Let the owner's policy say what should become of the slot, until it is content."""
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
        self._owner_beats_better_claim(slot)
        self._set_deadlines(slot)
        if slot.state.state is State.DRAINED:
            self._settle_drain()

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
                self._kill_starter(slot)
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
            self._if_can(slot, Event.KILL)
        elif how is StopHow.PEACEFUL and slot.busy and not by_holder:  # a schedd cannot grant itself more time
            slot.retirement_cap = math.inf
            self._if_can(slot, Event.PREEMPT)
        elif slot.state.state is State.CLAIMED:
            slot.retirement_cap = None if retire or how is StopHow.PEACEFUL else 0.0
            if slot.busy:
                self._if_can(slot, Event.PREEMPT)
                self.evaluate(slot)
            else:
                self._if_can(slot, Event.VACATE)

    def _hasten(self, slot: Slot, how: StopHow) -> None:
        """Its holder needs the slot no more: the better claim that waits for it need not wait for retirement."""
        slot.retirement_cap = 0.0
        if how is StopHow.FAST:
            self._if_can(slot, Event.KILL)
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
            self._if_can(slot, Event.PREEMPT)
            self.evaluate(slot)
        else:
            self._if_can(slot, Event.VACATE)

    def preemption_over(self, slot: Slot) -> None:
        """The better claim went away before it had the slot."""
        slot.pending = None
        if can(slot.state, Event.PREEMPTION_OVER):
            slot.why = ""
            self.apply(slot, Event.PREEMPTION_OVER)
        elif slot.state.leaving is Leaving.BETTER_CLAIM:
            slot.state = leave(slot.state, Leaving.FOR_GOOD)
        self._changed(slot)

    def matched(self, slot: Slot, claim_id: str) -> None:
        """A schedd was given the slot, or the place of the job in it, and is expected to claim it."""
        self._slots.promise(slot, claim_id)
        self._if_can(slot, Event.MATCH)
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
            self._forget_match(slot)
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

    def stop_job(self, slot: Slot, how: StopHow, reason: str, cause: str = "") -> None:
        """End the job but keep the claim: the schedd wants it so."""
        if slot.starter is None or slot.claim is None or slot.claim.activation is None or how is StopHow.PEACEFUL:
            return
        vacate_s = self._eviction(slot).vacate_s if how is StopHow.GRACEFUL else 0.0
        slot.kill_at = trio.current_time() + vacate_s + self._ads.settings.killing_timeout_s
        activation = slot.claim.activation.activation
        slot.starter.tell(StopJob(activation=activation, how=how, reason=reason, vacate_s=vacate_s, cause=cause))
        self.deadline_moved(None)

    def shut_down(self, how: StopHow) -> None:
        """Every claim ends: after retirement, or as long as its job wants, or now."""
        self.stopping, self._stops_fast = True, how is StopHow.FAST
        for slot in self._slots:
            self.give_up(slot, "the startd is shutting down", how, retire=how is StopHow.GRACEFUL)
            self.end_backfill(slot)

    def end_backfill(self, slot: Slot) -> None:
        """The backfill client has to leave the slot."""
        if slot.state.state is State.BACKFILL:
            self._if_can(slot, Event.EVICT_BACKFILL)

    # ---- what starters say

    def job_info(self, starter: Starter, info: JobInfo) -> None:
        """What the job uses now; policy may have something to say about it."""
        slot = self._slot_of(starter, info.activation)
        if slot is not None:
            slot.usage = info.ad
            slot.changed()
            self.evaluate(slot)

    def devices_used(self) -> None:
        """A monitor has looked at devices: their jobs are told, for the job's own ad."""
        for slot in self._slots:
            if slot.device_use is None or slot.starter is None or slot.claim is None or slot.claim.activation is None:
                continue
            if slot.device_use.look(self._ads.cron(), self._ads.matching(slot)):
                used = ClassAd(slot.device_use.attributes())
                slot.starter.tell(DeviceUse(activation=slot.claim.activation.activation, ad=used))

    def activation_over(self, starter: Starter, over: ActivationOver) -> None:
        """The job is gone, its sandbox too; the starter may have the claim's next job."""
        slot = self._slot_of(starter, over.activation)
        if slot is not None:
            self._start.log.always(f"{slot.short}: job {self._job_name(slot)} is over. {over.reason}".rstrip())
            wall = self._start.world.wall()
            self._ads.statistics.ran(over.ran_s, wall, received=over.received, sent=over.sent)
            self.job_gone(slot)

    def starter_gone(self, starter: Starter, problems: list[str]) -> None:
        """A starter ended and was swept."""
        for slot in self._slots:
            if slot.starter is starter:
                slot.starter = None
                if slot.busy:
                    self._start.log.always(
                        f"{slot.short}: the starter {starter.pid} of {self._job_name(slot)} is gone."
                    )
                    self._tell(slot, ClaimChange.STARTER_GONE, "the starter ended without a report")
                    self.job_gone(slot)

    def job_gone(self, slot: Slot) -> None:
        """Nothing runs in the slot any more."""
        if slot.claim is not None and slot.claim.activation is not None:
            now, running = trio.current_time(), slot.claim.activation
            self._ads.statistics.ended(now - running.started_at, self._start.world.wall())
            if slot.state.state is State.PREEMPTING and slot.why == WHY_DRAIN:
                self._ads.draining_cost.evicted(float(slot.free.amounts.of(CPUS)), running.ran_s(now=now))
            slot.claim = slot.claim.without_job(now=now)
        freed, slot.freed = slot.freed, trio.Event()
        freed.set()
        slot.usage = slot.device_use = None
        slot.user_suspended = False
        slot.kill_at = NEVER
        slot.hold = None
        if can(slot.state, Event.JOB_GONE):
            self.apply(slot, Event.JOB_GONE)
        self.evaluate(slot)
        ended, self.job_ended = self.job_ended, trio.Event()
        ended.set()
        self._give_up_orphan(slot)

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

    def _if_can(self, slot: Slot, event: Event) -> None:
        if can(slot.state, event):
            self.apply(slot, event)

    def _slot_of(self, starter: Starter, activation: str) -> Slot | None:
        for slot in self._slots:
            claim = slot.claim
            if slot.starter is starter and claim is not None and claim.activation is not None:
                return slot if claim.activation.activation == activation else None
        return None

    def _facts(self, slot: Slot) -> Facts:
        now = trio.current_time()
        claim = slot.claim
        over = False
        if slot.state.leaving is not Leaving.NO and slot.state.activity in (Activity.RETIRING, Activity.SUSPENDED):
            over = self._eviction(slot).soft_in_s <= CLOSE_S
        worklife = slot.policy.number("CLAIM_WORKLIFE", self._ads.matching(slot), slot.job, 1200.0)
        return Facts(
            retirement_over=over,
            vacate_over=slot.hard_at <= now,
            match_over=slot.match_at <= now,
            worklife_over=claim is not None and claim.worklife_over(worklife, now=now),
            draining=self._ads.drain is not None and not self._welcome(slot),
            backfill=not slot.children and not self.stopping,
            no_client=slot.state.state is State.BACKFILL and not self.backfill.runs and not slot.claims_coming,
            benchmarks=not any(other.state.activity is Activity.BENCHMARKING for other in self._slots),
        )

    def _welcome(self, slot: Slot) -> bool:
        """Whether the slot's job was let in because START while draining allows it."""
        return slot.claim is not None and slot.claim.while_draining

    def _eviction(self, slot: Slot) -> Eviction:
        """When the job is asked to leave, and how long it then has."""
        job, claim = slot.job, slot.claim
        if job is None or claim is None or claim.activation is None:
            return Eviction(0.0, 0.0)
        ran_s = claim.activation.ran_s(now=trio.current_time())
        return eviction(slot.policy, self._ads.matching(slot), job, ran_s=ran_s, retirement=self._ads.retirement(slot))

    def _set_deadlines(self, slot: Slot) -> None:
        now, activity = trio.current_time(), slot.state.activity
        slot.soft_at = now + self._eviction(slot).soft_in_s if activity is Activity.RETIRING and slot.busy else NEVER
        if activity is not Activity.VACATING:
            slot.hard_at = NEVER
        if not slot.promised:
            slot.match_at = NEVER
        elif slot.match_at == NEVER:
            slot.match_at = now + self._ads.settings.match_timeout_s

    def _forget_match(self, slot: Slot) -> None:
        if slot.promised:
            self._slots.use_offer(slot, slot.promised)

    def _explain(self, slot: Slot, event: Event) -> None:
        """Note why the job has to go, for the message that it is evicted with."""
        ad, job = self._ads.for_policy(slot), slot.job
        if event is Event.PREEMPT and not slot.why:
            drain = self._ads.drain
            slot.why = WHY_DRAIN if drain is not None else "PREEMPT became true"
            slot.preemptions += 1
            self._ads.statistics.preempted(Preempted.OTHER, self._start.world.wall())
            if drain is None and job is not None and slot.policy.is_true("PREEMPT", ad, job):
                slot.hold = wants_hold(slot.policy, ad, job)
        elif event in (Event.VACATE, Event.KILL) and not slot.why:
            slot.why = "the claim may take no more jobs"

    def _owner_beats_better_claim(self, slot: Slot) -> None:
        """While a better claim waits, the owner may come back: then nobody gets the slot."""
        if slot.pending is None or slot.state.activity is not Activity.RETIRING:
            return
        if slot.policy.is_true("PREEMPT", self._ads.for_policy(slot), slot.job):
            slot.state = leave(slot.state, Leaving.FOR_GOOD)
            slot.pending.settle(False, "the machine's owner wants it back")
            slot.pending = None

    def _settle_drain(self) -> None:
        slots = list(self._slots)
        if slots and all(slot.state.where == (State.DRAINED, Activity.RETIRING) for slot in slots):
            for slot in slots:
                self.apply(slot, Event.ALL_DRAINED)
            self.drained()

    async def _benchmark(self, slot: Slot) -> None:
        """Measure the machine for all slots; whoever claims the slot meanwhile has it at once."""
        await self.benchmark_programs()
        self._ads.benchmarked(*await self._start.world.threads.run_sync(measure))
        self._if_can(slot, Event.BENCHMARKED)
        for other in self._slots:
            self._changed(other)

    # ---- effects

    def _suspend_job(self, slot: Slot) -> None:
        if slot.claim is not None and (running := slot.claim.activation) is not None:
            slot.claim = slot.claim.with_activation(running.paused(now=trio.current_time()))
            if slot.starter is not None:
                slot.starter.tell(SuspendJob(activation=running.activation))
        self._tell(slot, ClaimChange.SUSPENDED, "the job was suspended")

    def _continue_job(self, slot: Slot) -> None:
        slot.user_suspended = False
        if slot.claim is not None and (running := slot.claim.activation) is not None:
            slot.claim = slot.claim.with_activation(running.resumed(now=trio.current_time()))
            if slot.starter is not None:
                slot.starter.tell(ContinueJob(activation=running.activation))
        self._tell(slot, ClaimChange.CONTINUED, "the job goes on")

    def _soft_kill(self, slot: Slot) -> None:
        vacate_s = self._eviction(slot).vacate_s
        slot.hard_at = trio.current_time() + vacate_s
        self._stop(slot, StopHow.GRACEFUL, vacate_s)

    def _hard_kill(self, slot: Slot) -> None:
        patience = self._ads.settings.killing_timeout_s
        if self._stops_fast:  # nobody may be left to whom the starter could report; it must not hold up the stop
            patience = min(patience, FAST_STOP_S)
        slot.kill_at = trio.current_time() + patience
        self._stop(slot, StopHow.FAST, 0.0)

    def _stop(self, slot: Slot, how: StopHow, vacate_s: float) -> None:
        claim = slot.claim
        if claim is None or claim.activation is None:
            return
        self.evicting(slot)
        reason, subcode = slot.hold if slot.hold is not None else (slot.why, 0)
        code = HOLD_BY_STARTD if slot.hold is not None else 0
        self._start.log.always(f"{slot.short}: job {self._job_name(slot)} must leave ({how.value}): {reason}")
        self._tell(slot, ClaimChange.VACATING, reason, code, subcode)
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

    def _kill_starter(self, slot: Slot) -> None:
        slot.kill_at = NEVER
        if slot.starter is not None and slot.busy and self.starters is not None:
            self._start.log.always(
                f"{slot.short}: the starter {slot.starter.pid} did not end its job in time; killing it."
            )
            self.starters.kill(slot.starter)

    def _end_claim(self, slot: Slot) -> None:
        self._tell(slot, ClaimChange.RELEASED, slot.why or "the claim is over")
        claim = self._slots.let_go(slot)
        if claim is not None:
            self._start.log.always(f"{slot.short}: claim {claim.claim_id.public()} is over. {slot.why}".rstrip())
        ended, self.claim_ended = self.claim_ended, trio.Event()
        ended.set()
        if slot.starter is not None:
            slot.starter.leave()
            slot.starter = None
        slot.peer, slot.why, slot.retirement_cap, slot.lease_lost, slot.promised = None, "", None, False, ""
        slot.soft_at = slot.hard_at = slot.kill_at = NEVER
        if slot.kind is SlotKind.DYNAMIC and slot.pending is None:
            self._slots.destroy(slot)
            if self.starters is not None:
                self.starters.dismiss(slot.name)
            if slot.parent is not None:
                self._changed(slot.parent)
        else:
            self._slots.refill(slot)

    def _next_claim(self, slot: Slot) -> None:
        pending, slot.pending = slot.pending, None
        if pending is None:
            self.give_up(slot, "the claim that waited is gone", StopHow.FAST)
            return
        self._slots.hold(slot, pending.claim.granted(trio.current_time(), self._start.world.wall()))
        slot.peer = pending.peer
        pending.settle(True)

    def _tell(self, slot: Slot, change: ClaimChange, reason: str, code: int = 0, subcode: int = 0) -> None:
        """Let the schedd know, if it is there; it asks after its claims when it comes back."""
        claim, peer = slot.claim, slot.peer
        if claim is None or peer is None or peer.closed.is_set():
            return
        word = ClaimChanged(
            claim=claim.claim_id.public(),
            change=change,
            reason=reason,
            activation=claim.activation.activation if claim.activation is not None else "",
            hold_code=code,
            hold_subcode=subcode,
        )
        self._nursery.start_soon(_notify, peer, word)

    @staticmethod
    def _job_name(slot: Slot) -> str:
        running = slot.claim.activation if slot.claim is not None else None
        return str(running.job_id) if running is not None else "?"


async def _notify(peer: Peer, word: ClaimChanged) -> None:
    try:
        await peer.notify(word)
    except PeerError:
        pass  # it is gone; the lease takes care
