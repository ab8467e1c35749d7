"""The documentation of the state machine is what the table says."""

from __future__ import annotations

from pathlib import Path

import pool.slots.diagram
from pool.slots.machine import MOVES

PAGE = Path(__file__).parents[3] / "docs" / "slot-states.md"


def test_the_page_is_drawn_from_the_table() -> None:
    assert PAGE.read_text() == pool.slots.diagram.page(), "run: python -m pool.slots.diagram > docs/slot-states.md"


def test_every_transition_is_on_the_page() -> None:
    page = pool.slots.diagram.page()
    for move in MOVES:
        assert f"| {move.number} | {move.start[0].value}/{move.start[1].value} |" in page
