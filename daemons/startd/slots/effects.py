"""Does what moves of slots ask for: speaks to starters and schedds, ends claims, hands slots on.

Each effect of the state machine is one method here, plain code without awaits; what takes time is started beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from daemons.run import DaemonStart
from daemons.startd.ads import Ads
from daemons.startd.slot import NEVER, Slot, Slots
from pool.errors import PeerError
from pool.slots.machine import Effect, Event
from pool.slots.slot_types import SlotKind
from protocol.messages.common import StopHow
from protocol.messages.schedd import ClaimChange, ClaimChanged
from protocol.messages.starter import ContinueJob, StopJob, SuspendJob
from protocol.rpc import Peer

if TYPE_CHECKING:
    from daemons.startd.moves import Moves

FAST_STOP_S: Final = 5.0


class Effects:
    """The effects, for slots that `moves` moves."""

    def __init__(self, start: DaemonStart, nursery: trio.Nursery, slots: Slots, ads: Ads, moves: Moves) -> None:
        self._start = start
        self._nursery = nursery
        self._slots = slots
        self._ads = ads
        self._moves = moves
        self._do: dict[Effect, Callable[[Slot], None]] = {
            Effect.FORGET_MATCH: self.forget_match,
            Effect.START_LEASE: lambda _slot: None,  # the claim brought it
            Effect.SUSPEND_JOB: self._suspend_job,
            Effect.CONTINUE_JOB: self._continue_job,
            Effect.SOFT_KILL: self._soft_kill,
            Effect.HARD_KILL: self._hard_kill,
            Effect.END_CLAIM: self._end_claim,
            Effect.NEXT_CLAIM: self._next_claim,
            Effect.NO_JOB: lambda slot: moves.apply(slot, Event.JOB_GONE),
            Effect.SETTLE: moves.evaluate,
            Effect.START_CLIENT: lambda slot: moves.backfill.start_client(slot),
            Effect.KILL_CLIENT: lambda slot: moves.backfill.kill_client(slot),
            Effect.RUN_BENCHMARKS: lambda slot: nursery.start_soon(self._benchmark, slot),
        }

    def do(self, effect: Effect, slot: Slot) -> None:
        """Do what a move asks for."""
        self._do[effect](slot)

    def _suspend_job(self, slot: Slot) -> None:
        if slot.claim is not None and (running := slot.claim.activation) is not None:
            slot.claim = slot.claim.with_activation(running.paused(now=trio.current_time()))
            if slot.starter is not None:
                slot.starter.tell(SuspendJob(activation=running.activation))
        self.tell(slot, ClaimChange.SUSPENDED, "the job was suspended")

    def _continue_job(self, slot: Slot) -> None:
        slot.user_suspended = False
        if slot.claim is not None and (running := slot.claim.activation) is not None:
            slot.claim = slot.claim.with_activation(running.resumed(now=trio.current_time()))
            if slot.starter is not None:
                slot.starter.tell(ContinueJob(activation=running.activation))
        self.tell(slot, ClaimChange.CONTINUED, "the job goes on")

    def _soft_kill(self, slot: Slot) -> None:
        vacate_s = self._moves.eviction(slot).vacate_s
        slot.hard_at = trio.current_time() + vacate_s
        self._stop(slot, StopHow.GRACEFUL, vacate_s)

    def _hard_kill(self, slot: Slot) -> None:
        patience = self._ads.settings.killing_timeout_s
        if self._moves.stops_fast:  # nobody may be left to whom the starter could report; it must not hold up the stop
            patience = min(patience, FAST_STOP_S)
        slot.kill_at = trio.current_time() + patience
        self._stop(slot, StopHow.FAST, 0.0)

    def _stop(self, slot: Slot, how: StopHow, vacate_s: float) -> None:
        claim = slot.claim
        if claim is None or claim.activation is None:
            return
        self._moves.evicting(slot)
        reason, code, subcode = slot.hold if slot.hold is not None else (slot.why, 0, 0)
        self._start.log.always(f"{slot.short}: job {job_name(slot)} must leave ({how.value}): {reason}")
        self.tell(slot, ClaimChange.VACATING, reason, code, subcode)
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
        if slot.starter is not None and slot.busy and self._moves.starters is not None:
            self._start.log.always(
                f"{slot.short}: the starter {slot.starter.pid} did not end its job in time; killing it."
            )
            self._moves.starters.kill(slot.starter)

    def _end_claim(self, slot: Slot) -> None:
        self.tell(slot, ClaimChange.RELEASED, slot.why or "the claim is over")
        claim = self._slots.let_go(slot)
        if claim is not None:
            self._start.log.always(f"{slot.short}: claim {claim.claim_id.public()} is over. {slot.why}".rstrip())
        self._moves.say_claim_ended()
        self._ads.loads.claim_over(slot)
        if slot.starter is not None:
            slot.starter.leave()
            slot.starter = None
        slot.peer, slot.why, slot.retirement_cap, slot.lease_lost, slot.promised = None, "", None, False, ""
        slot.costly_polls = 0
        slot.soft_at = slot.hard_at = slot.kill_at = NEVER
        if slot.kind is SlotKind.DYNAMIC and slot.pending is None:
            self._slots.destroy(slot)
            if self._moves.starters is not None:
                self._moves.starters.dismiss(slot.name)
            if slot.parent is not None:
                self._moves.note(slot.parent)
        else:
            self._slots.refill(slot)

    def _next_claim(self, slot: Slot) -> None:
        pending, slot.pending = slot.pending, None
        if pending is None:
            self._moves.give_up(slot, "the claim that waited is gone", StopHow.FAST)
            return
        self._slots.hold(slot, pending.claim.granted(trio.current_time(), self._start.world.wall()))
        slot.peer = pending.peer
        pending.settle(True)

    def tell(self, slot: Slot, change: ClaimChange, reason: str, code: int = 0, subcode: int = 0) -> None:
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

    def forget_match(self, slot: Slot) -> None:
        """The id that a schedd was given is good no more."""
        if slot.promised:
            self._slots.use_offer(slot, slot.promised)

    async def _benchmark(self, slot: Slot) -> None:
        """Measure the machine for all slots; whoever claims the slot meanwhile has it at once."""
        await self._moves.benchmark_programs()
        self._ads.benchmarked()
        self._moves.if_can(slot, Event.BENCHMARKED)
        for other in self._slots:
            self._moves.note(other)


def job_name(slot: Slot) -> str:
    """The job in the slot, as logs call it."""
    running = slot.claim.activation if slot.claim is not None else None
    return str(running.job_id) if running is not None else "?"


async def _notify(peer: Peer, word: ClaimChanged) -> None:
    try:
        await peer.notify(word)
    except PeerError:
        pass  # it is gone; the lease takes care
