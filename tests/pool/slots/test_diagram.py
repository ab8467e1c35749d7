"""The documentation of the state machine is what the table says."""

from __future__ import annotations

import pool.slots.diagram
from pool.slots.state_machine import MOVES


def test_every_transition_is_on_the_page() -> None:
    page = pool.slots.diagram.page()
    for move in MOVES:
        assert f"| {move.number} | {move.start[0].value}/{move.start[1].value} |" in page
