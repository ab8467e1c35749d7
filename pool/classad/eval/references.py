"""Which attributes an expression reads: from its own ad, through the attributes it names, and from the other ad of a
match. The negotiator groups jobs by what they read, so a name too many is better than one too few.

* A name that the own ad does not have is the other's, unless its scope says that it is the own ad's.
* Inside a nested ad names are looked for outwards; what a nested ad has itself is nobody else's.
* What an expression finds out as it is evaluated, as by eval() of a string, does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pool.classad.eval.budget import Budget
from pool.classad.eval.evaluate import evaluate
from pool.classad.eval.frame import BoundList, Frame, outermost
from pool.classad.syntax.nodes import Call, Node, Ref, RootRef, Select, children
from pool.classad.syntax.unparse import unparse
from pool.classad.values.attrs import MISSING, SCOPE_NAMES, Attrs
from pool.classad.values.value import PLAIN, UNDEFINED

_MY = frozenset({"my", "self"})
_THEIRS = frozenset({"target", "other"})


class Walk:
    """Collects names; each attribute of the own ad is followed once, and one after another, however many there are."""

    def __init__(self, attrs: Attrs, budget: Budget | None = None) -> None:
        self.attrs = attrs
        self._budget = budget
        #: Attributes of the own ad that are still to be followed.
        self._waiting: list[str] = []
        self.internal: dict[str, str] = {}
        self.external: dict[str, str] = {}
        #: What was looked for in the own ad, and is not there.
        self.absent: set[str] = set()
        #: Whether CurrentTime is read.
        self.clock = False
        #: Functions that are called, in lower case.
        self.calls: set[str] = set()

    def whole(self, node: Node) -> None:
        """An expression, and the attributes that it leads to."""
        self.node(node, ())
        self._follow()

    def attributes(self, keys: Iterable[str]) -> None:
        """Attributes of the own ad, by their names in lower case, and those that they lead to."""
        for key in keys:
            self.scoped(key, key, ours=True)
        self._follow()

    def _follow(self) -> None:
        while self._waiting:
            self.stored(self.attrs.lookup(self._waiting.pop()), ())

    def lacks(self, key: str) -> bool:
        """Whether the own ad has no such attribute."""
        if self.attrs.lookup(key) is not MISSING:
            return False
        self.absent.add(key)
        return True

    def name(self, name: str, key: str, scopes: tuple[Attrs, ...]) -> None:
        """An unscoped name inside the nested ads `scopes`."""
        # The innermost first. What a nested ad has itself is neither the own ad's nor another's.
        for scope in reversed(scopes):
            stored = scope.lookup(key)
            if stored is not MISSING:
                return
        if self.lacks(key):
            if key == "currenttime":
                self.clock = True
            # MY, PARENT and the like are no attributes to group jobs by; TARGET alone may mean any, and counts as one.
            elif key in _THEIRS or key not in SCOPE_NAMES:
                self.external.setdefault(key, name)
        else:
            self.own(key)

    def own(self, key: str) -> None:
        """An attribute of the own ad, which is to be followed."""
        if key not in self.internal:
            self.internal[key] = self.attrs.name_any(key)
            self._waiting.append(key)

    def stored(self, stored: Any, scopes: tuple[Attrs, ...]) -> None:
        """What is stored for an attribute, or in a list."""
        if type(stored) in PLAIN:
            return
        if isinstance(stored, list):
            for item in stored:
                self.stored(item, scopes)
            return
        node = getattr(stored, "node", None)
        if node is not None:
            self.node(node, scopes)
            return
        attrs = getattr(stored, "attrs", None)
        if attrs is not None:
            for key in attrs.keys_all():
                self.stored(attrs.lookup(key), (*scopes, attrs))

    def node(self, node: Node, scopes: tuple[Attrs, ...]) -> None:
        """An expression."""
        todo = [node]
        while todo:
            here = todo.pop()
            if self._budget is not None:
                self._budget.spend(1)
            if type(here) is Ref:
                self.name(here.name, here.key, scopes)
            elif type(here) is RootRef:
                self.scoped(here.name, here.key, ours=True)
            elif type(here) is Select:
                base = here.base
                if type(base) is Ref and base.key in _MY | _THEIRS and self.lacks(base.key):
                    # Inside a nested ad MY is that ad, and its names are looked for outwards.
                    if base.key in _MY and scopes:
                        self.name(here.name, here.key, scopes)
                    else:
                        self.scoped(here.name, here.key, ours=base.key in _MY)
                else:
                    todo.append(base)
            else:
                if type(here) is Call:
                    self.calls.add(here.key)
                todo.extend(children(here))

    def scoped(self, name: str, key: str, *, ours: bool) -> None:
        """`MY.name` or `TARGET.name`."""
        if not ours:
            self.external.setdefault(key, name)
        elif not self.lacks(key):
            self.own(key)


def references(node: Node, attrs: Attrs) -> tuple[set[str], set[str]]:
    """Names read from the ad with `attrs` (as it spells them), and names read from elsewhere (as they are written).

    Attributes of the ad are followed: what they read is read, too. Names in a string that eval() is given do not count.
    """
    walk = Walk(attrs)
    walk.whole(node)
    return set(walk.internal.values()), set(walk.external.values())


def reads(node: Node, attrs: Attrs, budget: Budget | None = None) -> tuple[set[str], set[str]]:
    """Names that do not come from the ad with `attrs`, and functions called on the way, both in lower case."""
    walk = Walk(attrs, budget)
    walk.whole(node)
    names = set(walk.external)
    if walk.clock:
        names.add("currenttime")
    return names, walk.calls


def unresolved_names(stored: Any, frame: Frame) -> list[str]:
    """What unresolved() lists: names that do not lead anywhere, without `target.`, in order, each once.

    Nothing at all where an attribute is selected from what is no ad, and where names go in circles, as in HTCondor.
    """
    found: dict[str, str] = {}
    if not _unresolved(stored, frame, found, {}):
        return []
    names = [found[key] for key in sorted(found)]
    # HTCondor leaves this prefix out, and keeps others.
    return [name[7:] if name[:7].lower() == "target." else name for name in names]


def _unresolved(stored: Any, frame: Frame, found: dict[str, str], seen: dict[tuple[int, str], bool]) -> bool:
    if type(stored) in PLAIN:
        return True
    frame.budget.spend(1)
    if isinstance(stored, list):
        return all(_unresolved(item, frame, found, seen) for item in stored)
    attrs = getattr(stored, "attrs", None)
    if attrs is not None and getattr(stored, "node", None) is None:
        return all(_unresolved(attrs.lookup(key), frame, found, seen) for key in attrs.keys_all())
    todo = [getattr(stored, "node", stored)]
    while todo:
        here = todo.pop()
        frame.budget.spend(1)
        if type(here) is Ref:
            done = _follow(here.name, here.key, frame, found, seen)
        elif type(here) is Select:
            done = _follow_into(here, frame, found, seen)
        elif type(here) is RootRef:
            done = _follow(here.name, here.key, outermost(frame), found, seen)
        else:
            todo.extend(children(here))
            continue
        if not done:
            return False
    return True


def _follow_into(node: Select, frame: Frame, found: dict[str, str], seen: dict[tuple[int, str], bool]) -> bool:
    base = evaluate(node.base, frame)
    if base is UNDEFINED:
        text = f"{unparse(node.base)}.{node.name}"
        found.setdefault(text.lower(), text)
        return True
    return type(base) is Frame and _follow(node.name, node.key, base, found, seen)


def _follow(name: str, key: str, frame: Frame, found: dict[str, str], seen: dict[tuple[int, str], bool]) -> bool:
    where, stored = frame.find(key)
    if stored is MISSING:
        found.setdefault(key, name)
        return True
    place = (id(where.attrs), key)
    if place not in seen and type(stored) not in (Frame, BoundList):
        # Until it is known: who comes back here has gone in a circle.
        seen[place] = False
        seen[place] = _unresolved(stored, where, found, seen)
    return seen.get(place, True)
