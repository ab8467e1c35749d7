"""Python's operators build expressions: `attr("Memory") > 1024` is `Memory > 1024`.

An operand stands in parentheses where its own operator binds less tightly. What Python keeps for itself (`==`, `and`)
has a method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pool.classad.syntax.nodes import PRECEDENCE, Binary, Node, Paren, Select, Ternary, Unary


class Operators:
    """What an expression inherits."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: Node

        def __init__(self, node: Node) -> None: ...

    @staticmethod
    def operand(value: object) -> Node:
        """The node of whatever an operator is given."""
        raise NotImplementedError

    def _with(self, op: str, other: object, *, swapped: bool = False) -> Self:
        left, right = (self.operand(other), self.node) if swapped else (self.node, self.operand(other))
        level = PRECEDENCE[op]
        return type(self)(Binary(op, _wrapped(left, level), _wrapped(right, level + 1)))

    def __add__(self, other: object) -> Self:
        return self._with("+", other)

    def __radd__(self, other: object) -> Self:
        return self._with("+", other, swapped=True)

    def __sub__(self, other: object) -> Self:
        return self._with("-", other)

    def __rsub__(self, other: object) -> Self:
        return self._with("-", other, swapped=True)

    def __mul__(self, other: object) -> Self:
        return self._with("*", other)

    def __rmul__(self, other: object) -> Self:
        return self._with("*", other, swapped=True)

    def __truediv__(self, other: object) -> Self:
        return self._with("/", other)

    def __rtruediv__(self, other: object) -> Self:
        return self._with("/", other, swapped=True)

    def __mod__(self, other: object) -> Self:
        return self._with("%", other)

    def __rmod__(self, other: object) -> Self:
        return self._with("%", other, swapped=True)

    def __and__(self, other: object) -> Self:
        return self._with("&", other)

    def __or__(self, other: object) -> Self:
        return self._with("|", other)

    def __xor__(self, other: object) -> Self:
        return self._with("^", other)

    def __lshift__(self, other: object) -> Self:
        return self._with("<<", other)

    def __rshift__(self, other: object) -> Self:
        return self._with(">>", other)

    def __lt__(self, other: object) -> Self:
        return self._with("<", other)

    def __le__(self, other: object) -> Self:
        return self._with("<=", other)

    def __gt__(self, other: object) -> Self:
        return self._with(">", other)

    def __ge__(self, other: object) -> Self:
        return self._with(">=", other)

    def __neg__(self) -> Self:
        return type(self)(Unary("-", _wrapped(self.node, 11)))

    def __invert__(self) -> Self:
        return type(self)(Unary("~", _wrapped(self.node, 11)))

    def __getitem__(self, index: object) -> Self:
        return type(self)(Binary("[]", _wrapped(self.node, 12), self.operand(index)))

    def eq(self, other: object) -> Self:
        """`self == other`."""
        return self._with("==", other)

    def ne(self, other: object) -> Self:
        """`self != other`."""
        return self._with("!=", other)

    def is_(self, other: object) -> Self:
        """`self =?= other`."""
        return self._with("=?=", other)

    def isnt(self, other: object) -> Self:
        """`self =!= other`."""
        return self._with("=!=", other)

    def and_(self, other: object) -> Self:
        """`self && other`."""
        return self._with("&&", other)

    def or_(self, other: object) -> Self:
        """`self || other`."""
        return self._with("||", other)

    def not_(self) -> Self:
        """`!self`."""
        return type(self)(Unary("!", _wrapped(self.node, 11)))

    def if_else(self, yes: object, no: object) -> Self:
        """`self ? yes : no`."""
        return type(self)(Ternary(_wrapped(self.node, 1), self.operand(yes), self.operand(no)))

    def default(self, other: object) -> Self:
        """`self ?: other`: `other` where this is undefined."""
        return type(self)(Binary("?:", _wrapped(self.node, 12), _wrapped(self.operand(other), 12)))

    def dot(self, name: str) -> Self:
        """`self.name`."""
        return type(self)(Select(_wrapped(self.node, 12), name, name.lower()))


def _wrapped(node: Node, level: int) -> Node:
    """`node`, in parentheses if it binds less tightly than `level`."""
    kind = type(node)
    if kind is Binary:
        op = node.op  # type: ignore[union-attr]
        own = 11 if op == "?:" else PRECEDENCE.get(op, 12)
    elif kind is Ternary:
        own = 0
    elif kind is Unary:
        own = 11
    else:
        own = 13
    return node if own >= level else Paren(node)
