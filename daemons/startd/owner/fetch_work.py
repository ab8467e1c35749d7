"""Slots that look for work themselves: the hooks FETCH_WORK, REPLY_FETCH and EVICT_CLAIM.

A slot with a hook keyword runs its FETCH_WORK hook whenever FetchWorkDelay has passed since the hook last ended. The ad
that it prints competes like any job: by START for a free slot, by RANK for a claimed one. Accepted, it has a claim that
no schedd holds, and the slot at once: a claim without a job is one that waits for more work. When the work is over the
hook is asked again: more work uses the claim again, none ends it.

Work that a hook gave away is not lost: it runs, or its keyword's REPLY_FETCH hears "reject", or, where it was accepted
and cannot run after all, its EVICT_CLAIM.

Source: HTCondor's manual, "Configuration for Execution Points": "Job Hooks That Fetch Work".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import trio

from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.host.programs import MARK, Finished, daemons_identity, refusal, run_program, sweep
from daemons.startd.claims.claims import Claims
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import NEVER, Pending, Slot, Slots
from pool.base.errors import ClassAdError, PoolError, UserError
from pool.base.ids import ClaimId
from pool.classad import ClassAd
from pool.config import Config
from pool.hooks.answers import job_and_slot
from pool.hooks.fetched import FETCHED_JOB, complete, read_work
from pool.hooks.table import STARTD_HOOKS, Hook, HookProgram, HookTable, read_hooks
from pool.slots.claim import Claim, Holder
from pool.slots.lease import Lease
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import Activity, Event, EvictionCause, State, can
from protocol.messages.common import StopHow
from protocol.messages.startd import ActivateClaim

DELAY_S: Final = 300.0
STDERR_LINES_MAX: Final = 200
_CLOSED: Final = (State.OWNER, State.PREEMPTING, State.DRAINED, State.BACKFILL, State.MATCHED)
"""A slot in one of these states takes no work."""


@dataclass
class _Attempt:
    """The fetching of one slot: whether it goes on now, and when it last ended."""

    running: bool = False
    ended_at: float | None = None


class FetchWork:
    """All slots' fetching. Without a keyword in the configuration there is nothing to do."""

    def __init__(self, start: DaemonStart, slots: Slots, ads: Ads, moves: Moves, claims: Claims) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._moves = moves
        self._claims = claims
        self._attempts: dict[str, _Attempt] = {}
        self._tasks: Tasks | None = None
        self._count = 0
        self._evicted: set[str] = set()
        self._starting: set[str] = set()
        self._telling = 0
        self._told = Signal()
        self._table = HookTable()
        self._configured = Signal()
        self._mark = f"{start.run_dir}/{start.name}/hooks"
        self.reconfigured(start.config)

    def reconfigured(self, config: Config) -> None:
        """Take the hooks of the configuration."""
        self._table = read_hooks(config, STARTD_HOOKS)
        self._configured.fire()

    async def run(self) -> None:
        """Fetch for whoever may, for ever."""
        if self._table.keywords:
            await self._start.world.threads.run_sync(sweep, self._mark)
        async with trio.open_nursery() as nursery:
            self._tasks = Tasks(nursery, self._start.log)
            while True:
                if not self._table.keywords:
                    await self._configured.wait()
                wait_s = min(self._moves.polling_s, self._begin_due(self._tasks))
                with trio.move_on_after(wait_s):
                    await self._moves.job_ended.wait()

    def _begin_due(self, tasks: Tasks) -> float:
        """Begin the fetches that are due; how long until the next one is."""
        now, next_s = trio.current_time(), NEVER
        known = {slot.name for slot in self._slots}
        busy = {slot.claim.activation.activation for slot in self._slots if slot.claim and slot.claim.activation}
        self._evicted &= busy | self._starting
        for name in [name for name, one in self._attempts.items() if name not in known and not one.running]:
            del self._attempts[name]
        for slot in self._slots:
            programs = self._hooks_of(slot)
            if Hook.FETCH_WORK not in programs or not self._may_fetch(slot):
                continue
            attempt = self._attempts.setdefault(slot.name, _Attempt())
            if attempt.running:
                continue
            due_s = 0.0 if attempt.ended_at is None else attempt.ended_at + self._delay_s(slot) - now
            if due_s > 0:
                next_s = min(next_s, due_s)
                continue
            attempt.running = True
            tasks.once(self._attempt, slot, programs, attempt)
        return next_s

    def _hooks_of(self, slot: Slot) -> Mapping[Hook, HookProgram]:
        return self._table.of(self._keyword(slot))

    def _keyword(self, slot: Slot) -> str:
        config = self._start.config
        number = slot.spec.slot_id
        own = config.str(f"SLOT{number}_JOB_HOOK_KEYWORD", default="")
        return own or config.str("STARTD_JOB_HOOK_KEYWORD", default="")

    def _may_fetch(self, slot: Slot) -> bool:
        """A part of a partitionable slot fetches only to use its claim again."""
        if self._moves.stopping or slot.state.state in _CLOSED or slot.state.leaving is not EvictionCause.NO:
            return False
        if slot.pending is not None:
            return False
        return slot.kind is not SlotKind.DYNAMIC or _waits_for_work(slot)

    def _delay_s(self, slot: Slot) -> float:
        """FetchWorkDelay, with the slot's ad and the ad of the job in it."""
        expression = self._start.config.expr("FetchWorkDelay")
        value = expression.eval(self._ads.matching(slot), slot.job) if expression is not None else DELAY_S
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else DELAY_S

    # ---- one attempt

    async def _attempt(self, slot: Slot, programs: Mapping[Hook, HookProgram], attempt: _Attempt) -> None:
        try:
            work = await self._fetch(slot, programs[Hook.FETCH_WORK])
        finally:
            attempt.running, attempt.ended_at = False, trio.current_time()
        if work is None:
            self._no_more(slot)
            return
        slot_ad = self._ads.matching(slot)
        reason = self._accept(slot, work)
        if reason:
            self._start.log.always(f"{slot.short}: rejects fetched work: {reason}")
        self._tell(programs, Hook.REPLY_FETCH, work, slot_ad, "reject" if reason else "accept")
        if reason:
            self._no_more(slot)

    async def _fetch(self, slot: Slot, program: HookProgram) -> ClassAd | None:
        """What the hook has for this slot."""
        end = await self._run(program, self._ads.matching(slot).long())
        if end is None:
            return None
        if end.timed_out:
            self._start.log.always(f"{slot.short}: FETCH_WORK ({program.name}) took too long")
            return None
        try:
            work = read_work(end.stdout)
            if work is None:
                return None
            return complete(
                work,
                self._keyword(slot),
                partitionable=slot.kind is SlotKind.PARTITIONABLE,
                as_root=os.geteuid() == 0,
                uid_domain=self._start.security.uid_domain,
            )
        except (ClassAdError, UserError) as error:
            self._start.log.always(f"{slot.short}: FETCH_WORK ({program.name}): {error}")
            return None

    def _no_more(self, slot: Slot) -> None:
        """There is no work: a claim that waited for some is over."""
        if _waits_for_work(slot):
            self._moves.give_up(slot, "there is no more work to fetch", StopHow.GRACEFUL)

    # ---- taking work

    def _accept(self, slot: Slot, work: ClassAd) -> str:
        """Give the work a claim and begin with it; why not, when it cannot be."""
        if self._slots.get(slot.name) is not slot or not self._may_fetch(slot):
            return f"{slot.name} takes no work now"
        if reason := self._claims.mismatch(slot, work):
            return reason
        if _waits_for_work(slot):
            return self._begin(slot, work)
        if slot.state.state is State.CLAIMED:
            return self._preempt(slot, work)
        if not can(slot.state, Event.CLAIM):
            return f"{slot.name} is {slot.state.state.value}"
        try:
            taken, claim = self._take(slot, work)
        except UserError as error:
            return error.message
        self._slots.hold(taken, claim)
        # No schedd holds it: there is nobody to be told.
        taken.peer = None
        self._moves.apply(taken, Event.CLAIM)
        if taken is not slot:
            self._moves.note(slot)
        return self._begin(taken, work)

    def _preempt(self, slot: Slot, work: ClassAd) -> str:
        """The slot is taken: the machine must like the new work better than what it has."""
        claim = self._claim(slot, work, slot.purse.offers[0] if slot.purse.offers else "")
        if slot.claim is None or not claim.claim_id or claim.rank <= slot.claim.rank:
            return f"{slot.name} ranks its present job as high"
        self._slots.use_offer(slot, claim.claim_id)
        slot.pending = pending = Pending(claim, None, waiting=1)
        assert self._tasks is not None
        self._tasks.once(self._begin_when_free, slot, pending, work)
        self._moves.make_room(slot)
        return ""

    async def _begin_when_free(self, slot: Slot, pending: Pending, work: ClassAd) -> None:
        await pending.settled.wait()
        slot.peer = None if pending.granted else slot.peer
        if reason := self._begin(slot, work) if pending.granted else pending.reason:
            self._start.log.always(f"{slot.short}: fetched work did not get the slot: {reason}")
            self._tell_of_eviction(slot, work)

    def _take(self, slot: Slot, work: ClassAd) -> tuple[Slot, Claim]:
        """The slot for the work, carved where need be, and its claim; UserError when there is no room."""
        if not slot.purse.offers:
            raise UserError(f"{slot.name} has no room")
        claim_id = slot.purse.offers[0]
        taken = self._claims.take_part(slot, claim_id, work)
        return taken, self._claim(taken, work, claim_id)

    def _claim(self, slot: Slot, work: ClassAd, claim_id: str) -> Claim:
        now = trio.current_time()
        owner = work.eval_str("User") or work.eval_str("Owner") or ""
        return Claim(
            claim_id=ClaimId(claim_id),
            digest=ClaimId(claim_id).digest(),
            holder=Holder("", owner, work),
            lease=Lease(now, NEVER),
            rank=slot.policy.number("RANK", self._ads.matching(slot), work, 0.0),
            claimed_at=now,
            claimed_wall=self._start.world.wall(),
            while_draining=self._ads.drain is not None,
        )

    def _begin(self, slot: Slot, work: ClassAd) -> str:
        """Start the work in its claim; why not, when it cannot be, and the claim is over then."""
        assert self._tasks is not None
        if slot.claim is None:
            return "the claim is over"
        self._count += 1
        order = ActivateClaim(
            claim_id=str(slot.claim.claim_id),
            activation=f"fetched#{int(self._start.started_at)}#{self._count}",
            job_id=FETCHED_JOB,
            job_ad=work,
            shadow_address="",
            ticket="",
        )
        if reason := self._claims.activations.begin_own(slot, order):
            self._moves.give_up(slot, f"the fetched work was not started: {reason}", StopHow.GRACEFUL)
        else:
            self._starting.add(order.activation)
            self._tasks.once(self._activate, slot, order)
        return reason

    async def _activate(self, slot: Slot, order: ActivateClaim) -> None:
        try:
            answer = await self._claims.activations.run_own(slot, order)
        finally:
            self._starting.discard(order.activation)
        if answer.started:
            return
        if slot.claim is not None and slot.claim.claim_id == order.claim_id:
            self._moves.give_up(slot, f"the fetched work was not started: {answer.reason}", StopHow.GRACEFUL)
        if order.activation not in self._evicted:
            self._tell_of_eviction(slot, order.job_ad)

    # ---- telling

    def evicting(self, slot: Slot) -> None:
        """A job must leave; of fetched work the hook hears, once."""
        claim = slot.claim
        if claim is None or not _is_fetched(claim) or claim.activation is None:
            return
        # An eviction goes through several moves of the slot; the hook is told of the first.
        if claim.activation.activation in self._evicted:
            return
        self._evicted.add(claim.activation.activation)
        self._tell_of_eviction(slot, claim.activation.job_ad)

    def _tell_of_eviction(self, slot: Slot, work: ClassAd) -> None:
        self._tell(self._hooks_of(slot), Hook.EVICT_CLAIM, work, self._ads.matching(slot))

    def _tell(
        self, programs: Mapping[Hook, HookProgram], hook: Hook, job: ClassAd, slot_ad: ClassAd, *words: str
    ) -> None:
        """Run a hook that nobody waits for."""
        program = programs.get(hook)
        if program is not None and self._tasks is not None:
            self._telling += 1
            self._tasks.once(self._run_alone, program, job_and_slot(job, slot_ad), *words)

    async def _run_alone(self, program: HookProgram, text: str, *words: str) -> None:
        try:
            await self._run(program, text, *words)
        finally:
            self._telling -= 1
            self._told.fire()

    async def settled(self) -> None:
        """Return when no hook runs that somebody outside is told by."""
        await self._told.until(lambda: not self._telling)

    async def _run(self, program: HookProgram, text: str, *words: str) -> Finished | None:
        """Run a hook as the daemon; None when it was not run."""
        log = self._start.log
        label = f"{program.hook.value} ({program.name})"
        if reason := refusal(program.path):
            log.always(f"{program.hook.value} is refused: {reason}")
            return None
        try:
            end = await run_program(
                self._start.world.spawner,
                [program.path, *program.arguments, *words],
                text=text,
                environment={**self._start.world.env, MARK: self._mark},
                timeout_s=program.timeout_s or NEVER,
                **daemons_identity(self._start.config),
            )
        except PoolError as error:
            log.always(f"{label}: {error}")
            return None
        log.full(f"{label} {end}")
        for line in end.stderr.splitlines()[:STDERR_LINES_MAX]:
            log.always(f"{label}: {line}")
        return end


def _is_fetched(claim: Claim) -> bool:
    """No schedd holds it."""
    return not claim.holder.schedd_name


def _waits_for_work(slot: Slot) -> bool:
    """Whether fetched work was here, and the claim can be used again."""
    idle = slot.state.where == (State.CLAIMED, Activity.IDLE)
    return slot.claim is not None and _is_fetched(slot.claim) and idle and not slot.busy
