"""The loop that moves slots: a queue of (slot, event), and the slots whose owner is asked when it is empty.

* An event is followed by the table (`pool.slots.state_machine`), and the effects of its move are done in their order.
* Who does an effect moves nothing: what follows from it comes after whatever is in the queue.
* With nothing in the queue the owner's policy is asked, for one slot at a time until it is content, ROUNDS_MAX times at
  most: one that contradicts itself waits for the next look.
* With nobody to ask either, the machine as a whole may have something to say: that it is drained.

A slot is never seen in the middle of a move: `run` has no awaits, and returns when nothing is left. Called by somebody
whom the loop itself has called, it returns at once, and what he has put comes in its turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

from pool.slots.state_machine import Effect, Event

ROUNDS_MAX: Final = 12
"""Most answers of one slot's policy in one run."""

S = TypeVar("S", bound=Hashable)


class SlotLoop(Generic[S]):
    """Events in, moves and their effects out; `S` is a slot.

    `follow` moves a slot and says what is to be done, `perform` does that and may answer with the event that comes of
    it, `moved` hears of each move when its effects are done; `ask` is the owner's answer, `at_rest` the machine's.
    """

    def __init__(
        self,
        follow: Callable[[S, Event], Iterable[Effect]],
        perform: Callable[[S, Effect], Event | None],
        moved: Callable[[S], None],
        ask: Callable[[S], Event | None],
        at_rest: Callable[[], Iterable[tuple[S, Event]]],
    ) -> None:
        self._follow, self._perform, self._moved = follow, perform, moved
        self._ask, self._at_rest = ask, at_rest
        self._events: deque[tuple[S, Event]] = deque()
        self._asked: dict[S, None] = {}
        self._answers: Counter[S] = Counter()
        self._running = False

    def put(self, slot: S, event: Event) -> None:
        """This happens to the slot, after what is in the queue already."""
        self._events.append((slot, event))

    def ask(self, slot: S) -> None:
        """The slot's owner is asked what should become of it, when the queue is empty."""
        self._asked[slot] = None

    def run(self) -> None:
        """Follow everything that has happened, and what comes of it."""
        if self._running:
            return
        self._running = True
        try:
            while self._turn():
                pass
        finally:
            # After a fault nothing stays that was meant for slots as they were; the next poll asks all anew.
            for left in (self._events, self._asked, self._answers):
                left.clear()
            self._running = False

    def _turn(self) -> bool:
        """Do the next thing; whether there was one."""
        if self._events:
            self._move(*self._events.popleft())
        elif self._asked:
            self._ask_owner(next(iter(self._asked)))
        else:
            self._events.extend(self._at_rest())
            return bool(self._events)
        return True

    def _move(self, slot: S, event: Event) -> None:
        for effect in self._follow(slot, event):
            if effect is Effect.SETTLE:
                self.ask(slot)
            elif (following := self._perform(slot, effect)) is not None:
                self.put(slot, following)
        self._moved(slot)

    def _ask_owner(self, slot: S) -> None:
        event = self._ask(slot) if self._answers[slot] < ROUNDS_MAX else None
        if event is None:
            del self._asked[slot]
        else:
            self._answers[slot] += 1
            self.put(slot, event)
