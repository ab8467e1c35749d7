"""Partial evaluation: what one ad decides is computed, the rest stays an expression with the same value.

What surrounds the ads of a match (`.x`, root, PARENT) is taken for that of the ad alone, as in HTCondor. Unlike
HTCondor's, this never reorders or drops operands whose type is not known yet, because that could turn an error into a
value.
"""

from __future__ import annotations

from typing import Final

from pool.classad.eval.budget import Budget, bounded
from pool.classad.eval.evaluate import evaluate
from pool.classad.eval.frame import frames
from pool.classad.eval.references import reads
from pool.classad.syntax.nodes import (
    AdNode,
    Binary,
    Call,
    ListNode,
    Lit,
    Node,
    Paren,
    Ref,
    Select,
    Ternary,
    Unary,
    spine,
)
from pool.classad.values.attrs import MISSING, Attrs
from pool.classad.values.value import ERROR, PLAIN, UNDEFINED, Error

#: Functions whose value changes though their arguments do not, or that look at names rather than values.
UNSTABLE: Final = frozenset(
    {
        "time",
        "currenttime",
        "daytime",
        "timezoneoffset",
        "random",
        "formattime",
        "abstime",
        "userhome",
        "usermap",
        "debug",
        "eval",
        "unparse",
        "unresolved",
        "evalineachcontext",
        "countmatches",
    }
)
#: Functions whose arguments are left alone.
_NAMING: Final = frozenset(["unparse", "unresolved", "evalineachcontext", "countmatches"])


def flatten(node: Node, attrs: Attrs) -> Node:
    """`node` with everything computed that the ad with `attrs` decides; `node` itself where that costs too much."""
    found = bounded(lambda budget: _Flattener(attrs, budget).node(node), counted=True)
    return node if isinstance(found, Error) else found


class _Flattener:
    def __init__(self, attrs: Attrs, budget: Budget) -> None:
        self.attrs = attrs
        self._budget = budget
        self.active: set[str] = set()

    def node(self, node: Node) -> Node:
        """The node, as far as possible a literal."""
        self._budget.spend(1)
        kind = type(node)
        if kind is Lit or kind is ListNode or kind is AdNode:
            return node
        decided = self.decided(node)
        if decided is not None:
            return decided
        match node:
            case Ref(key=key):
                return self.inlined(node, key)
            case Select(base=Ref(key=scope), key=key) if scope in ("my", "self"):
                return self.inlined(node, key)
            case Paren(inner):
                inside = self.node(inner)
                return inside if type(inside) in (Lit, Paren) else Paren(inside)
            case Unary(op, operand):
                return Unary(op, self.node(operand))
            case Ternary(test, yes, no):
                return self.ternary(test, yes, no)
            case Binary():
                return self.chain(node)
            case Call(name, key, args) if key not in _NAMING:
                return Call(name, key, tuple(self.node(arg) for arg in args))
            case _:
                return node

    def decided(self, node: Node) -> Node | None:
        """The literal for a node that depends on nothing but the ad."""
        names, calls = reads(node, self.attrs, self._budget)
        if names or calls & UNSTABLE:
            return None
        value = evaluate(node, frames(self.attrs, None, self._budget))
        return Lit(value) if type(value) in PLAIN else None

    def inlined(self, node: Node, key: str) -> Node:
        """A reference to an attribute that itself needs more than the ad: that attribute's expression."""
        stored = self.attrs.lookup(key)
        inner = None if stored is MISSING else getattr(stored, "node", None)
        if inner is None or key in self.active:
            return node
        # A circle is left as it stands: evaluated, it is undefined, and never ends when it is followed.
        self.active.add(key)
        found = self.node(inner)
        self.active.discard(key)
        return found if type(found) in (Lit, Ref, Select, Call, Paren) else Paren(found)

    def ternary(self, test: Node, yes: Node, no: Node) -> Node:
        """One branch, if the test is decided."""
        test = self.node(test)
        if type(test) is Lit:
            value = test.value
            if type(value) in (bool, int, float):
                return self.node(yes if value else no)
            return Lit(UNDEFINED if value is UNDEFINED else ERROR)
        return Ternary(test, self.node(yes), self.node(no))

    def chain(self, node: Binary) -> Node:
        """Operators from the left, leaving at a literal that decides."""
        first, tail = spine(node)
        left = self.node(first)
        for op, operand in tail:
            if type(left) is Lit:
                value = left.value
                number = type(value) in (bool, int, float)
                if op in ("&&", "||") and (value is ERROR or (number and bool(value) is (op == "||"))):
                    left = Lit(value if value is ERROR else op == "||")
                    continue
                if op == "?:":
                    left = self.node(operand) if value is UNDEFINED else left
                    continue
            right = operand if op == "[]" else self.node(operand)
            left = Binary(op, left, right)
            if type(left.left) is Lit and type(right) is Lit:
                left = self.decided(left) or left
        return left
