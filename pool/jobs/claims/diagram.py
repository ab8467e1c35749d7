"""The table of claims as documentation: `make docs` writes docs/claims.md of it."""

from __future__ import annotations

from pool.jobs import moves_page
from pool.jobs.claims.states import Busy, Ended, Idle, Over, Releasing, Requesting, State
from pool.jobs.claims.table import MOVES

STATES: tuple[type[State], ...] = (Requesting, Idle, Busy, Ended, Releasing, Over)
_INTRODUCTION = """# What a claim may come to

Generated from the table in `pool/jobs/claims/table.py` by `make docs`; do not edit. A claim is a slot that a schedd
holds, or asks for; [slot-states.md](slot-states.md) has the same seen from the slot, and [executions.md](executions.md)
what may come of each job that a claim runs. `daemons/schedd/claims` hands it what happens, and does what it wants
done. An event without a row changes nothing but what is known. A claim that a schedd takes up from an earlier life
begins as Busy, where its job may still run, or else as Releasing.
"""


def page() -> str:
    """The whole page."""
    return moves_page.page(_INTRODUCTION, STATES, MOVES)
