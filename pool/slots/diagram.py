"""The state machine as documentation: a diagram and a table, both drawn from MOVES.

`make docs` writes docs/slot-states.md of it.
"""

from __future__ import annotations

from itertools import groupby

from pool.slots.state_machine import MOVES, VIA, EvictionCause, Move, State, Where

_INTRODUCTION = """# What a slot may do

Generated from the table in `pool/slots/state_machine.py` by `make docs`; do not edit. The numbers are those of the
transitions in the HTCondor manual. A slot has a state (who has it) and an activity (what is happening in it).
"""
_GIVEN = {
    EvictionCause.NO: "not leaving",
    EvictionCause.BETTER_CLAIM: "for a better match",
    EvictionCause.DRAINING: "for a drain",
    EvictionCause.FOR_GOOD: "for good",
}


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_diagram(), "", *_table(), "", *_detours()]) + "\n"


def _diagram() -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2"]
    pairs = sorted({where for move in MOVES for where in (move.start, move.end)}, key=lambda w: list(State).index(w[0]))
    for state, group in groupby(pairs, key=lambda where: where[0]):
        lines.append(f"    state {state.value} {{")
        lines += [f"        {_node(where)} : {where[1].value}" for where in sorted(group)]
        lines.append("    }")
    lines.append(f"    [*] --> {_node(MOVES[0].start)}")
    ends = sorted({(move.start, move.end) for move in MOVES}, key=lambda pair: (_node(pair[0]), _node(pair[1])))
    for start, end in ends:
        numbers = sorted({move.number for move in MOVES if (move.start, move.end) == (start, end)})
        lines.append(f"    {_node(start)} --> {_node(end)} : {', '.join(map(str, numbers))}")
    return [*lines, "```"]


def _table() -> list[str]:
    return [
        "| no. | from | to | when | the startd then |",
        "|---|---|---|---|---|",
        *(_row(move) for move in MOVES),
    ]


def _row(move: Move) -> str:
    when = move.event.value
    if move.given:
        when += f" ({' or '.join(_GIVEN[why] for why in move.given)})"
    does = "; ".join(effect.value for effect in move.effects)
    return f"| {move.number} | {_where(move.start)} | {_where(move.end)} | {when} | {does} |"


def _detours() -> list[str]:
    lines = ["Some events cause another transition first:", ""]
    for (where, event), first in VIA.items():
        lines.append(f'- {_where(where)}, "{event.value}": first "{first.value}"')
    return lines


def _where(where: Where) -> str:
    return f"{where[0].value}/{where[1].value}"


def _node(where: Where) -> str:
    return f"{where[0].value}_{where[1].value}"
