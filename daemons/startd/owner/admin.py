"""What administrators ask of a startd: drain the machine, cancel that, vacate slots."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TypeVar

from daemons.daemon_core.run import EXIT_FOR_GOOD, DaemonStart
from daemons.startd.machine.vm_watch import VmWatch
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.leaving import WHY_DRAIN
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots
from pool.base.errors import ClassAdError, PoolError, UserError
from pool.classad import Expr, expr
from pool.execute import vm
from pool.slots.drain import Afterwards, Drain, HowFast, begin_drain, end_drain, start_meanwhile
from pool.slots.overrides import overridden
from pool.slots.state_machine import Event, EvictionCause, State, can
from protocol.messages.common import StopHow
from protocol.messages.startd import CancelDrain, DrainMachine, DrainStarted, UpdateMachineAd, VacateSlots
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

E = TypeVar("E", bound=Enum)


class Admin:
    """Handlers of the administrators' requests; `drained` is to be called when a drain is complete."""

    def __init__(self, start: DaemonStart, slots: Slots, ads: Ads, moves: Moves, vms: VmWatch) -> None:
        self._start = start
        self._slots = slots
        self._ads = ads
        self._moves = moves
        self._vms = vms
        self._count = 0

    def answers(self) -> list[Answer]:
        """What administrators ask."""
        return [
            answer(DrainMachine, self.drain),
            answer(CancelDrain, self.cancel),
            answer(VacateSlots, self.vacate),
            answer(UpdateMachineAd, self.update_ad),
        ]

    def drain(self, peer: Peer, asked: DrainMachine) -> DrainStarted:
        """Begin to drain."""
        wall, fast = self._start.world.wall(), _member(HowFast, asked.how_fast, "how_fast", "0, 10 or 20")
        self._count += 1
        drain = Drain(
            request_id=f"{int(self._start.started_at)}.{self._count}",
            how=fast,
            afterwards=_member(Afterwards, asked.on_completion, "on_completion", ", ".join(Afterwards)),
            reason=asked.reason or f"by command of {peer.identity}",
            began_at=wall,
            start=start_meanwhile(fast, _expression(asked.start, "start"), self._ads.settings.draining_start),
            check=_expression(asked.check, "check"),
        )
        try:
            begun = begin_drain(drain, self._ads.drain, lambda: [self._ads.matching(slot) for slot in self._slots])
        except UserError:
            self._note_all()  # who asks goes by ads that are out of date
            raise
        self._ads.drain, self._ads.drain_started = begun, wall
        self._start.log.always(f"Draining ({begun.how.name.lower()}): {begun.reason}", request=begun.request_id)
        for slot in self._slots:
            if begun.how is not HowFast.GRACEFUL:
                how = StopHow.FAST if begun.how is HowFast.FAST else StopHow.GRACEFUL
                self._moves.give_up(slot, WHY_DRAIN, how)
        self._moves.evaluate_all()
        self._note_all()
        return DrainStarted(request_id=begun.request_id)

    def cancel(self, peer: Peer, asked: CancelDrain) -> Done:
        """Take jobs again."""
        end_drain(asked.request_id, self._ads.drain)
        self._resume()
        return DONE

    def vacate(self, peer: Peer, asked: VacateSlots) -> Done:
        """End claims; UserError when a slot is not known."""
        wanted = {name.partition("@")[0].lower() for name in asked.slots}
        chosen = [slot for slot in self._slots if not wanted or _names(slot) & wanted]
        if wanted and not chosen:
            raise UserError(f"there is no slot {', '.join(asked.slots)} here")
        for slot in chosen:
            self._moves.give_up(slot, f"vacated by {peer.identity}", asked.how)
            self._moves.end_backfill(slot)
            if slot.state.state is State.MATCHED:
                self._moves.apply(slot, Event.MATCH_OVER)
        return DONE

    def update_ad(self, peer: Peer, asked: UpdateMachineAd) -> Done:
        """Change what the slots' ads say; UserError when an attribute is not to be changed."""
        made = overridden(self._ads.overrides, asked.ad, now=self._start.world.wall())
        if asked.ad.eval(vm.HAS) is True and self._vms.is_off:
            made = {name: value for name, value in made.items() if name.lower() != vm.HAS.lower()}  # the watch says it
            self._vms.wanted_back()
        self._ads.overrides = made
        self._start.log.always(f"Machine ad updated by {peer.identity}: {', '.join(asked.ad)}")
        self._note_all()
        self._moves.facts_changed()
        return DONE

    def drained(self) -> None:
        """Every slot is drained: do what was to be done then."""
        drain = self._ads.drain
        if drain is None:
            return
        self._start.log.always("The machine is drained.", request=drain.request_id)
        if drain.afterwards is Afterwards.RESUME:
            self._resume()
        elif drain.afterwards is Afterwards.RECONFIG:
            self._resume()
            try:
                self._start.reconfigure()
            except PoolError as error:
                self._start.log.error(f"The configuration is wrong; the old one stays in force: {error}")
        elif drain.afterwards in (Afterwards.EXIT, Afterwards.RESTART):
            if drain.afterwards is Afterwards.EXIT:
                self._start.exit_status = EXIT_FOR_GOOD
            self._start.stop(StopHow.GRACEFUL)  # the master starts it again unless it is to end for good

    def _resume(self) -> None:
        self._ads.drain, self._ads.drain_stopped = None, self._start.world.wall()
        for slot in self._slots:
            slot.changed()
            if slot.claim is not None:  # whoever was a guest is one no more
                slot.claim = replace(slot.claim, while_draining=False)
            if can(slot.state, Event.DRAIN_OVER):
                self._moves.apply(slot, Event.DRAIN_OVER)
            # A job that was to leave only for the drain's sake, and has not yet, stays.
            elif slot.state.leaving is EvictionCause.DRAINING:
                self._moves.stays_after_all(slot)
        self._note_all()

    def _note_all(self) -> None:
        for slot in self._slots:
            slot.changed()
            self._moves.note(slot)


def _names(slot: Slot) -> set[str]:
    """What a slot is called: its own name, and that of the partitionable slot it was carved out of."""
    return {slot.short.lower(), slot.parent.short.lower() if slot.parent is not None else slot.short.lower()}


def _member(kind: type[E], value: object, name: str, expected: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise UserError(f"{name} is {value!r}", expected=expected) from None


def _expression(text: str | None, name: str) -> Expr | None:
    if not text:
        return None
    try:
        return expr(text)
    except ClassAdError as error:
        raise UserError(f"{name}: {error}") from None
