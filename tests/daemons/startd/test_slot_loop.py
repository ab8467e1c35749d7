"""Whatever happens to slots in whatever order: they move one at a time, the owner is asked when nothing else is left to
do, and the loop comes to rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemons.startd.slots.loop import ROUNDS_MAX, SlotLoop
from pool.slots.state_machine import (
    MOVES,
    Activity,
    Effect,
    Event,
    EvictionCause,
    IllegalSlotMove,
    SlotState,
    State,
    begin,
    can,
    leave,
    step,
)

ANSWERS: dict[Effect, list[Event | None]] = {
    Effect.NO_JOB: [Event.JOB_GONE],
    Effect.NEXT_CLAIM: [None, Event.KILL],
    Effect.START_CLIENT: [None, Event.CLIENT_STARTED],
    Effect.KILL_CLIENT: [None, Event.CLIENT_GONE],
}
"""What the doing of an effect may lead to; of all others nothing comes."""
PLACES = sorted({move.end for move in MOVES})
BY_OTHERS = [event for event in Event if event is not Event.ALL_DRAINED]
"""Only the loop says that all slots are drained."""


@dataclass(eq=False)
class ASlot:
    state: SlotState = field(default_factory=lambda: begin(now=0.0))


class Machine:
    """Slots whose owner, claims and clients do anything that the diagram lets them do."""

    def __init__(self, rng: Random, count: int) -> None:
        self.rng = rng
        self.slots = [ASlot() for _ in range(count)]
        self.loop = SlotLoop[ASlot](self.follow, self.perform, self.moved, self.owner, self.all_drained)
        self.waiting: Counter[ASlot] = Counter()
        self.to_ask: set[ASlot] = set()
        self.answers: Counter[ASlot] = Counter()
        self.busy = self.content = False
        self.drains_over = 0

    def put(self, slot: ASlot, event: Event) -> None:
        self.waiting[slot] += 1
        self.loop.put(slot, event)

    def run(self) -> None:
        self.answers.clear()
        self.loop.run()
        assert not self.waiting.total(), "events were left in the queue"
        assert not self.to_ask, "owners were left unasked"

    def follow(self, slot: ASlot, event: Event) -> tuple[Effect, ...]:
        assert not self.busy, f"{event.name} was followed in the middle of another move"
        self.busy = True
        self.waiting[slot] -= 1
        slot.state, effects = step(slot.state, event, now=1.0)
        if Effect.SETTLE in effects and self.answers[slot] < ROUNDS_MAX:
            self.to_ask.add(slot)
        return effects

    def perform(self, slot: ASlot, effect: Effect) -> Event | None:
        if effect is Effect.IF_LAST_DRAINED and all(one.state.where == DRAINED for one in self.slots):
            self.drains_over += 1
            for one in self.slots:
                self.put(one, Event.DRAIN_OVER)
            self.loop.run()  # as others do whom the loop calls: nothing may happen yet
            assert all(one.state.where == DRAINED for one in self.slots)
        following = self.rng.choice(ANSWERS.get(effect, [None]))
        self.waiting[slot] += following is not None
        return following

    def moved(self, slot: ASlot) -> None:
        self.busy = False

    def owner(self, slot: ASlot) -> Event | None:
        assert not self.waiting.total(), "the owner was asked while something else was to be done"
        self.to_ask.discard(slot)
        wanted = self.rng.choice([None, *([] if self.content else self.possible(slot))])
        self.answers[slot] += wanted is not None
        assert self.answers[slot] <= ROUNDS_MAX
        self.waiting[slot] += wanted is not None
        return wanted

    def all_drained(self) -> list[tuple[ASlot, Event]]:
        if any(slot.state.where != (State.DRAINED, Activity.RETIRING) for slot in self.slots):
            return []
        self.waiting.update(self.slots)
        return [(slot, Event.ALL_DRAINED) for slot in self.slots]

    def possible(self, slot: ASlot) -> list[Event]:
        return [event for event in BY_OTHERS if can(slot.state, event)]


DRAINED = (State.DRAINED, Activity.IDLE)


@given(st.integers(0))
def test_in_any_order_of_events_slots_move_one_at_a_time_and_come_to_rest(seed: int) -> None:
    rng = Random(seed)
    machine = Machine(rng, rng.randint(1, 3))
    for _ in range(15):
        slot = rng.choice(machine.slots)
        if rng.random() < 0.5:
            slot.state = leave(slot.state, rng.choice([*EvictionCause]))
        if possible := machine.possible(slot):
            machine.put(slot, rng.choice(possible))
        if rng.random() < 0.5:
            machine.to_ask.add(slot)
            machine.loop.ask(slot)
        machine.run()
        assert slot.state.where in {(State.OWNER, Activity.IDLE), *PLACES}
        assert not all(one.state.where == (State.DRAINED, Activity.RETIRING) for one in machine.slots)


@given(st.integers(0))
def test_a_drain_is_over_once_when_its_last_slot_is_drained(seed: int) -> None:
    machine = Machine(Random(seed), 3)
    machine.content = True
    for slot in machine.rng.sample(machine.slots, 3):
        assert not machine.drains_over
        machine.put(slot, Event.DRAIN)
        machine.run()
    assert machine.drains_over == 1


def test_after_a_move_that_nothing_allows_nothing_is_left_of_what_was_to_come() -> None:
    slot, followed = ASlot(), []

    def follow(slot: ASlot, event: Event) -> tuple[Effect, ...]:
        followed.append(event)
        slot.state, effects = step(slot.state, event, now=1.0)
        return effects

    loop = SlotLoop[ASlot](follow, lambda _slot, _effect: None, lambda _slot: None, lambda _slot: None, list)
    loop.put(slot, Event.JOB_GONE)
    loop.put(slot, Event.CLAIM)
    with pytest.raises(IllegalSlotMove):
        loop.run()
    loop.put(slot, Event.OWNER_LEFT)
    loop.run()
    assert followed == [Event.JOB_GONE, Event.OWNER_LEFT]
