"""A Requirements expression taken apart into numbered conditions, and which of them decide.

Numbers follow evaluation: operands come before what joins them, and each comparison, and each operand of `&&`, `||`,
`!` and of a condition, has one. A clause is left out of the short list when it always agrees with an operand of its, or
when another clause makes it irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pool.classad import ClassAd, Expr
from pool.classad.syntax.nodes import Binary, Call, ListNode, Lit, Node, Paren, Ref, Select, Ternary, Unary
from pool.classad.syntax.unparse import unparse
from pool.classad.values.truth import is_true

COMPARISONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "=?=", "=!=", "is", "isnt"})
ORDER: Final = frozenset({"<", "<=", ">", ">="})
AND: Final = "&&"
OR: Final = "||"
NOT: Final = "!"
IF: Final = "?:"


@dataclass(slots=True)
class Clause:
    """One condition. `operands` are the numbers of those that it joins; `agrees_with` the one that it always equals."""

    number: int
    node: Node
    op: str = ""
    operands: tuple[int, ...] = ()
    constant: bool | None = None
    matched: frozenset[int] = frozenset()
    drained: frozenset[int] = frozenset()
    agrees_with: int | None = None
    irrelevant: bool = False

    @property
    def count(self) -> int:
        """How many others it is true for, those that are drained counted as others again."""
        return len(self.matched) + len(self.drained)

    @property
    def text(self) -> str:
        """The condition: joined ones by their operands' numbers."""
        return self._told(self.operands)

    def reduced(self, clauses: Sequence[Clause]) -> str:
        """The same, where each operand that always agrees with another clause is named by the number of that one."""
        return self._told([_effective(number, clauses) for number in self.operands])

    def _told(self, operands: Sequence[int]) -> str:
        refs = [f"[{number}]" for number in operands]
        if self.op == NOT and refs:
            return f" ! {refs[0]}"
        if self.op in (AND, OR):
            return f"{refs[0]} {self.op} {refs[1]}"
        if self.op == IF:
            return f"{refs[0]} ? {refs[1]} : {refs[2]}"
        plain = unparse(self.node)
        return f"{refs[0]} {plain}" if refs else plain

    @property
    def expr(self) -> Expr:
        """The condition on its own."""
        return Expr(self.node)


def _effective(number: int, clauses: Sequence[Clause]) -> int:
    agrees_with = clauses[number].agrees_with
    return number if agrees_with is None else _effective(agrees_with, clauses)


@dataclass
class _Taking:
    """Takes a tree apart."""

    my: ClassAd
    clauses: list[Clause] = field(default_factory=list)

    def take(self, node: Node, *, wanted: bool) -> int | None:
        """The number of the clause that `node` became; None when it is not worth one. `wanted`: it must be."""
        match node:
            case Paren(inner):
                return self.take(inner, wanted=wanted)
            case Binary(op=op, left=left, right=right) if op in (AND, OR):
                return self._add(node, op, (self._must(left), self._must(right)))
            case Ternary(test, yes, no):
                return self._add(node, IF, (self._must(test), self._must(yes), self._must(no)))
            case Unary(op="!", operand=operand):
                return self._negation(node, operand)
            case Binary(op=op, left=left, right=right) if op in COMPARISONS:
                found = [number for side in (left, right) if (number := self.take(side, wanted=False)) is not None]
                return self._add(node, "", tuple(found[:1]))
            case Binary(left=left, right=right):
                for side in (left, right):
                    self.take(side, wanted=False)
        return self._add(node, "", ()) if wanted else None

    def _negation(self, node: Node, operand: Node) -> int:
        number = self._must(operand)
        if self.clauses[number].op == "" and number == len(self.clauses) - 1:
            self.clauses[number].node = node  # `! x` is as plain as `x`
            self.clauses[number].operands = ()
            return number
        return self._add(node, NOT, (number,))

    def _must(self, node: Node) -> int:
        number = self.take(node, wanted=True)
        assert number is not None
        return number

    def _add(self, node: Node, op: str, operands: tuple[int, ...]) -> int:
        clause = Clause(len(self.clauses), node, op, operands)
        # It reads nothing of the slot, so it is the same for all: told as "always", not with a count.
        if not clause.expr.references(self.my)[1]:
            value = clause.expr.eval(self.my)
            clause.constant = is_true(value)
        self.clauses.append(clause)
        return clause.number


