"""A node to Python code. Names, comparisons, logic and arithmetic become straight-line code with the usual types tested
inline; whatever else there is goes through the evaluator.

The generated text is made of fixed phrases, numbered locals and numbered constants. Nothing that a user wrote is in it:
names and literals are passed in as constants. A function has the ad's table `m`, the other ad's `t` and, where there is
one already, the frame `x`; most expressions never need one, nor its budget `b`. Nothing here is a loop, so what it
costs is bounded by its text, but for what it calls: a function's long arguments are counted, and an operator refuses
long strings (`Uncounted`), upon which the evaluator begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pool.classad.eval.budget import Budget
from pool.classad.eval.evaluate import builtin_named, evaluate
from pool.classad.eval.frame import SURROUNDINGS, Frame
from pool.classad.eval.operators import BINARY, QUICK_BINARY, UNARY, truth
from pool.classad.syntax.nodes import Binary, Call, Lit, Node, Paren, Ref, Select, Ternary, Unary, spine
from pool.classad.values.attrs import MISSING, NOTHING, SCOPE_NAMES
from pool.classad.values.environment import ENV
from pool.classad.values.value import ERROR, PLAIN, UNDEFINED, RelTime, fold

if TYPE_CHECKING:
    from pool.classad.eval.expression import Compiled
    from pool.classad.values.attrs import Attrs

_OPERATOR_NAMES: Final = {op: f"op{i}" for i, op in enumerate(BINARY)}
_UNARY_NAMES: Final = {op: f"un{i}" for i, op in enumerate(UNARY)}
_ORDER: Final = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!="}
_MIRROR: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
#: Deeper trees are evaluated instead: they are rare, and Python's compiler has limits of its own.
_MAX_LEVEL: Final = 40
_MAX_PARTS: Final = 400


def _begin(m: Attrs, t: Attrs, b: Budget | None) -> Frame:
    """The frame for code that was called without one, with the budget if there is one already."""
    return Frame(m, None, Budget() if b is None else b, None if t is NOTHING else t)


#: Makes sure of the budget, in code that may have been called without a frame, which has one.
_METER: Final = "if b is None: b = Budget() if x is None else x.budget"


_GLOBALS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "type": type,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "len": len,
    "PLAIN": PLAIN,
    "MISSING": MISSING,
    "U": UNDEFINED,
    "E": ERROR,
    "truth": truth,
    "begin": _begin,
    "Budget": Budget,
    "ev": evaluate,
    **{name: QUICK_BINARY[op] for op, name in _OPERATOR_NAMES.items()},
    **{name: UNARY[op] for op, name in _UNARY_NAMES.items()},
}

#: Unscoped names that may mean something before the other ad is asked.
_VISIBLE: Final = SCOPE_NAMES | SURROUNDINGS

#: What is known of an operand when the code is made: one of the three logical values, or nothing.
_LOGICAL: Final = "logical"
_ANY: Final = "any"


class _TooComplex(Exception):
    """Not worth compiling; internal to this module."""


def compile_node(node: Node, stored: type) -> Compiled:
    """The compiled form of an expression; very deep ones are evaluated as they are.

    `stored` is the class of the expressions that ads hold.
    """
    try:
        writer = _Writer()
        result, _ = writer.value(node, 0)
        source = "\n".join(["def run(m, t, x):", *writer.opening(), *writer.lines, f"    return {result}"])
        scope = {**_GLOBALS, "Expr": stored, **writer.constants}
        exec(compile(source, "<classad>", "exec"), scope)
        return scope["run"]  # type: ignore[no-any-return]
    except (_TooComplex, RecursionError, MemoryError, SyntaxError):
        return _evaluated(node)


def _evaluated(node: Node) -> Compiled:
    def run(m: Attrs, t: Attrs, x: Frame | None) -> Any:
        return evaluate(node, _begin(m, t, None) if x is None else x)

    return run


class _Writer:
    """Collects the lines of one function. `value` writes what computes a node and says which local holds it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._locals = 0

    def put(self, level: int, line: str) -> None:
        """One line, indented by `level`."""
        if level > _MAX_LEVEL or len(self.lines) > 12 * _MAX_PARTS:
            raise _TooComplex
        self.lines.append("    " + " " * level + line)

    def opening(self) -> list[str]:
        """The lines before all others."""
        if any(line.endswith(_METER) for line in self.lines):
            return ["    b = None"]
        self.lines = [line.replace("begin(m, t, b)", "begin(m, t, None)") for line in self.lines]
        return []

    def local(self) -> str:
        """A new local's name."""
        self._locals += 1
        return f"v{self._locals}"

    def constant(self, value: Any) -> str:
        """The name of a constant; plain small integers and the words stand for themselves."""
        if value is True or value is False:
            return str(value)
        if value is UNDEFINED:
            return "U"
        if value is ERROR:
            return "E"
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def value(self, node: Node, level: int) -> tuple[str, str]:
        """Write the code for `node`; the operand that holds its value, and what is known of it."""
        kind = type(node)
        if kind is Paren:
            return self.value(node.inner, level)  # type: ignore[union-attr]
        if kind is Lit:
            return self._literal(node)  # type: ignore[arg-type]
        if kind is Ref or (kind is Select and _scope(node)):
            return self._reference(node, level), _ANY
        if kind is Binary:
            return self._binary(node, level)  # type: ignore[arg-type]
        if kind is Ternary:
            return self._ternary(node, level), _ANY  # type: ignore[arg-type]
        if kind is Unary:
            return self._unary(node, level)  # type: ignore[arg-type]
        if kind is Call:
            return self._call(node, level), _ANY  # type: ignore[arg-type]
        return self._evaluate(node, level), _ANY

    def _literal(self, node: Lit) -> tuple[str, str]:
        value = node.value
        known = _LOGICAL if type(value) is bool or value is UNDEFINED or value is ERROR else _ANY
        return self.constant(float(value.secs) if type(value) is RelTime else value), known

    def _evaluate(self, node: Node, level: int) -> str:
        """Through the evaluator."""
        name = self.local()
        self.put(level, "if x is None: x = begin(m, t, b)")
        self.put(level, f"{name} = ev({self.constant(node)}, x)")
        return name

    def _reference(self, node: Node, level: int) -> str:
        name = self.local()
        self.put(level, f"{name} = {self._subscription(node)}")
        self.put(level, f"if type({name}) not in PLAIN:")
        self._resolve(node, name, level + 1)
        return name

    def _subscription(self, node: Node) -> str:
        """What reads a reference's stored value straight from the tables."""
        table = "t" if _scope(node) == "target" else "m"
        return f"{table}[{self.constant(node.key)}]"  # type: ignore[union-attr]

    def _resolve(self, node: Node, name: str, level: int) -> None:
        """What computes a reference for which the table holds no plain value."""
        scope = _scope(node)
        key = self.constant(node.key)  # type: ignore[union-attr]
        if scope == "" and node.key not in _VISIBLE and not ENV.strict:  # type: ignore[union-attr]
            # Where it is not in the ad itself, it is mostly a plain value of the other one. (In a nested ad, which has
            # more scopes to ask first, `t` is empty.)
            theirs = self.local()
            self.put(level, f"{theirs} = t[{key}] if {name} is MISSING else MISSING")
            self.put(level, f"if type({theirs}) in PLAIN: {name} = {theirs}")
            self.put(level, "else:")
            level += 1
        self.put(level, "if x is None: x = begin(m, t, b)")
        if scope == "target":
            where = self.constant(node.base.key)  # type: ignore[union-attr]
            self.put(level, f"{name} = x.theirs({where}, {key})")
        else:
            slow = "ref" if scope == "" else "my"
            self.put(level, f"{name} = x.value({key}, {name}) if {name}.__class__ is Expr else x.{slow}({key})")

    def _binary(self, node: Binary, level: int) -> tuple[str, str]:
        op = node.op
        if op in ("&&", "||"):
            return self._logic(node, level), _LOGICAL
        if op == "?:":
            return self._default(node, level), _ANY
        if op == "[]":
            return self._evaluate(node, level), _ANY
        if op in _ORDER:
            return self._comparison(node, level), _ANY
        first, tail = spine(node)
        start = _last_stretch(tail)
        if start:
            first = _rebuilt(first, tail[:start])
        left, _ = self.value(first, level)
        for op, right in tail[start:]:
            operand, _ = self.value(right, level)
            name = self.local()
            self._arithmetic(op, name, left, operand, level)
            left = name
        return left, _ANY

    def _arithmetic(self, op: str, name: str, left: str, right: str, level: int) -> None:
        call = f"{_OPERATOR_NAMES[op]}({left}, {right})"
        if op in ("+", "-", "*"):
            self.put(level, f"if type({left}) is float and type({right}) is float:")
            self.put(level + 1, f"{name} = {left} {op} {right}")
            self.put(level + 1, f"if not -1e308 < {name} < 1e308: {name} = {call}")
            self.put(level, f"else: {name} = {call}")
        else:
            self.put(level, f"{name} = {call}")

    def _comparison(self, node: Binary, level: int) -> str:
        """`a < b` and the like; with a literal on one side the usual type is tested inline."""
        left, right, op = _bare(node.left), _bare(node.right), node.op
        if type(left) is Lit and type(right) is not Lit:
            left, right, op = right, left, _MIRROR[op]
        name = self.local()
        call = _OPERATOR_NAMES[op]
        if type(right) is Lit and type(right.value) in (int, float, str, bool):
            operand = self._operand(left, level)
            constant = self.constant(right.value)
            self._test_literal(op, name, operand, right.value, constant, level)
            self.put(level, "else:")
            if _simple(left):
                self._plain_or_resolve(left, operand, level + 1)
            self.put(level + 1, f"{name} = {call}({operand}, {constant})")
            return name
        a, b = self._operand(left, level), self._operand(right, level)
        self.put(level, f"if type({a}) is int and type({b}) is int: {name} = {a} {op} {b}")
        self.put(level, "else:")
        for side, operand in ((left, a), (right, b)):
            if _simple(side):
                self._plain_or_resolve(side, operand, level + 1)
        self.put(level + 1, f"{name} = {call}({a}, {b})")
        return name

    def _operand(self, node: Node, level: int) -> str:
        """An operand whose plain value, if it is a reference, is still to be tested for."""
        if not _simple(node):
            return self.value(node, level)[0]
        name = self.local()
        self.put(level, f"{name} = {self._subscription(node)}")
        return name

    def _plain_or_resolve(self, node: Node, name: str, level: int) -> None:
        self.put(level, f"if type({name}) not in PLAIN:")
        self._resolve(node, name, level + 1)

    def _test_literal(self, op: str, name: str, operand: str, value: Any, constant: str, level: int) -> None:
        """The line that decides the comparison when the operand is of the literal's own type."""
        if type(value) is str and op in ("==", "!="):
            if value.isascii():
                folded = self.constant(fold(value))
                same = f"{operand} == {constant} or (len({operand}) == {len(value)} and {operand}.isascii()"
                same += f" and {operand}.lower() == {folded})"
                negate = "" if op == "==" else "not "
                self.put(level, f"if type({operand}) is str: {name} = {negate}({same})")
                return
        elif type(value) in (int, float):
            other = " or type({0}) is float" if type(value) is float or abs(value) < 2**53 else ""
            kinds = f"type({operand}) is {type(value).__name__}"
            if type(value) is int and other:
                kinds += other.format(operand)
            self.put(level, f"if {kinds}: {name} = {operand} {op} {constant}")
            return
        self.put(level, f"if False: {name} = E")

    def _logic(self, node: Binary, level: int) -> str:
        """A chain of one of `&&` and `||`: leaves at the first part that decides."""
        op = node.op
        parts = [node.right]
        left: Node = node.left
        while type(left) is Binary and left.op == op:
            parts.append(left.right)
            left = left.left
        parts.append(left)
        parts.reverse()
        go_on = "True" if op == "&&" else "False"
        name, doubt = self.local(), self.local()
        self.put(level, f"{doubt} = False")
        self.put(level, "while True:")
        inner = level + 1
        for i, part in enumerate(parts):
            found, known = self.value(part, inner)
            if known is not _LOGICAL and not found.startswith("v"):
                part_value = self.local()
                self.put(inner, f"{part_value} = truth({found})")
                found = part_value
            elif known is not _LOGICAL:
                # A comparison gives one of the two most of the time; only the rest has to be looked at.
                self.put(inner, f"if {found} is not True and {found} is not False: {found} = truth({found})")
            last = i == len(parts) - 1
            self.put(inner, f"if {found} is not {go_on}:")
            self.put(inner + 1, f"if {found} is not U:")
            self.put(inner + 2, f"{name} = {found}")
            self.put(inner + 2, "break")
            self.put(inner + 1, f"{doubt} = True")
            if last:
                self.put(inner, f"{name} = U if {doubt} else {go_on}")
                self.put(inner, "break")
        return name

    def _default(self, node: Binary, level: int) -> str:
        name = self.local()
        left, _ = self.value(node.left, level)
        self.put(level, f"{name} = {left}")
        self.put(level, f"if {name} is U:")
        right, _ = self.value(node.right, level + 1)
        self.put(level + 1, f"{name} = {right}")
        return name

    def _ternary(self, node: Ternary, level: int) -> str:
        name = self.local()
        test, known = self.value(node.test, level)
        self.put(level, f"{name} = {test}" if known is _LOGICAL else f"{name} = truth({test})")
        for value, branch in (("True", node.yes), ("False", node.no)):
            self.put(level, f"{'if' if value == 'True' else 'elif'} {name} is {value}:")
            found, _ = self.value(branch, level + 1)
            self.put(level + 1, f"{name} = {found}")
        return name

    def _unary(self, node: Unary, level: int) -> tuple[str, str]:
        operand, known = self.value(node.operand, level)
        name = self.local()
        if node.op == "!" and known is _LOGICAL:
            self.put(level, f"{name} = {operand} is False if {operand} is True or {operand} is False else {operand}")
        else:
            self.put(level, f"{name} = {_UNARY_NAMES[node.op]}({operand})")
        return name, _LOGICAL if node.op == "!" else _ANY

    def _call(self, node: Call, level: int) -> str:
        builtin = builtin_named(node.key)
        if builtin is None:  # nobody has such a function yet
            return self._evaluate(node, level)
        from pool.classad.eval.functions import UNCOUNTED

        if builtin.lazy is not None or not builtin.least <= len(node.args) <= builtin.most:
            return self._evaluate(node, level)
        if len(node.args) > 50:
            raise _TooComplex
        operands = [self.value(arg, level)[0] for arg in node.args]
        for operand, arg in zip(operands, node.args, strict=True):
            if type(arg) is not Lit:
                self.put(level, f"if type({operand}) is str and len({operand}) > {UNCOUNTED}:")
                self.put(level + 1, _METER)
                self.put(level + 1, f"b.spend(len({operand}) // {builtin.cost})")
        if builtin.framed:
            self.put(level, "if x is None: x = begin(m, t, b)")
            operands.insert(0, "x")
        elif builtin.metered:
            self.put(level, _METER)
            operands.insert(0, "b")
        name = self.local()
        self.put(level, f"{name} = {self.constant(builtin.plain)}({', '.join(operands)})")
        return name


def _bare(node: Node) -> Node:
    """Without parentheses."""
    while type(node) is Paren:
        node = node.inner
    return node


def _scope(node: Node) -> str | None:
    """For a reference that the tables may answer: "" (unscoped), "my" or "target"; else None."""
    if type(node) is Ref:
        return ""
    if type(node) is Select and type(node.base) is Ref:
        return {"my": "my", "target": "target", "other": "target"}.get(node.base.key)
    return None


def _simple(node: Node) -> bool:
    return _scope(node) is not None and not (type(node) is Ref and node.key == "currenttime")


def _last_stretch(tail: list[tuple[str, Node]]) -> int:
    """Where the operators begin that are all plain (neither lazy nor comparisons), at the end of a chain."""
    start = len(tail)
    while start and tail[start - 1][0] in _OPERATOR_NAMES and tail[start - 1][0] not in _ORDER:
        start -= 1
    return start


def _rebuilt(first: Node, tail: list[tuple[str, Node]]) -> Node:
    """The chain again as a node."""
    for op, right in tail:
        first = Binary(op, first, right)
    return first
