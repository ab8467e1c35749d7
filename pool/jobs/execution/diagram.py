"""The table of executions as documentation: `make docs` writes docs/executions.md of it."""

from __future__ import annotations

from pool.jobs.execution.events import Event
from pool.jobs.execution.states import Disconnected, Leaving, Over, Running, Starting, State
from pool.jobs.execution.table import MOVES, Move

STATES: tuple[type[State], ...] = (Starting, Running, Disconnected, Leaving, Over)
_INTRODUCTION = """# What an execution of a job may come to

Generated from the table in `pool/jobs/execution/table.py` by `make docs`; do not edit. An execution begins when a slot
is to run a job, and is over when it is known what came of it. The schedd's shadow hands it what happens, and does
what it wants done. An event without a row changes nothing but what is known. A job of the local or scheduler universe
goes by the same table: the process beside it stands for startd and starter.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_diagram(), "", *_states(), "", *_table()]) + "\n"


def _diagram() -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Starting.__name__}"]
    for start in STATES:
        for end in STATES:
            numbers = [
                str(number)
                for number, move in enumerate(MOVES, 1)
                if start in move.start and move.end is end and start is not end
            ]
            if numbers:
                lines.append(f"    {start.__name__} --> {end.__name__} : {', '.join(numbers)}")
    return [*lines, f"    {Over.__name__} --> [*]", "```"]


def _states() -> list[str]:
    return ["| state | what it says |", "|---|---|", *(f"| {one.__name__} | {_said(one)} |" for one in STATES)]


def _table() -> list[str]:
    return [
        "| no. | from | to | when | only if | the schedd then |",
        "|---|---|---|---|---|---|",
        *(_row(number, move) for number, move in enumerate(MOVES, 1)),
    ]


def _row(number: int, move: Move) -> str:
    start = "any but Over" if len(move.start) == len(STATES) - 1 else ", ".join(one.__name__ for one in move.start)
    end = "the same" if move.end is None or move.start == (move.end,) else move.end.__name__
    when = "; ".join(_said(event) for event in move.events)
    given = move.given.value if move.given is not None else ""
    does = "; ".join(effect.value for effect in move.effects)
    return f"| {number} | {start} | {end} | {when} | {given} | {does} |"


def _said(one: type[State] | type[Event]) -> str:
    text = (one.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return text if issubclass(one, Event) else text.rstrip(".")
