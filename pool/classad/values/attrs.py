"""The table inside an ad: lower-case name -> stored value, with a parent table behind it.

A missing name gives MISSING, not an exception, and is looked for in the parent; so the fast path of an evaluation is
one subscription, whatever the ad. A stored value is a scalar, a list, an ad or an expression.
"""

from __future__ import annotations

from typing import Any, Final, final

from pool.classad.values.limits import MAX_INTERNED_NAME


@final
class Missing:
    """No such attribute."""

    __slots__ = ()


@final
class Odd:
    """Stands for every value of an `OddAttrs`: nothing the fast path knows, so it asks the scopes."""

    __slots__ = ()


MISSING: Final = Missing()
ODD: Final = Odd()

#: Names that mean a scope; an ad that uses one for an attribute is looked up the slow way.
SCOPE_NAMES: Final = frozenset({"my", "self", "target", "other", "parent", "root", "toplevel", "currenttime"})

#: How a name is usually spelt. An ad only remembers spellings that differ; bounded, so that no input can fill memory.
_SPELLINGS: Final[dict[str, str]] = {}
_MAX_SPELLINGS: Final = 50_000

#: The keys of names that are spelt as usual: such a name needs neither to be folded nor to be remembered.
USUAL: Final[dict[str, str]] = {}


def _is_kept(name: str) -> bool:
    """Whether there is room to remember how this name is usually spelt."""
    return len(_SPELLINGS) < _MAX_SPELLINGS and len(name) <= MAX_INTERNED_NAME


def _keep(key: str, name: str) -> str:
    _SPELLINGS[key] = name
    if key not in SCOPE_NAMES:
        USUAL[name] = key
    return name


def is_usual(key: str, name: str) -> bool:
    """Whether an ad need not remember that `key` is written `name`."""
    usual = _SPELLINGS.get(key)
    if usual is None and _is_kept(name) and key not in SCOPE_NAMES:
        usual = _keep(key, name)
    return usual == name and key not in SCOPE_NAMES


class Attrs(dict[str, Any]):
    """An ad's own attributes."""

    __slots__ = ("names", "parent")

    parent: Attrs | None
    names: dict[str, str] | None
    #: Whether the fast path may trust subscription.
    plain = True

    def __init__(self, parent: Attrs | None = None) -> None:
        self.parent = parent
        self.names = None

    def __missing__(self, key: str) -> Any:
        parent = self.parent
        return MISSING if parent is None else parent[key]

    @property
    def is_usual(self) -> bool:
        """Whether all that is known of the ad is here, each name spelt as usual."""
        return self.parent is None and self.names is None and self.plain

    def lookup(self, key: str) -> Any:
        """The stored value, MISSING when there is none here or behind."""
        table = self
        while (found := dict.get(table, key, MISSING)) is MISSING:
            if table.parent is None:
                return table.elsewhere(key)
            table = table.parent
        return found

    def elsewhere(self, key: str) -> Any:
        """The stored value of a name that is neither here nor in a parent: MISSING, unless the table is a view."""
        return MISSING

    def twin(self) -> Attrs:
        """A table with the same in it, which may be changed."""
        attrs = self.__class__(self.parent)
        attrs.update(self)
        attrs.names = None if self.names is None else dict(self.names)
        return attrs

    def spell(self, key: str, name: str) -> None:
        """Remember that `key` is written `name`."""
        usual = _SPELLINGS.get(key)
        if usual == name and self.names is None and key not in SCOPE_NAMES:
            return
        if usual is None and _is_kept(name):
            usual = _keep(key, name)
        if usual != name:
            if self.names is None:
                self.names = {}
            self.names[key] = name
        elif self.names is not None:
            self.names.pop(key, None)
        if key in SCOPE_NAMES and self.plain:
            self.__class__ = OddAttrs

    def name(self, key: str) -> str:
        """How `key`, which is here, is written."""
        names = self.names
        if names is not None and key in names:
            return names[key]
        return _SPELLINGS.get(key, key)

    def spelled(self) -> dict[str, Any]:
        """What is here by names as they are written."""
        usual = _SPELLINGS.get
        if self.names is None:
            return {usual(key, key): stored for key, stored in dict.items(self)}
        return {self.name(key): stored for key, stored in dict.items(self)}

    def spelt(self) -> list[str]:
        """How the keys that are here are written."""
        usual, names = _SPELLINGS, self.names
        if names is None:
            return list(map(usual.get, self, self))
        return [names[key] if key in names else usual.get(key, key) for key in self]

    def keys_all(self) -> list[str]:
        """Keys of the parent's tables, then of this one, each once."""
        if self.parent is None:
            return list(dict.keys(self))
        seen = dict.fromkeys(self.parent.keys_all())
        seen.update(dict.fromkeys(dict.keys(self)))
        return list(seen)

    def name_any(self, key: str) -> str:
        """How `key` is written, here or in the parent."""
        table: Attrs | None = self
        while table is not None:
            if key in table:
                return table.name(key)
            table = table.parent
        return key


class OddAttrs(Attrs):
    """Attributes of which one has the name of a scope, such as TARGET."""

    __slots__ = ()

    plain = False

    def __getitem__(self, key: str) -> Any:
        return ODD


#: No attributes at all: the other ad where there is none.
NOTHING: Final = Attrs()
