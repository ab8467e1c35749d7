"""The frozen node types of a parsed expression. Everything that walks a tree takes chains of operators as loops
(`spine`), so that only real nesting, which the parser limits, costs stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pool.classad.values import Scalar


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal. A `RelTime` here evaluates to a real."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Ref:
    """`Name`: looked up from the inside out, then in the other ad of a match."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class RootRef:
    """`.Name`: looked up in the outermost ad."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Select:
    """`base.Name`."""

    base: Node
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class Unary:
    """`-a`, `+a`, `!a`, `~a`."""

    op: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Any operator of two operands; `op` is its long-form spelling, `[]` is the subscript."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Ternary:
    """`test ? yes : no`."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Paren:
    """`(inner)`: kept, because ads print as they were written."""

    inner: Node


@dataclass(frozen=True, slots=True)
class Call:
    """`name(args)`; `key` is the name in lower case."""

    name: str
    key: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListNode:
    """`{ a, b }`: evaluates to itself; its members are evaluated when they are looked at."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AdNode:
    """`[ a = 1; b = a ]`: evaluates to itself."""

    items: tuple[tuple[str, Node], ...]


Node: TypeAlias = Lit | Ref | RootRef | Select | Unary | Binary | Ternary | Paren | Call | ListNode | AdNode


def spine(node: Binary) -> tuple[Node, list[tuple[str, Node]]]:
    """A left-leaning chain `((a + b) - c) * d` as its first operand and the (operator, operand) pairs after it."""
    tail: list[tuple[str, Node]] = []
    first: Node = node
    while type(first) is Binary:
        tail.append((first.op, first.right))
        first = first.left
    tail.reverse()
    return first, tail


def children(node: Node) -> tuple[Node, ...]:
    """The direct operands of `node`; of a chain of operators, all of them."""
    match node:
        case Binary():
            first, tail = spine(node)
            return (first, *(right for _, right in tail))
        case Select(base=base):
            return (base,)
        case Unary(operand=operand):
            return (operand,)
        case Ternary(test, yes, no):
            return (test, yes, no)
        case Paren(inner):
            return (inner,)
        case Call(args=args):
            return args
        case ListNode(items):
            return items
        case AdNode(pairs):
            return tuple(member for _, member in pairs)
        case _:
            return ()
