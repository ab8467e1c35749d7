"""Ads and lists in their places, and what names mean there.

An ad that is being evaluated is a `Frame`: its attributes, the frame around it, the other ad of the match, and what was
computed already. Within one evaluation an attribute is computed once; one that is still being computed (a circular
reference) is undefined, and what was computed from such a cut is not remembered, because elsewhere it may differ.

A name is looked for from the innermost ad outwards, then in the other ad of the match (HTCondor's manual page
classad-mechanism). MY, TARGET, PARENT and the like are names that every ad has, unless it says otherwise; what
surrounds the two ads of a match is in `surroundings`. Where the manual is silent, rules are what HTCondor 25.14 does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

from pool.classad.eval.above import ABOVE
from pool.classad.eval.budget import NEVER, Budget
from pool.classad.syntax.nodes import AdNode, ListNode, Node
from pool.classad.values.attrs import MISSING, NOTHING, Attrs
from pool.classad.values.environment import ENV
from pool.classad.values.limits import MAX_DEPTH
from pool.classad.values.value import ERROR, PLAIN, UNDEFINED, RelTime, wrap32

NODES: Final = frozenset(get_args(Node))
#: Nodes whose value depends on where they stand, as opposed to lists and ads, which know their place.
_REFERRING: Final = NODES - {ListNode, AdNode}


class Busy:
    """Remembered for an attribute while it is being computed."""

    __slots__ = ("depth",)

    def __init__(self, depth: int) -> None:
        self.depth = depth


_BUSY: Final = tuple(Busy(depth) for depth in range(MAX_DEPTH + 1))


class Frame:
    """An ad in its place: what `attrs` means here."""

    __slots__ = ("_leads", "_match", "_other", "attrs", "budget", "closed", "memo", "opposite", "outer", "target")

    def __init__(self, attrs: Attrs, outer: Frame | None, budget: Budget, opposite: Attrs | None = None) -> None:
        self.attrs = attrs
        self.outer = outer
        self.budget = budget
        #: The table of the other ad of a match; only the two outermost frames have it, and some contexts.
        self.opposite = opposite
        #: The table for TARGET that compiled code may subscribe directly.
        self.target = NOTHING if opposite is None or not attrs.plain else opposite
        self.memo: dict[str, Any] | None = None
        self._other: Frame | None = None
        self._match: MatchContext | None = None
        #: Whether an index has named this ad: as in HTCondor, `MY["n"].x` is undefined, and `MY["n"]["x"]` is not.
        self.closed = False
        #: Whether this is the left ad of its match, the one that was asked.
        self._leads = True

    def as_closed(self) -> Frame:
        """The same ad, named by an index."""
        if self.memo is None:
            self.memo = {}
        frame = Frame(self.attrs, self.outer, self.budget, self.opposite)
        frame.memo, frame.closed = self.memo, True
        return frame

    @property
    def other(self) -> Frame | None:
        """The other ad of the match: where unscoped names go that are not found from here outwards."""
        if self._other is None and self.opposite is not None:
            self._other = other = Frame(self.opposite, None, self.budget, self.attrs)
            other._other = self
            other._leads = False
        return self._other

    @property
    def match(self) -> MatchContext | None:
        """What surrounds both ads of a match."""
        other = self.other
        if other is None or self.outer is not None:
            return None
        # Shared by both ads, and made by whichever asks first.
        if self._match is None:
            self._match = other._match = MatchContext(self, other) if self._leads else MatchContext(other, self)
        return self._match

    def beside(self, other: Frame | None) -> None:
        """Take `other` for the place where unscoped names go in the end."""
        self._other = other

    def find(self, key: str) -> tuple[Frame, Any]:
        """Where `key` is, from here outwards, and what is stored there (MISSING: nothing)."""
        frame = self
        while True:
            stored = frame.attrs.lookup(key)
            if stored is not MISSING:
                return frame, stored
            # Only here: in an ad further out MY would mean that ad, and it means the one that asks.
            if frame is self and key in _SPECIAL:
                return frame, _SPECIAL[key](frame)
            if frame.outer is None:
                break
            frame = frame.outer
        if frame.opposite is not None and key in SURROUNDINGS:
            match = frame.match
            assert match is not None
            return match.find(frame, key)
        return frame, MISSING

    def ref(self, key: str) -> Any:
        """The value of an unscoped name."""
        frame, stored = self.find(key)
        if stored is MISSING:
            other = self.other
            # STRICT_CLASSAD_EVALUATION keeps unscoped names in their own ad (HTCondor's manual).
            if other is None or ENV.strict:
                return UNDEFINED
            frame, stored = other.find(key)
            if stored is MISSING:
                return UNDEFINED
        return stored if type(stored) in PLAIN else frame.value(key, stored)

    def own(self, key: str) -> Any:
        """The value of `.key` in an ad: here or further out, but not in the other ad."""
        frame, stored = self.find(key)
        if stored is MISSING:
            return UNDEFINED
        return stored if type(stored) in PLAIN else frame.value(key, stored)

    def my(self, key: str) -> Any:
        """The value of `MY.key`, where MY may be an attribute."""
        scope = self.ref("my")
        return scope.own(key) if scope.__class__ is Frame else select(scope, key, self)

    def theirs(self, name: str, key: str) -> Any:
        """The value of `TARGET.key`; `name` is target or other."""
        scope = self.ref(name)
        return scope.own(key) if scope.__class__ is Frame else select(scope, key, self)

    def value(self, key: str, stored: Any) -> Any:
        """The value of attribute `key` of this ad, given what is stored for it."""
        memo = self.memo
        if memo is None:
            memo = self.memo = {}
        known = memo.get(key)
        budget = self.budget
        if known is not None:
            if known.__class__ is not Busy:
                return known
            # How far out the circle reaches: all that was computed inside it holds only for where it was entered.
            if known.depth < budget.cut:
                budget.cut = known.depth
            return UNDEFINED
        compiled: Any = getattr(stored, "compiled", MISSING)
        if compiled is MISSING:
            found = memo[key] = member(stored, self)
            return found
        budget.steps -= stored.weight
        if budget.steps < 0:
            budget.look()
        depth = budget.depth + 1
        if depth > MAX_DEPTH:
            raise budget.too_deep()
        budget.depth = depth
        # Made beforehand, one for each depth: an evaluation enters thousands of attributes.
        memo[key] = _BUSY[depth]
        before, budget.cut = budget.cut, NEVER
        if compiled is None or budget.counted:
            found = stored.run(self)
        else:
            found = compiled(self.attrs, self.target, self)
        budget.depth = depth - 1
        if budget.cut >= depth:
            memo[key] = found
            budget.cut = before
        else:
            # The value holds for this way in alone; from elsewhere the circle may be cut at another place.
            del memo[key]
            if before < budget.cut:
                budget.cut = before
        return found

    def top(self) -> Frame:
        """The outermost frame of the ad that this is in."""
        frame = self
        while frame.outer is not None:
            frame = frame.outer
        return frame


class MatchContext:
    """What surrounds the two ads of a match: HTCondor nests each in a context, and both contexts in a match ad, whose
    names can be seen from inside. Built only when something asks for more than TARGET.
    """

    __slots__ = ("_root", "left", "right")

    def __init__(self, left: Frame, right: Frame) -> None:
        self.left = left
        self.right = right
        self._root: Frame | None = None

    def find(self, frame: Frame, key: str) -> tuple[Frame, Any]:
        """Where `key` is, seen from one of the two ads outwards."""
        if key == "target" or key == "other":
            return frame, frame.other
        if key == "ad":
            return frame, frame
        if key == "left":
            return frame, self.left
        if key == "right":
            return frame, self.right
        return self.root.find(key)

    def context(self, frame: Frame) -> Frame:
        """The context of one of the two ads."""
        found = self.root.attrs.lookup("lctx" if frame is self.left else "rctx")
        assert type(found) is Frame
        return found

    @property
    def root(self) -> Frame:
        """The match ad."""
        if self._root is None:
            self._root = ABOVE.surround(self.left, self.right)
        return self._root


def outermost(frame: Frame) -> Frame:
    """What `.name` is looked up in: the outermost ad, in a match the match ad."""
    top = frame.top()
    return top if (match := top.match) is None else match.root


def _parent(frame: Frame) -> Any:
    if frame.outer is not None:
        return frame.outer
    return MISSING if (match := frame.match) is None else match.context(frame)


def _current_time(_frame: Frame) -> Any:
    return MISSING if ENV.strict else int(ENV.clock())


_SPECIAL: Final[dict[str, Callable[[Frame], Any]]] = {
    "my": lambda frame: frame,
    "self": lambda frame: frame,
    "parent": _parent,
    "root": outermost,
    "toplevel": outermost,
    "currenttime": _current_time,
}


#: Names that can be seen in a match and belong to neither ad.
SURROUNDINGS: Final = frozenset(
    {
        "target",
        "other",
        "ad",
        "left",
        "right",
        "lctx",
        "rctx",
        "symmetricmatch",
        "leftmatchesright",
        "rightmatchesleft",
        "leftrankvalue",
        "rightrankvalue",
    }
)


class BoundList:
    """A list in its place: members are evaluated, in `frame`, when they are looked at."""

    __slots__ = ("_seen", "frame", "fresh", "items")

    def __init__(self, items: Any, frame: Frame, *, fresh: bool = False) -> None:
        self.items = items
        #: Made by a function; `=?=` takes such lists for another type than those that were written.
        self.fresh = fresh
        self.frame = frame
        self._seen: dict[int, Any] = {}

    def at(self, index: int) -> Any:
        """The value of a member."""
        stored = self.items[index]
        if type(stored) in PLAIN:
            return stored
        seen = self._seen
        known = seen.get(index, MISSING)
        if known is MISSING:
            known = member(stored, self.frame)
            # Only these are kept: they remember what was computed in them. A scalar costs less to compute than to keep.
            if known.__class__ is Frame or known.__class__ is BoundList:
                seen[index] = known
        return known

    def __iter__(self) -> Iterator[Any]:
        for index in range(len(self.items)):
            yield self.at(index)

    def __len__(self) -> int:
        return len(self.items)


def member(stored: Any, frame: Frame) -> Any:
    """The value of something stored in a list (or for an attribute, when it is no expression)."""
    kind = type(stored)
    if kind in PLAIN:
        return stored
    budget = frame.budget
    budget.spend(1)
    if kind is RelTime:
        return float(stored.secs)
    if kind is Frame or kind is BoundList:
        return stored
    run = getattr(stored, "run", None)
    if run is not None or kind in NODES:
        if budget.depth >= MAX_DEPTH:
            raise budget.too_deep()
        budget.depth += 1
        if run is None:
            found = ABOVE.evaluate(stored, frame)
        else:
            budget.spend(stored.weight)
            found = run(frame)
        budget.depth -= 1
        return found
    attrs = getattr(stored, "attrs", None)
    if attrs is not None:
        return Frame(attrs, frame, budget)
    return BoundList(stored, frame)


def members(bound: BoundList, frame: Frame) -> Iterator[Any]:
    """The values of a list's members as functions see them: names in them mean what they mean in `frame`, where the
    function was called, and not where the list stands (only a subscript looks there).
    """
    frame.budget.spend(len(bound.items))
    for stored in bound.items:
        kind = type(stored)
        if kind in PLAIN:
            yield stored
        else:
            # Lists and ads know their place already, and keep it.
            refers = kind in _REFERRING or getattr(stored, "run", None) is not None
            yield member(stored, frame if refers else bound.frame)


def select(base: Any, key: str, frame: Frame) -> Any:
    """The value of `base.key`, where `base` was computed already."""
    kind = base.__class__
    if kind is Frame:
        # As HTCondor 25.14 does; see `closed`.
        return UNDEFINED if base.closed else base.own(key)
    if base is UNDEFINED:
        return UNDEFINED
    if kind is BoundList:
        budget = frame.budget
        if budget.depth >= MAX_DEPTH:
            raise budget.too_deep()
        budget.depth += 1
        items = []
        for value in members(base, frame):
            items.append(select(value, key, frame))
        budget.depth -= 1
        return BoundList(items, frame)
    return ERROR


def subscript(base: Any, index: Any) -> Any:
    """The value of `base[index]`."""
    if base is ERROR or index is ERROR:
        return ERROR
    if base is UNDEFINED or index is UNDEFINED:
        return UNDEFINED
    if base.__class__ is BoundList and type(index) is int:
        # HTCondor holds the index in an int of 32 bits.
        index = wrap32(index)
        return base.at(index) if 0 <= index < len(base) else ERROR
    if base.__class__ is Frame and type(index) is str:
        key = index.lower()
        stored = base.attrs.lookup(key)
        value = UNDEFINED if stored is MISSING else base.value(key, stored)
        return value.as_closed() if value.__class__ is Frame else value
    return ERROR


def frames(my: Attrs, target: Attrs | None, budget: Budget | None = None) -> Frame:
    """The frame of `my`, in a match with `target` when there is one."""
    return Frame(my, None, Budget() if budget is None else budget, target)
