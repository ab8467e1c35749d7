"""The node types of a parsed expression; a node is never changed once it is made. Everything that walks a tree takes
chains of operators as loops (`spine`), so that only real nesting, which the parser limits, costs stack.

They are written out rather than made by `dataclass`, which would cost every tool ten milliseconds at its start.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from pool.classad.values.value import Scalar


class _Node:
    """What all nodes share: their parts are named in `__match_args__`, in order."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, part) == getattr(other, part) for part in self.__match_args__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, part) for part in self.__match_args__)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(getattr(self, part)) for part in self.__match_args__)})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, part) for part in self.__match_args__)


# The classes below are alike in shape and written out: a class made at run time costs every tool its start, and a
# generic node would take from mypy what it says of a forgotten case.
@final
class Lit(_Node):
    """A literal. A `RelTime` here evaluates to a real."""

    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, value: Scalar) -> None:
        self.value = value


class _Named(_Node):
    """A name as it was written, and its `key`: ads look names up in lower case."""

    __slots__ = ("key", "name")
    __match_args__ = ("name", "key")

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key


@final
class Ref(_Named):
    """`Name`: looked up from the inside out, then in the other ad of a match."""

    __slots__ = ()


@final
class RootRef(_Named):
    """`.Name`: looked up in the outermost ad."""

    __slots__ = ()


@final
class Select(_Node):
    """`base.Name`."""

    __slots__ = ("base", "key", "name")
    __match_args__ = ("base", "name", "key")

    def __init__(self, base: Node, name: str, key: str) -> None:
        self.base = base
        self.name = name
        self.key = key


@final
class Unary(_Node):
    """`-a`, `+a`, `!a`, `~a`."""

    __slots__ = ("op", "operand")
    __match_args__ = ("op", "operand")

    def __init__(self, op: str, operand: Node) -> None:
        self.op = op
        self.operand = operand


@final
class Binary(_Node):
    """Any operator of two operands; `op` is its long-form spelling, `[]` is the subscript."""

    __slots__ = ("left", "op", "right")
    __match_args__ = ("op", "left", "right")

    def __init__(self, op: str, left: Node, right: Node) -> None:
        self.op = op
        self.left = left
        self.right = right


@final
class Ternary(_Node):
    """`test ? yes : no`."""

    __slots__ = ("no", "test", "yes")
    __match_args__ = ("test", "yes", "no")

    def __init__(self, test: Node, yes: Node, no: Node) -> None:
        self.test = test
        self.yes = yes
        self.no = no


@final
class Paren(_Node):
    """`(inner)`: kept, because ads print as they were written."""

    __slots__ = ("inner",)
    __match_args__ = ("inner",)

    def __init__(self, inner: Node) -> None:
        self.inner = inner


@final
class Call(_Node):
    """`name(args)`; `key` is the name in lower case."""

    __slots__ = ("args", "key", "name")
    __match_args__ = ("name", "key", "args")

    def __init__(self, name: str, key: str, args: tuple[Node, ...]) -> None:
        self.name = name
        self.key = key
        self.args = args


@final
class ListNode(_Node):
    """`{ a, b }`: evaluates to itself; its members are evaluated when they are looked at."""

    __slots__ = ("items",)
    __match_args__ = ("items",)

    def __init__(self, items: tuple[Node, ...]) -> None:
        self.items = items


@final
class AdNode(_Node):
    """`[ a = 1; b = a ]`: evaluates to itself."""

    __slots__ = ("items",)
    __match_args__ = ("items",)

    def __init__(self, items: tuple[tuple[str, Node], ...]) -> None:
        self.items = items


#: Binary operators by how tightly they bind; all of them group from the left.
PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    **dict.fromkeys(("==", "!=", "=?=", "=!="), 6),
    **dict.fromkeys(("<", "<=", ">", ">="), 7),
    **dict.fromkeys(("<<", ">>", ">>>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "%"), 10),
}

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
