"""An expression over all rows of a table: the scalar evaluator's rules, a column at a time.

Names lead to columns, to the fixed ad's values, or into its expressions and the rows'; rows whose attribute is an
expression are taken together by its text. Whatever is not covered here raises NoColumn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pool.classad.columns.alike import Place, by_likeness, reads_rows_alone
from pool.classad.columns.vector import (
    MIXED,
    TEXT,
    Array,
    NoColumn,
    Operand,
    Vector,
    binary,
    by_rows,
    choose,
    conjunction,
    default,
    disjunction,
    logical,
    ternary,
    unary,
)
from pool.classad.eval.budget import Brief, Budget, OverBudget, Uncounted
from pool.classad.eval.evaluate import builtin_named
from pool.classad.eval.expression import Expr
from pool.classad.eval.flatten import UNSTABLE
from pool.classad.eval.frame import SURROUNDINGS
from pool.classad.syntax.nodes import Binary, Call, Lit, Node, Paren, Ref, Select, Ternary, Unary, spine
from pool.classad.values.attrs import MISSING, SCOPE_NAMES
from pool.classad.values.environment import ENV
from pool.classad.values.value import PLAIN, UNDEFINED, RelTime

if TYPE_CHECKING:
    from pool.classad.columns.table import Table
    from pool.classad.eval.ad import ClassAd

_SPECIAL: Final = (SCOPE_NAMES | SURROUNDINGS) - {"currenttime"}
_SCOPES: Final = {"my": True, "target": False, "other": False}
#: Attributes inside one another; what is deeper goes row by row.
_MAX_DEPTH: Final = 60
#: How often a node that has no column form is tried by what rows store: each operator around it is one, too.
_MAX_TRIES: Final = 50


class Evaluation:
    """One expression, one fixed ad and the rows. `mine` says whose names come first: the rows' or the fixed ad's."""

    def __init__(
        self, table: Table, fixed: ClassAd | None, *, rows_are_mine: bool, rows: Array | None = None, depth: int = 0
    ) -> None:
        self._table, self._fixed, self._mine = table, fixed, rows_are_mine
        self._rows = rows
        self._depth = depth
        self._size = len(table) if rows is None else len(rows)
        self._active: set[tuple[bool, str]] = set()
        self._memo: dict[tuple[bool, str], Operand] = {}
        self._tries = iter(range(_MAX_TRIES))
        #: Whether something else than the rows was looked at.
        self._touched = False

    def expression(self, expression: Expr) -> Operand:
        """The value of an expression."""
        return self._node(expression.node)

    def attribute(self, key: str) -> Operand:
        """The value of an attribute of the rows, which are MY."""
        return self._of_rows(key)[0]

    # Nodes.

    def _node(self, node: Node) -> Operand:
        kind = type(node)
        if kind is Lit:
            value = node.value  # type: ignore[union-attr]
            return float(value.secs) if type(value) is RelTime else value
        if kind is Paren:
            return self._node(node.inner)  # type: ignore[union-attr]
        if kind is Ref:
            return self._name(node.key)  # type: ignore[union-attr]
        if kind is Select:
            return self._select(node)  # type: ignore[arg-type]
        whole = self._rows is None
        if whole:
            kept = self._table.kept.get((id(node), self._mine))
            if kept is not None:
                return kept[1]
        # What depends on the rows alone is kept for the next job; whatever looked at the job must not be.
        before, self._touched = self._touched, False
        try:
            value = self._compute(node)
        except NoColumn:
            value = self._by_likeness(node)
        if whole and not self._touched:
            self._table.keep(node, self._mine, value)
        self._touched = self._touched or before
        return value

    def _by_likeness(self, node: Node) -> Operand:
        """What has no column form, once for rows that are alike; NoColumn if that cannot be or is tried too often."""
        if next(self._tries, None) is None:
            raise NoColumn
        inside = {key for _, key in self._active}
        place = Place(self._table, self._fixed, self._mine, self._rows, inside, self._depth)
        value = by_likeness(node, place)
        self._touched = self._touched or not reads_rows_alone(node, place)
        return value

    def _compute(self, node: Node) -> Operand:
        match node:
            case Binary():
                return self._chain(node)
            case Unary(op, operand):
                return unary(op, self._node(operand))
            case Ternary(test, yes, no):
                return self._ternary(test, yes, no)
            case Call():
                return self._call(node)
            case _:
                raise NoColumn

    def _chain(self, node: Binary) -> Operand:
        first, tail = spine(node)
        value = self._node(first)
        for op, right in tail:
            if op == "&&":
                value = logical(value)
                if _decides(value, False):
                    continue
                value = conjunction(value, logical(self._node(right)))
            elif op == "||":
                value = logical(value)
                if _decides(value, True):
                    continue
                value = disjunction(value, logical(self._node(right)))
            elif op == "?:":
                value = self._default(value, right)
            elif op == "[]":
                raise NoColumn
            else:
                value = binary(op, value, self._node(right))
        return value

    def _default(self, value: Operand, right: Node) -> Operand:
        return default(value, lambda: self._node(right))

    def _ternary(self, test: Node, yes: Node, no: Node) -> Operand:
        said = logical(self._node(test))
        if type(said) is not Vector:
            if said is True or said is False:
                return self._node(yes if said else no)
            return said
        return ternary(said, self._node(yes), self._node(no))

    def _call(self, node: Call) -> Operand:
        builtin = builtin_named(node.key)
        # Those see their place or differ from row to row, which a column of arguments cannot tell them.
        if builtin is None or builtin.plain is None or builtin.framed or node.key in ("random", "debug"):
            raise NoColumn
        if not builtin.least <= len(node.args) <= builtin.most:
            raise NoColumn
        if node.key in UNSTABLE:
            self._touched = True
        operands = [self._node(arg) for arg in node.args]
        if any(map(_has_long_text, operands)):
            raise NoColumn
        value = by_rows(_Briefly(builtin.plain) if builtin.metered else builtin.plain, *operands)
        if type(value) is not Vector and type(value) not in PLAIN:
            raise NoColumn
        return value

    # Names.

    def _select(self, node: Select) -> Operand:
        base = node.base
        if type(base) is not Ref or base.key not in _SCOPES or node.key in _SPECIAL or node.key == "currenttime":
            raise NoColumn
        return self._in(self._mine is _SCOPES[base.key], node.key)[0]

    def _name(self, key: str) -> Operand:
        """An unscoped name: MY's, and where MY lacks it, TARGET's."""
        if key in _SPECIAL:
            raise NoColumn
        value, missing = self._in(self._mine, key)
        if missing is None:
            return value
        if key == "currenttime":
            self._touched = True
            other: Operand = UNDEFINED if ENV.strict else int(ENV.clock())
        elif ENV.strict:
            other = UNDEFINED
        else:
            other = self._in(not self._mine, key)[0]
        return other if missing is True else choose(missing, other, value)

    def _in(self, rows: bool, key: str) -> tuple[Operand, Any]:
        """An attribute of one of the two ads, and where it is missing (None: nowhere, True: everywhere)."""
        return self._of_rows(key) if rows else self._of_fixed(key)

    def _of_fixed(self, key: str) -> tuple[Operand, Any]:
        self._touched = True
        if self._fixed is None:
            return UNDEFINED, True
        stored = self._fixed.attrs.lookup(key)
        if stored is MISSING:
            return UNDEFINED, True
        if type(stored) in PLAIN:
            return stored, None
        if type(stored) is not Expr:
            raise NoColumn
        return self._follow(False, key, stored, None), None

    def _of_rows(self, key: str) -> tuple[Operand, Any]:
        column = self._table.column(key)
        rows = self._rows
        missing: Any = column.missing
        if missing is not None:
            missing = missing if rows is None else missing[rows]
            missing = True if missing.all() else missing if missing.any() else None
            if missing is True:
                return UNDEFINED, True
        plain = column.plain
        if plain is None:
            return self._follow(True, key, column.parts[0][0], None), missing
        value: Operand = plain if rows is None else plain.take(rows)
        for expression, where in column.parts:
            inside = np.zeros(len(self._table), np.bool_)
            inside[where] = True
            if rows is not None:
                inside = inside[rows]
            found = np.flatnonzero(inside)
            if len(found) == self._size:
                return self._follow(True, key, expression, None), missing
            if len(found):
                value = self._merged(value, found, inside, self._follow(True, key, expression, found))
        return value, missing

    def _merged(self, value: Vector, found: Array, inside: Array, part: Operand) -> Vector:
        """`value`, with the values of `part` in the rows `found`."""
        if type(part) is not Vector:
            return choose(inside, part, value)
        where = np.zeros(self._size, np.int64)
        where[found] = np.arange(len(found))
        return choose(inside, part.take(where), value)

    def _follow(self, rows_are_mine: bool, key: str, expression: Expr, found: Array | None) -> Operand:
        """The value of an attribute that is an expression, for the rows `found` (None: all that are looked at)."""
        place = rows_are_mine, key
        if found is None and place in self._memo:
            # What is remembered may come from the fixed ad.
            self._touched = True
            return self._memo[place]
        if place in self._active or self._depth >= _MAX_DEPTH:
            raise NoColumn  # a circle, or nearly endless
        self._active.add(place)
        self._depth += 1
        before = self._mine
        try:
            return self._followed(place, expression, found)
        finally:
            self._mine = before
            self._depth -= 1
            self._active.discard(place)

    def _followed(self, place: tuple[bool, str], expression: Expr, found: Array | None) -> Operand:
        if found is None:
            self._mine = place[0]
            value = self._memo[place] = self._node(expression.node)
            return value
        rows = found if self._rows is None else self._rows[found]
        inner = Evaluation(self._table, self._fixed, rows_are_mine=place[0], rows=rows, depth=self._depth)
        inner._active, inner._tries = self._active, self._tries
        value = inner._node(expression.node)
        self._touched = self._touched or inner._touched
        return value


#: Characters from which a string is not for columns, whose rows are not counted.
_LONG_TEXT: Final = 1_000
#: Rows with which a function may take long; such as the first one, for which a pattern is compiled.
_DEAR_ROWS: Final = 3


def _has_long_text(operand: Operand) -> bool:
    if type(operand) is not Vector:
        return type(operand) is str and len(operand) > _LONG_TEXT
    words = operand.words if operand.kind is TEXT else operand.data.tolist() if operand.kind is MIXED else ()
    return any(type(word) is str and len(word) > _LONG_TEXT for word in words)


class _Briefly:
    """A metered function with which no row takes long, but for a few."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._budget = Brief()
        self._dear = 0

    def __call__(self, *values: Any) -> Any:
        try:
            return self._function(self._budget.renew(), *values)
        except Uncounted:
            self._dear += 1
            if self._dear > _DEAR_ROWS:
                raise NoColumn from None
        try:
            return self._function(Budget(), *values)
        except OverBudget:
            raise NoColumn from None


def _decides(value: Operand, outcome: bool) -> bool:
    """Whether the rest of a chain cannot matter: `outcome` everywhere."""
    if type(value) is not Vector:
        return value is outcome
    if value.undefined is not None or value.error is not None:
        return False
    return bool(value.data.all() if outcome else not value.data.any())
