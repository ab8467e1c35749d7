"""A node and its scopes to a value. This is the reference; compile.py does the common cases faster and agrees.

A value is one of Python's, UNDEFINED, ERROR, or a list or an ad in its place (`frame`). Operators are in `operators`,
functions in `pool.classad.builtins`. HTCondor's manual page classad-mechanism says which operands make an operator
undefined or an error; where it is silent, the rule is what HTCondor 25.14 does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pool.classad.eval.above import ABOVE
from pool.classad.eval.budget import Budget
from pool.classad.eval.frame import NODES, BoundList, Frame, outermost, select, subscript
from pool.classad.eval.operators import BINARY, UNARY, truth
from pool.classad.syntax.nodes import (
    AdNode,
    Binary,
    Call,
    ListNode,
    Lit,
    Node,
    Paren,
    Ref,
    RootRef,
    Select,
    Ternary,
    Unary,
    children,
    spine,
)
from pool.classad.values.limits import LONG_STRING
from pool.classad.values.value import ERROR, PLAIN, UNDEFINED, RelTime

if TYPE_CHECKING:
    from pool.classad.eval.functions import Builtin

#: Characters of two strings that are compared in a step, and of one that is written in a step.
CHARS_COMPARED: Final = 256
CHARS_BUILT: Final = 64
#: Steps for each part of a list or an ad that somebody goes through.
PART_STEPS: Final = 4


def spend_on_parts(budget: Budget, value: Any) -> None:
    """Count all that is inside a list or an ad, as many times as it is there, before somebody goes through it."""
    todo = [value]
    while todo:
        here = todo.pop()
        kind = type(here)
        if kind in PLAIN:
            if kind is str:
                budget.spend(len(here) // CHARS_BUILT)
            continue
        parts: Any
        if kind is BoundList or kind is ListNode:
            parts = here.items
        elif kind is AdNode:
            parts = [inner for _, inner in here.items]
        elif kind is list:
            parts = here
        elif getattr(here, "attrs", None) is not None:
            parts = here.attrs.values()
        else:
            node = getattr(here, "node", here)
            parts = children(node) if type(node) in NODES else ()
        if parts:
            budget.spend(PART_STEPS * len(parts))
            todo.extend(parts)


def evaluate(node: Node, frame: Frame) -> Any:
    """The value of `node` in `frame`."""
    return _EVALUATE[type(node)](node, frame)


def _lit(node: Lit, _frame: Frame) -> Any:
    value = node.value
    return float(value.secs) if type(value) is RelTime else value


def _ref(node: Ref, frame: Frame) -> Any:
    return frame.ref(node.key)


def _root_ref(node: RootRef, frame: Frame) -> Any:
    return outermost(frame).own(node.key)


def _select(node: Select, frame: Frame) -> Any:
    keys = [node.key]
    base: Node = node.base
    while type(base) is Select:
        keys.append(base.key)
        base = base.base
    value = evaluate(base, frame)
    for key in reversed(keys):
        value = select(value, key, frame)
    return value


def _paren(node: Paren, frame: Frame) -> Any:
    return evaluate(node.inner, frame)


def _unary(node: Unary, frame: Frame) -> Any:
    return UNARY[node.op](evaluate(node.operand, frame))


def _ternary(node: Ternary, frame: Frame) -> Any:
    test = truth(evaluate(node.test, frame))
    if test is True:
        return evaluate(node.yes, frame)
    if test is False:
        return evaluate(node.no, frame)
    return test


def _binary(node: Binary, frame: Frame) -> Any:
    first, tail = spine(node)
    budget = frame.budget
    budget.steps -= len(tail)
    if budget.steps < 0:
        budget.look()
    value = _EVALUATE[type(first)](first, frame)
    for op, right in tail:
        if op == "&&":
            value = conjunction(value, right, frame)
        elif op == "||":
            value = disjunction(value, right, frame)
        elif op == "?:":
            if value is UNDEFINED:
                value = evaluate(right, frame)
        elif op == "[]":
            value = subscript(value, evaluate(right, frame))
        else:
            other = _EVALUATE[type(right)](right, frame)
            if type(value) is str and len(value) > LONG_STRING and type(other) is str:
                budget.spend(len(value) // CHARS_COMPARED)
            value = BINARY[op](value, other)
    return value


def conjunction(left: Any, right: Node, frame: Frame) -> Any:
    """`left && right`: decided from the left where it can be."""
    left = truth(left)
    if left is False or left is ERROR:
        return left
    value = truth(evaluate(right, frame))
    return value if left is True or value is not True else UNDEFINED


def disjunction(left: Any, right: Node, frame: Frame) -> Any:
    """`left || right`: decided from the left where it can be."""
    left = truth(left)
    if left is True or left is ERROR:
        return left
    value = truth(evaluate(right, frame))
    return value if left is False or value is not False else UNDEFINED


def _call(node: Call, frame: Frame) -> Any:
    builtin = BUILTINS.get(node.key) or builtin_named(node.key)
    budget = frame.budget
    budget.steps -= 1
    if budget.steps < 0:
        budget.look()
    return ERROR if builtin is None else builtin.call(node.args, frame)


def _list(node: ListNode, frame: Frame) -> Any:
    return BoundList(node.items, frame)


def _ad(node: AdNode, frame: Frame) -> Any:
    spend_on_parts(frame.budget, node)
    return Frame(ABOVE.attrs_of(node), frame, frame.budget)


BUILTINS: Final[dict[str, Builtin]] = {}
"""The functions of the language, by their names in lower case."""


def builtin_named(key: str) -> Builtin | None:
    """The function of this name (in lower case). The modules of functions are imported when the first is wanted:
    most tools never call one."""
    found = BUILTINS.get(key)
    if found is None:
        ABOVE.enter_builtins()
        found = BUILTINS.get(key)
    return found


_EVALUATE: Final[dict[type, Callable[[Any, Frame], Any]]] = {
    Lit: _lit,
    Ref: _ref,
    RootRef: _root_ref,
    Select: _select,
    Paren: _paren,
    Unary: _unary,
    Ternary: _ternary,
    Binary: _binary,
    Call: _call,
    ListNode: _list,
    AdNode: _ad,
}

ABOVE.evaluate = evaluate
