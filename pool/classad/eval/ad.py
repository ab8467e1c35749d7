"""The ad: a mapping from names, whose letter case does not matter, to values and expressions.

An ad keeps its attributes in the order in which they were set, each in the spelling of the first time (HTCondor's
manual page classads). Values are kept as values, everything else as an expression; what an ad cannot hold is refused
when it is set. An ad may have a parent, as a job's ad has its cluster's: what it does not say itself, the parent says.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

from pool.classad.eval.above import ABOVE
from pool.classad.eval.budget import bounded
from pool.classad.eval.expression import Expr, expr, node_of, public, storable, stored_value
from pool.classad.syntax.unparse import identifier, quote, scalar, unparse
from pool.classad.values.attrs import MISSING, USUAL, Attrs
from pool.classad.values.value import PLAIN, UNDEFINED, Member, RelTime, Value

T = TypeVar("T")


class ClassAd(MutableMapping[str, Member]):
    """A set of named expressions, as `ClassAd({"RequestCpus": 2, "Requirements": expr("TARGET.Memory > 1024")})`.

    Spelling and order of names are kept. With `parent`, what this ad lacks is taken from that one (a proc ad and its
    cluster ad); writing never touches the parent. Lists and ads that were stored must not be changed afterwards.
    """

    __slots__ = ("_chained", "attrs")

    attrs: Attrs

    def __init__(
        self,
        mapping: Mapping[str, object] | Iterable[tuple[str, object]] | None = None,
        /,
        *,
        parent: ClassAd | None = None,
        attrs: Attrs | None = None,
    ) -> None:
        self.attrs = Attrs(None if parent is None else parent.attrs) if attrs is None else attrs
        self._chained = parent
        if mapping is not None:
            self.update(mapping)

    # The mapping.

    def __getitem__(self, name: str) -> Member:
        stored = self.attrs.lookup(name.lower())
        if stored is MISSING:
            raise KeyError(name)
        return stored  # type: ignore[no-any-return]

    def __setitem__(self, name: str, value: object) -> None:
        key, attrs, kind = USUAL.get(name), self.attrs, type(value)
        if kind is not str and kind is not bool and kind is not float:
            value = storable(value)
        if key is None:
            key = name.lower()
            if key not in attrs:
                attrs.spell(key, name)
        attrs[key] = value

    def update(self, other: Any = (), /, **more: object) -> None:
        """Set all attributes of a mapping, or of pairs of names and values."""
        attrs = self.attrs
        if type(other) is ClassAd and other.attrs.is_usual and not more:
            attrs.update(other.attrs)  # what it has, an ad can hold, and what is spelt as usual needs no mention
            return
        for pairs in (other.items() if hasattr(other, "items") else other, more.items()):
            for name, value in pairs:
                key, kind = USUAL.get(name), type(value)
                if kind is not str and kind is not bool and kind is not float:
                    value = storable(value)
                if key is None:
                    key = name.lower()
                    if key not in attrs:
                        attrs.spell(key, name)
                attrs[key] = value

    def __delitem__(self, name: str) -> None:
        """Remove an attribute; one that the parent has is covered by UNDEFINED."""
        key = name.lower()
        parent = self.attrs.parent
        # Without a mark in its place the parent's value would be seen again.
        if parent is not None and parent.lookup(key) is not MISSING:
            self.attrs[key] = UNDEFINED
            self.attrs.spell(key, name)
            return
        if key not in self.attrs:
            raise KeyError(name)
        del self.attrs[key]
        if self.attrs.names is not None:
            self.attrs.names.pop(key, None)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.attrs.lookup(name.lower()) is not MISSING

    def __iter__(self) -> Iterator[str]:
        attrs = self.attrs
        return iter([attrs.name_any(key) for key in attrs.keys_all()])

    def items(self) -> ItemsView[str, Member]:
        """Names and stored values, the parent's included."""
        return _Items(self)

    def __len__(self) -> int:
        return len(self.attrs) if self.attrs.parent is None else len(self.attrs.keys_all())

    def get(self, name: str, default: Any = None) -> Any:
        """The stored value, or `default`."""
        stored = self.attrs.lookup(name.lower())
        return default if stored is MISSING else stored

    def insert(self, name: str, text: str, *, old: bool = False) -> None:
        """Set an attribute to the expression in `text`; ClassAdError with the column when it is none."""
        self[name] = expr(text, old=old)

    @property
    def parent(self) -> ClassAd | None:
        """The ad behind this one."""
        return self._chained

    @parent.setter
    def parent(self, parent: ClassAd | None) -> None:
        self._chained = parent
        # The tables are linked beside the ads: evaluation sees tables alone.
        self.attrs.parent = None if parent is None else parent.attrs

    def own(self) -> list[tuple[str, Member]]:
        """Names and stored values of this ad alone, without its parent's."""
        return list(self.attrs.spelled().items())

    def copy(self) -> ClassAd:
        """An ad that may be changed without changing this one; it has the same parent."""
        twin = ClassAd(attrs=self.attrs.twin())
        twin._chained = self._chained
        return twin

    __copy__ = copy

    def __deepcopy__(self, _memo: object) -> ClassAd:
        return self.copy()

    def flat(self) -> ClassAd:
        """A copy without a parent: the parent's attributes and this ad's over them."""
        if self.attrs.parent is None:
            return self.copy()
        tables = [self.attrs]
        while tables[-1].parent is not None:
            tables.append(tables[-1].parent)
        # Unusual spellings have to be carried along, name by name.
        if any(table.names or not table.plain for table in tables):
            return self.project(self)
        attrs = tables.pop().twin()  # all names are spelt as usual: whole tables at a time
        for table in reversed(tables):
            attrs.update(table)
        return ClassAd(attrs=attrs)

    def project(self, names: Iterable[str]) -> ClassAd:
        """An ad with those of `names` that are here or in the parent."""
        attrs = Attrs()
        mine = self.attrs
        for name in names:
            key = name.lower()
            stored = mine.lookup(key)
            if stored is not MISSING and key not in attrs:
                attrs[key] = stored
                attrs.spell(key, mine.name_any(key))
        return ClassAd(attrs=attrs)

    # Evaluation.

    def eval(self, name: str, target: ClassAd | None = None) -> Value:
        """The value of an attribute, with `target` as the other ad of a match; UNDEFINED when it is absent."""
        stored = self.attrs[name.lower()]
        if type(stored) in PLAIN:
            return stored  # type: ignore[no-any-return]
        if stored is MISSING:
            return UNDEFINED
        # It may be compiled, and so this is the way that most evaluations go.
        if stored.__class__ is Expr:
            return stored.eval(self, target)
        return self._value(name, target, public)

    def eval_lazy(self, name: str, target: ClassAd | None = None) -> Value:
        """Like `eval`, but members of lists stay the expressions they are."""
        return self._value(name, target, stored_value)

    def _value(self, name: str, target: ClassAd | None, form: Callable[[Any], Value]) -> Value:
        from pool.classad.eval.frame import frames, member

        stored = self.attrs.lookup(name.lower())
        if stored is MISSING:
            return UNDEFINED
        theirs = None if target is None else target.attrs
        return bounded(lambda budget: form(member(stored, frames(self.attrs, theirs, budget))))

    def eval_int(self, name: str, default: T = None, target: ClassAd | None = None) -> int | T:  # type: ignore[assignment]
        """The value as an integer: reals are truncated, booleans are 1 and 0; anything else is `default`."""
        value = self.eval(name, target)
        kind = type(value)
        if kind is int or kind is bool:
            return int(value)  # type: ignore[arg-type]
        if kind is float:
            from pool.classad.values.value import int_of

            return int_of(value)  # type: ignore[arg-type]
        return default

    def eval_float(self, name: str, default: T = None, target: ClassAd | None = None) -> float | T:  # type: ignore[assignment]
        """The value as a real; booleans are 1 and 0; what is no number is `default`."""
        value = self.eval(name, target)
        return float(value) if type(value) in (int, float, bool) else default  # type: ignore[arg-type]

    def eval_bool(self, name: str, default: T = None, target: ClassAd | None = None) -> bool | T:  # type: ignore[assignment]
        """The value as a boolean: numbers other than zero are true; what is no number is `default`."""
        value = self.eval(name, target)
        return bool(value) if type(value) in (int, float, bool) else default

    def eval_str(self, name: str, default: T = None, target: ClassAd | None = None) -> str | T:  # type: ignore[assignment]
        """The value if it is a string, else `default`."""
        value = self.eval(name, target)
        return value if type(value) is str else default

    def flatten(self, name: str) -> Member:
        """The attribute as far as this ad alone decides it: a value, or an expression on what is not known here."""
        from pool.classad.eval.expression import store
        from pool.classad.eval.flatten import flatten

        stored = self.attrs.lookup(name.lower())
        return UNDEFINED if stored is MISSING else store(flatten(node_of(stored), self.attrs))

    def references(self, name: str) -> tuple[set[str], set[str]]:
        """Names that attribute `name` reads from this ad and from the other one; see `Expr.references`."""
        from pool.classad.eval.references import references

        stored = self.attrs.lookup(name.lower())
        return (set(), set()) if stored is MISSING else references(node_of(stored), self.attrs)

    # Text.

    def text(self, name: str) -> str:
        """The attribute's expression as the long form writes it."""
        return text_of(self[name], old=True)

    def long(self) -> str:
        """The long form: a line `Name = expression` for each attribute."""
        attrs = self.attrs
        if attrs.parent is None:
            names, values = attrs.spelt(), list(attrs.values())
        else:
            keys = attrs.keys_all()
            names, values = [attrs.name_any(key) for key in keys], [attrs.lookup(key) for key in keys]
        pairs = zip(names, values, strict=True)
        return "".join([f"{identifier(name, old=True)} = {text_of(stored, old=True)}\n" for name, stored in pairs])

    def new(self) -> str:
        """The new form: `[ a = 1; b = a + 1 ]`."""
        return text_of(self)

    def __str__(self) -> str:
        return self.new()

    def __repr__(self) -> str:
        return f"parse_ad({self.new()!r})"

    # Comparison.

    def __eq__(self, other: object) -> bool:
        """Whether both have the same names and the same stored values, of the same types, parents included."""
        if not isinstance(other, ClassAd):
            return NotImplemented
        mine, theirs = self.attrs, other.attrs
        if mine is theirs:
            return True
        # Names are compared without their spelling, as in the language.
        keys = mine.keys_all()
        return len(self) == len(other) and all(same(mine.lookup(key), theirs.lookup(key)) for key in keys)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return len(self) > 0

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.own(), self._chained)


