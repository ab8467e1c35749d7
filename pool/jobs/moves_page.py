"""A table of moves as documentation: the page that `make docs` writes of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol


class Move(Protocol):
    """One row of a table: from these states, at these events, to that state (None: the same)."""

    @property
    def start(self) -> Sequence[type]: ...
    @property
    def events(self) -> Sequence[type]: ...
    @property
    def end(self) -> type | None: ...
    @property
    def effects(self) -> Sequence[StrEnum]: ...
    @property
    def given(self) -> StrEnum | None: ...


def page(introduction: str, states: Sequence[type], moves: Sequence[Move]) -> str:
    """The whole page; the first of `states` is the one that it begins in, the last the one that nothing leaves."""
    return "\n".join([introduction, *_diagram(states, moves), "", *_states(states), "", *_table(states, moves)]) + "\n"


def _diagram(states: Sequence[type], moves: Sequence[Move]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {states[0].__name__}"]
    for start in states:
        for end in states:
            numbers = [
                str(number)
                for number, move in enumerate(moves, 1)
                if start in move.start and move.end is end and start is not end
            ]
            if numbers:
                lines.append(f"    {start.__name__} --> {end.__name__} : {', '.join(numbers)}")
    return [*lines, f"    {states[-1].__name__} --> [*]", "```"]


def _states(states: Sequence[type]) -> list[str]:
    return [
        "| state | what it says |",
        "|---|---|",
        *(f"| {one.__name__} | {_said(one).rstrip('.')} |" for one in states),
    ]


def _table(states: Sequence[type], moves: Sequence[Move]) -> list[str]:
    return [
        "| no. | from | to | when | only if | the schedd then |",
        "|---|---|---|---|---|---|",
        *(_row(states, number, move) for number, move in enumerate(moves, 1)),
    ]


def _row(states: Sequence[type], number: int, move: Move) -> str:
    any_but = f"any but {states[-1].__name__}"
    start = any_but if len(move.start) == len(states) - 1 else ", ".join(one.__name__ for one in move.start)
    end = "the same" if move.end is None or tuple(move.start) == (move.end,) else move.end.__name__
    when = "; ".join(map(_said, move.events))
    given = move.given.value if move.given is not None else ""
    does = "; ".join(effect.value for effect in move.effects)
    return f"| {number} | {start} | {end} | {when} | {given} | {does} |"


def _said(one: type) -> str:
    """What the first sentence about a state or an event says of it."""
    return (one.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
