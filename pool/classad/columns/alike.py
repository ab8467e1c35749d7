"""What has no column form, such as a function of a list: once for all rows that store the same in what it reads.

A node reads the names in it, and those in the expressions that they lead to, in either ad: a name too many only means
that fewer rows are alike. What it reads in another way (a text that is evaluated, a nested ad) is not for this.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pool.classad.columns.vector import MIXED, REAL, Array, NoColumn, Operand, vector
from pool.classad.eval.budget import Brief, OverBudget, Uncounted
from pool.classad.eval.evaluate import builtin_named, evaluate
from pool.classad.eval.expression import Expr
from pool.classad.eval.flatten import UNSTABLE
from pool.classad.eval.frame import SURROUNDINGS, frames
from pool.classad.syntax.nodes import AdNode, Call, Node, Ref, RootRef, Select, children
from pool.classad.values.attrs import MISSING, SCOPE_NAMES, Attrs
from pool.classad.values.value import PLAIN

if TYPE_CHECKING:
    from pool.classad.columns.table import AttributeColumn, Table
    from pool.classad.eval.ad import ClassAd

_SPECIAL: Final = SCOPE_NAMES | SURROUNDINGS | {"currenttime"}
#: Functions that look at their place only to read the lists that they are given.
_OF_LISTS: Final = frozenset(
    {"allcompare", "anycompare", "argstolist", "avg", "identicalmember", "join", "listtoargs", "max", "member", "min",
     "quantize", "regexpmember", "split", "splitslotname", "splittime", "splitusername", "sum"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands: in which ad (`mine`: the rows'), for which rows, inside which attributes."""

    table: Table
    fixed: ClassAd | None
    mine: bool
    rows: Array | None
    inside: Collection[str]
    depth: int


def by_likeness(node: Node, place: Place) -> Operand:
    """The node's value for each row, or one for all; NoColumn when that cannot be told by what the rows store."""
    # Names first: they are few, and tell how many rows differ in what this node can see.
    names = _read(node, place)
    if not names.isdisjoint(place.inside):
        raise NoColumn  # a circle: what is undefined in it depends on where it was entered
    first, alike = _groups([place.table.column(name) for name in sorted(names)], place)
    values = []
    budget = Brief()
    for row in first.tolist():
        budget.renew().depth = place.depth
        # Each row has the same small budget: what is dear shall be counted by the scalar evaluator, row by row.
        value = _value(node, place, row, budget)
        if type(value) not in PLAIN:
            raise NoColumn
        values.append(value)
    return values[0] if len(values) == 1 else vector(values).take(alike)


def _value(node: Node, place: Place, row: int, budget: Brief) -> Any:
    theirs = place.table.ads[row if place.rows is None else int(place.rows[row])].attrs
    ours: Attrs | None = None if place.fixed is None else place.fixed.attrs
    try:
        if place.mine:
            return evaluate(node, frames(theirs, ours, budget))
        assert ours is not None
        return evaluate(node, frames(ours, theirs, budget))
    except (Uncounted, OverBudget):
        raise NoColumn from None


def reads_rows_alone(node: Node, place: Place) -> bool:
    """Whether it surely reads nothing but what rows store: then its value is the same whatever the fixed ad is."""
    todo = [node]
    while todo:
        here = todo.pop()
        match here:
            case Select(base=Ref(key=scope), key=key):
                if (scope == "my") is not place.mine or place.table.column(key).parts:
                    return False
                continue
            case Ref(key=key):
                column = place.table.column(key)
                if not place.mine or column.parts or column.missing is not None:
                    return False
        todo += children(here)
    return True


def _read(node: Node, place: Place) -> set[str]:
    """The names that the value may depend on, in lower case."""
    names: set[str] = set()
    todo = [node]
    while todo:
        here = todo.pop()
        match here:
            case Ref(key=key) | Select(base=Ref(key="my" | "target" | "other"), key=key):
                if key in _SPECIAL:
                    raise NoColumn
                if key not in names:
                    names.add(key)
                    todo += _leads_to(key, place)
                continue
            case Call(key=key):
                _check(key)
            case Select() | RootRef() | AdNode():
                raise NoColumn
        todo += children(here)
    return names


def _leads_to(key: str, place: Place) -> list[Node]:
    nodes = [expression.node for expression, _ in place.table.column(key).parts]
    stored = MISSING if place.fixed is None else place.fixed.attrs.lookup(key)
    if type(stored) is Expr:
        nodes.append(stored.node)
    elif stored is not MISSING and type(stored) not in PLAIN:
        raise NoColumn
    return nodes


def _check(key: str) -> None:
    """Whether a function tells by its arguments alone what it comes to; NoColumn when not."""
    builtin = builtin_named(key)
    if builtin is None or key in UNSTABLE or key in ("random", "debug"):
        raise NoColumn
    if key != "ifthenelse" and (builtin.plain is None or (builtin.framed and key not in _OF_LISTS)):
        raise NoColumn


def _groups(columns: list[AttributeColumn], place: Place) -> tuple[Array, Array]:
    """One row of each group of those that store the same, and of which group each row is."""
    size = len(place.table) if place.rows is None else len(place.rows)
    if not size:
        raise NoColumn
    code = np.zeros(size, np.int64)
    for column in columns:
        for one in told_apart(column, len(place.table)):
            part = one if place.rows is None else one[place.rows]
            # Numbers from 0 on after each column, so that the product below stays small.
            _, kind = np.unique(part, return_inverse=True)
            _, code = np.unique(code * (int(kind.max()) + 1) + kind, return_inverse=True)
    _, first = np.unique(code, return_index=True)
    return first, code


def told_apart(column: AttributeColumn, size: int) -> list[Array]:
    """Arrays that are equal in rows where the column stores the same."""
    told = [] if column.missing is None else [column.missing]
    if column.plain is None:
        return told
    if column.parts:
        which = np.zeros(size, np.int64)
        for number, (_, where) in enumerate(column.parts, 1):
            which[where] = number
        told.append(which)
    plain = column.plain
    if plain.kind == MIXED:
        raise NoColumn
    told += [mask for mask in (plain.undefined, plain.error) if mask is not None]
    # By their bits: of 0.0 and -0.0, which are equal, functions may say something else.
    told.append(plain.data.view(np.int64) if plain.kind == REAL else plain.data)
    return told