class _Items(ItemsView[str, Member]):
    """Of an ad, which need not look each name up."""

    __slots__ = ()

    _mapping: ClassAd

    def __iter__(self) -> Iterator[tuple[str, Member]]:
        attrs = self._mapping.attrs
        if attrs.parent is None:
            return iter(list(zip(attrs.spelt(), attrs.values(), strict=True)))
        return iter([(attrs.name_any(key), attrs.lookup(key)) for key in attrs.keys_all()])


def _rebuild(pairs: list[tuple[str, Member]], parent: ClassAd | None) -> ClassAd:
    return ClassAd(pairs, parent=parent)


def same(a: object, b: object) -> bool:
    """Whether two stored values are the same, types included (1, 1.0 and true are three)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        # By their digits: NaN is the same as NaN here, and 0.0 is not -0.0, as both are other texts.
        return a.hex() == b.hex()
    return a == b


def text_of(stored: Any, *, old: bool = False) -> str:
    """A stored value as text."""
    kind = type(stored)
    if kind is str:
        return quote(stored, old=old)
    if kind is int:
        return str(stored)
    if kind in PLAIN or kind is RelTime:
        return scalar(stored, old=old)
    if kind is Expr:
        return stored.old_text if old else stored.text  # type: ignore[no-any-return]
    return unparse(node_of(stored), old=old)


ABOVE.ad_class = ClassAd
