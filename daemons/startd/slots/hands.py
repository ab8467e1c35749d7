"""Whom moves of slots need: everybody who acts on a move, named in one place by the startd's main."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from daemons.startd.slots.slot import Slot
from daemons.startd.starters.living import LivingStarter
from pool.slots.state_machine import Event


@dataclass(frozen=True, slots=True)
class Hands:
    """Who is told of moves, and who does what they ask for.

    The loop calls them: what they let happen to slots comes after they have returned.

    `start_client` and `kill_client` answer with the event that follows at once, if one does.
    """

    changed: Callable[[Slot], None]
    """The slot's ad is to be sent anew."""
    deadline_moved: Callable[[Slot | None], None]
    """The slot's deadlines are others now, or any slot's."""
    evicting: Callable[[Slot], None]
    """The slot's job is told to leave."""
    kill_starter: Callable[[LivingStarter], None]
    dismiss_starter: Callable[[str], None]
    """The claim of the slot of this name is over; no starter is to wait for its first job."""
    client_runs: Callable[[], bool]
    start_client: Callable[[Slot], Event | None]
    kill_client: Callable[[Slot], Event | None]
    run_benchmarks: Callable[[Slot], None]
    drained: Callable[[], None]
    """Every slot of the machine is drained. What this lets happen to slots comes in its turn."""