def take_apart(requirements: Expr, my: ClassAd) -> list[Clause]:
    """The clauses of an expression of the ad `my`, in the order of their numbers."""
    taking = _Taking(my)
    taking.take(requirements.node, wanted=True)
    return taking.clauses


Holds = Callable[[Clause], frozenset[int]]
"""Which of the other ads a clause is true for."""


def weigh(clauses: Sequence[Clause], everybody: int, now: Holds, drained: Holds) -> None:
    """Find out which of so many others each clause is true for, as they are and drained, and which clauses decide."""
    for clause in clauses:
        if clause.constant is None:
            clause.matched, clause.drained = now(clause), drained(clause)
        else:
            clause.matched = clause.drained = frozenset(range(everybody)) if clause.constant else frozenset[int]()
        if clause.op == AND:
            _weigh_and(clause, clauses)
        elif clause.op == OR:
            _weigh_or(clause, clauses, everybody)


def _weigh_and(clause: Clause, clauses: Sequence[Clause]) -> None:
    left, right = (clauses[number] for number in clause.operands)
    for one, other in ((left, right), (right, left)):
        if one.count == clause.count:
            clause.agrees_with = one.number
            if other.count > clause.count:
                other.irrelevant = True
            return


def _weigh_or(clause: Clause, clauses: Sequence[Clause], everybody: int) -> None:
    left, right = (clauses[number] for number in clause.operands)
    for one, other in ((left, right), (right, left)):
        if one.count == 2 * everybody or (one.count and not other.count):
            clause.agrees_with = one.number
            _forget(other, clauses)
            return


def _forget(clause: Clause, clauses: Sequence[Clause]) -> None:
    clause.irrelevant = True
    for number in clause.operands:
        _forget(clauses[number], clauses)


def deciding(clauses: Sequence[Clause]) -> list[Clause]:
    """The clauses that tell why something matches or not."""
    return [clause for clause in clauses if clause.agrees_with is None and not clause.irrelevant]


def conjuncts(clauses: Sequence[Clause]) -> list[Clause]:
    """The conditions that all have to be true: those that `&&` joins to the whole expression, which is the last."""
    found: list[Clause] = []
    left = [len(clauses) - 1]
    while left:
        clause = clauses[left.pop()]
        if clause.op == AND:
            left += reversed(clause.operands)
        else:
            found.append(clause)
    return found


def failing_alone(parts: Sequence[Clause], everybody: int) -> list[frozenset[int]]:
    """For each of the conditions: for which of the others, drained, it is the only one of all that is not true."""
    everyone, failing, often = frozenset(range(everybody)), set[int](), set[int]()
    for part in parts:
        fails = everyone - part.drained
        often |= failing & fails
        failing |= fails
    return [everyone - part.drained - often for part in parts]


class Bound(NamedTuple):
    """A condition that asks for so much of the other ad's attribute, or (not `least`) for no more than that."""

    attribute: str
    least: bool
    strict: bool
    limit: str
    """The attribute of one's own that is the bound; empty when the bound is computed."""


def bound_of(clause: Clause, my: ClassAd) -> Bound | None:
    """The bound that a plain comparison is: `Memory`, at least, `RequestMemory` of `TARGET.Memory >= RequestMemory`."""
    node = clause.node
    if not isinstance(node, Binary) or node.op not in ORDER:
        return None
    for side, limit in ((node.left, node.right), (node.right, node.left)):
        if isinstance(side, Ref | Select) and not Expr(limit).references(my)[1]:
            mine, theirs = Expr(side).references(my)
            if len(theirs) == 1 and not mine:
                least = node.op.startswith(">") == (side is node.left)
                return Bound(theirs.pop(), least, not node.op.endswith("="), _own_name(limit))
    return None


def _own_name(node: Node) -> str:
    match node:
        case Ref(name=name) | Select(base=Ref(key="my"), name=name):
            return name
    return ""


def compared_attribute(clause: Clause) -> str | None:
    """The other ad's attribute that a plain comparison is about: `Memory` in `TARGET.Memory >= RequestMemory`."""
    node = clause.node
    if not isinstance(node, Binary) or node.op not in COMPARISONS:
        return None
    for side in (node.left, node.right):
        match side:
            case Select(base=Ref(key="target"), name=name):
                return name
            case Ref(name=name) if not isinstance(node.left, Lit | ListNode | Call):
                return name
    return None
