"""The table of executions as documentation: `make docs` writes docs/executions.md of it."""

from __future__ import annotations

from pool.jobs import moves_page
from pool.jobs.execution.states import Disconnected, Leaving, Over, Running, Starting, State
from pool.jobs.execution.table import MOVES

STATES: tuple[type[State], ...] = (Starting, Running, Disconnected, Leaving, Over)
_INTRODUCTION = """# What an execution of a job may come to

Generated from the table in `pool/jobs/execution/table.py` by `make docs`; do not edit. An execution begins when a slot
is to run a job, and is over when it is known what came of it. The schedd's shadow hands it what happens, and does
what it wants done. An event without a row changes nothing but what is known. A job of the local or scheduler universe
goes by the same table: the process beside it stands for startd and starter.
"""


def page() -> str:
    """The whole page."""
    return moves_page.page(_INTRODUCTION, STATES, MOVES)
