"""An expression as a value: `expr("TARGET.Memory > 1024")`. Immutable, parsed once per text, compiled when it is used
often, and built from others with Python's operators (`building`).

An expression that is used more than `HOT` times becomes Python code; both ways agree, and `evaluate` is the reference
where HTCondor's manual page classad-mechanism leaves a question. What is evaluated costs steps (`budget`): compiled
code costs by its length, and leaves to the reference, which counts each step, what that says too little of. Below are
the ways between the values that Python sees, what an ad stores, nodes, and what evaluation hands around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pool.base.errors import ClassAdError
from pool.classad.eval.above import ABOVE
from pool.classad.eval.budget import Budget, OverBudget, Uncounted, bounded, overrun
from pool.classad.eval.building import Operators
from pool.classad.eval.evaluate import evaluate
from pool.classad.eval.frame import BoundList, Frame, frames
from pool.classad.syntax.nodes import (
    AdNode,
    ListNode,
    Lit,
    Node,
    Ref,
    Select,
    children,
)
from pool.classad.syntax.unparse import unparse
from pool.classad.values.attrs import NOTHING, Attrs
from pool.classad.values.environment import ENV
from pool.classad.values.kept import Kept
from pool.classad.values.value import (
    ERROR,
    INT_MAX,
    INT_MIN,
    PLAIN,
    UNDEFINED,
    AbsTime,
    Error,
    Member,
    RelTime,
    Undefined,
    Value,
    int_of,
)

if TYPE_CHECKING:
    from pool.classad.eval.ad import ClassAd

#: A compiled expression: the ad's table, the other ad's, and the frame if there is one already.
Compiled = Callable[[Attrs, Attrs, "Frame | None"], Any]

#: Evaluations after which an expression is worth compiling.
HOT: Final = 8
_INTERNED: Final[Kept[tuple[str, bool, bool], Expr]] = Kept(64 << 20)
#: What an interned expression costs at most, in bytes: its nodes, its compiled form and its texts.
_BYTES_EACH: Final = 1_000
_BYTES_PER_CHARACTER: Final = 150

T = TypeVar("T")


class Expr(Operators):
    """A parsed expression. Equality is that of the text; build comparisons with `eq`, `ne`, `is_` and `isnt`."""

    __slots__ = ("_old", "_text", "_uses", "compiled", "node", "weight")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._text: str | None = None
        self._old: str | None = None
        self.compiled: Compiled | None = None
        self._uses = 0
        #: Steps that one evaluation costs; what is not compiled counts its own besides.
        self.weight = 1

    @property
    def text(self) -> str:
        """The expression in the new form."""
        if self._text is None:
            self._text = unparse(self.node)
        return self._text

    @property
    def old_text(self) -> str:
        """The expression as the long form writes it."""
        if self._old is None:
            self._old = unparse(self.node, old=True)
        return self._old

    def eval(self, my: ClassAd | None = None, target: ClassAd | None = None) -> Value:
        """The value with `my` as the local ad and `target` as the other one of a match; list members are evaluated."""
        compiled = self.compiled
        m = NOTHING if my is None else my.attrs
        try:
            if compiled is None or not m.plain:
                return public(self.run(frames(m, None if target is None else target.attrs)))
            value = compiled(m, NOTHING if target is None else target.attrs, None)
            return cast("Value", value) if type(value) in PLAIN else public(value)
        except (OverBudget, Uncounted, RecursionError) as why:
            return self._stopped(why, public, m, target)

    def eval_lazy(self, my: ClassAd | None = None, target: ClassAd | None = None) -> Value:
        """Like `eval`, but members of lists and ads stay the expressions they are, as HTCondor prints them."""
        m = NOTHING if my is None else my.attrs
        return self._bounded(stored_value, m, target)

    def value(self, m: Attrs, t: Attrs | None) -> Any:
        """The value in evaluation's own terms, for callers inside this package."""
        compiled = self.compiled
        try:
            if compiled is None or not m.plain:
                return self.run(frames(m, t))
            return compiled(m, NOTHING if t is None else t, None)
        except (OverBudget, Uncounted, RecursionError) as why:
            return _stopped(why, lambda budget: self.run(frames(m, t, budget)))

    def _bounded(self, form: Callable[[Any], Value], m: Attrs, target: ClassAd | None) -> Value:
        t = None if target is None else target.attrs
        return bounded(lambda budget: form(self.run(frames(m, t, budget))))

    def _stopped(self, why: Exception, form: Callable[[Any], Value], m: Attrs, target: ClassAd | None) -> Value:
        t = None if target is None else target.attrs
        return _stopped(why, lambda budget: form(self.run(frames(m, t, budget))))

    def run(self, frame: Frame) -> Any:
        """The value in `frame`."""
        compiled = self.compiled
        if compiled is not None and not frame.budget.counted:
            return compiled(frame.attrs, frame.target, frame)
        self._uses += 1
        if self._uses > HOT:
            self.compile()
        return evaluate(self.node, frame)

    def compile(self) -> Expr:
        """Compile now rather than after a few uses."""
        if self.compiled is None:
            from pool.classad.eval.compile import compile_node  # only long-lived programs need it

            self.compiled = compile_node(self.node, Expr)
            self.weight = 1 + _nodes(self.node) // _NODES_PER_STEP
        return self

    def references(self, my: ClassAd | None = None) -> tuple[set[str], set[str]]:
        """Names (as spelt) that the expression reads from `my`, through its attributes too, and from the other ad."""
        from pool.classad.eval.references import references

        return references(self.node, NOTHING if my is None else my.attrs)

    def flatten(self, my: ClassAd | None = None) -> Member:
        """Partial evaluation: what `my` decides is computed; the rest stays an expression."""
        from pool.classad.eval.flatten import flatten

        return store(flatten(self.node, NOTHING if my is None else my.attrs))

    @staticmethod
    def operand(value: object) -> Node:
        """The node of whatever an operator is given."""
        return node_of(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and (self.node is other.node or self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __bool__(self) -> bool:
        raise TypeError("an expression is neither true nor false: evaluate it, or combine with and_, or_ and not_")

    __iter__ = None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"expr({self.text!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return expr, (self.text,)


#: Nodes of compiled code that run in the time of a step.
_NODES_PER_STEP: Final = 4


def _nodes(node: Node) -> int:
    todo, count = [node], 0
    while todo:
        parts = children(todo.pop())
        count += 1 + len(parts)
        todo.extend(parts)
    return count


def _stopped(why: Exception, work: Callable[[Budget], T]) -> T | Error:
    """What becomes of an evaluation that was stopped: an error, or another one that counts."""
    if isinstance(why, Uncounted):
        return bounded(work, counted=True)
    if isinstance(why, OverBudget):
        overrun(why)
    return ERROR


class _Reader:
    """How many characters of expressions have been parsed in this process, for who bounds what one message brings."""

    characters = 0


READER: Final = _Reader()


def expr(text: str, *, old: bool = False) -> Expr:
    """Parse an expression, once per text; ClassAdError with line and column when it is none.

    `old` reads strings as the long form writes them, where a backslash stands for itself.
    """
    key = (text, old, ENV.strict)
    young = _INTERNED.young.get(key)
    if young is not None:
        return young[0]
    known = _INTERNED.find(key)
    if known is not None:
        return known
    from pool.classad.syntax.parse import parse_expression  # a tool may meet no expression at all

    READER.characters += len(text)
    try:
        found = Expr(parse_expression(text, old=old, strict=ENV.strict))
    # The parser counts levels, but starts from whatever stack its caller has used already.
    except RecursionError:
        raise ClassAdError("expression: nested too deeply") from None
    _INTERNED.put(key, found, _BYTES_EACH + _BYTES_PER_CHARACTER * len(text))
    return found


def attr(name: str, *, scope: str | None = None) -> Expr:
    """A reference to an attribute: `attr("Memory", scope="TARGET")`."""
    if scope is None:
        return Expr(Ref(name, name.lower()))
    return Expr(Select(Ref(scope, scope.lower()), name, name.lower()))


def node_of(value: object) -> Node:
    """The node for a Python value: literals for plain values, lists and ads by member."""
    if isinstance(value, Expr):
        return value.node
    if isinstance(value, (Frame, BoundList)):
        value = stored_value(value)
    clean = storable(value)
    if isinstance(clean, Expr):
        return clean.node
    if isinstance(clean, list):
        return ListNode(tuple(node_of(item) for item in clean))
    attrs = getattr(clean, "attrs", None)
    if attrs is not None:
        return AdNode(tuple((attrs.name_any(key), node_of(attrs.lookup(key))) for key in attrs.keys_all()))
    return Lit(clean)  # type: ignore[arg-type]


def store(node: Node) -> Member:
    """What an ad stores for a node: the value of a literal, a list, an ad, else an expression."""
    kind = type(node)
    if kind is Lit:
        return node.value  # type: ignore[union-attr]
    if kind is ListNode:
        return [store(item) for item in node.items]  # type: ignore[union-attr, arg-type]
    if kind is AdNode:
        return ABOVE.ad_class(attrs=attrs_of(node))  # type: ignore[arg-type]
    return Expr(node)


def attrs_of(node: AdNode) -> Attrs:
    """The table of an ad node; the last of two attributes with one name counts, in the first one's spelling."""
    attrs = Attrs()
    for name, inner in node.items:
        key = name.lower()
        if key not in attrs:
            attrs.spell(key, name)
        attrs[key] = store(inner)
    return attrs


ABOVE.attrs_of = attrs_of


def storable(value: object) -> Member:
    """`value` as an ad stores it; TypeError for what ads cannot hold."""
    kind = type(value)
    if kind in PLAIN or kind is RelTime:
        if kind is int and not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
            raise ClassAdError(f"{value} does not fit into 64 bits")
        return value  # type: ignore[return-value]
    if isinstance(value, Expr):
        return store(value.node) if type(value.node) in (Lit, ListNode, AdNode) else value
    if value is None:
        return UNDEFINED
    if isinstance(value, ABOVE.ad_class):
        return value
    if isinstance(value, Mapping):
        return ABOVE.ad_class(value)
    if isinstance(value, (list, tuple)):
        return [storable(item) for item in value]
    # Subclasses (enumerations of strings, numpy's bool and such) as the plain type they extend.
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return storable(plain(value))
    if isinstance(value, (AbsTime, RelTime, Undefined, Error)):
        return value
    raise TypeError(f"an ad cannot hold a {kind.__name__}: {value!r}")


def stored_value(value: Any) -> Value:
    """A value of evaluation as Python sees it; members that are expressions stay expressions."""
    kind = value.__class__
    if kind is RelTime:
        # Evaluation hands out whole seconds, as HTCondor does.
        return RelTime(float(int_of(value.secs)))
    if kind is Frame:
        return ABOVE.ad_class(attrs=value.attrs)
    if kind is BoundList:
        value.frame.budget.spend(len(value.items))
        return [stored_item(item) for item in value.items]
    return cast("Value", value)


def stored_item(item: Any) -> Member:
    """A member of a list in evaluation as Python sees it."""
    kind = type(item)
    if kind in PLAIN or kind is Expr or kind is RelTime or kind is list:
        return cast("Member", item)
    if kind is Frame or kind is BoundList:
        return stored_value(item)
    if isinstance(item, ABOVE.ad_class):
        return item
    return store(item)


def public(value: Any, active: tuple[BoundList, ...] = ()) -> Value:
    """A value of evaluation as Python sees it, members of lists evaluated; a list inside itself is undefined."""
    if value.__class__ is BoundList:
        if value in active:
            return UNDEFINED
        value.frame.budget.spend(len(value.items))
        return [public(item, (*active, value)) for item in value]
    return stored_value(value)


def conjoin(parts: Iterable[Expr]) -> Expr:
    """All of `parts` joined by `&&`; true when there are none."""
    whole: Expr | None = None
    for part in parts:
        whole = part if whole is None else whole.and_(part)
    return Expr(Lit(True)) if whole is None else whole
