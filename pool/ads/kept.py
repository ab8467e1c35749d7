"""Ads that are kept for long and seldom read: what many of them repeat is in memory once.

Slots are alike: their ads have the same attributes, in the same order, and most of their values are those of other
slots. An ad takes 11 kB as a table of its own; kept like this, a row of values under names that all share, a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, count, repeat
from operator import is_not, ne
from sys import intern
from typing import Any, Final, TypeVar

from pool.ads.limits import names_size, value_size
from pool.classad import ClassAd
from pool.classad.eval.ad import same
from pool.classad.eval.delta import Delta, changed_by, delta
from pool.classad.values.attrs import MISSING, Attrs
from pool.classad.values.kept import Kept

_SHARED_MAX: Final = 1000
"""So many values of a kind are shared before they are forgotten: most are times or of one job, and never come again."""
_WIDER_MAX: Final = 8
T = TypeVar("T")

_SORTS_MAX, _USUAL_VALUES_MAX = 256, 2000
"""So many sorts of ads are told apart, and none that has more values."""
_FEW: Final = 32
"""More values than these are compared without a loop of Python's."""
_PLAIN: Final = frozenset({str, int, bool, float})
ELSEWHERE: Final = object()


def of_kinds(work: Callable[[tuple[type, ...]], T]) -> Callable[[tuple[type, ...]], T]:
    """`work` on the kinds of an ad's values, done once for each sort of ad that daemons send, and kept for no other."""
    kept = lru_cache(maxsize=_SORTS_MAX)(work)
    return lambda kinds: kept(kinds) if len(kinds) <= _USUAL_VALUES_MAX else work(kinds)


class Form:
    """The names of an ad: its keys in order, how the unusual ones are spelt, and its table's kind."""

    __slots__ = ("_wider", "at", "keys", "kind", "model", "names", "size", "spellings")

    def __init__(self, keys: tuple[str, ...], names: tuple[tuple[str, str], ...], kind: type[Attrs]) -> None:
        self.keys, self.names, self.kind = keys, names, kind
        self.size = names_size(keys)
        self.spellings = dict(names) or None
        """How the unusual names are spelt, for views, which share it."""
        self.model: KeptAd | None = None
        """The first ad of this form, with which the others share what they can."""
        self.at = {key: at for at, key in enumerate(keys)}
        """At which place the value of a key is."""
        self._wider: dict[tuple[str, ...], tuple[Form, list[int]]] = {}

    @property
    def cost(self) -> int:
        """What it takes in memory with its model, at most, and nearly."""
        return 12 * self.size + 1024

    def name(self, key: str) -> str:
        """How a key is spelt."""
        return dict(self.names).get(key) or Attrs().name(key)

    def table(self, values: Iterable[Any]) -> Attrs:
        """A table with these values."""
        attrs = self.kind()
        attrs.update(zip(self.keys, values, strict=True))
        attrs.names = dict(self.names) or None
        return attrs

    def with_names(self, names: tuple[str, ...]) -> tuple[Form, list[int]]:
        """The form that has these too, and where; those that are new stand at its end."""
        known = self._wider.get(names)
        if known is None:
            attrs = self.table(self.keys)
            for name in names:
                if (key := name.lower()) not in attrs:
                    attrs.spell(key, name)
                    attrs[key] = name
            form = _form_of(attrs)
            if len(self._wider) >= _WIDER_MAX:
                self._wider.clear()
            known = self._wider[names] = form, [form.at[name.lower()] for name in names]
        return known


_forms: Final[Kept[tuple[object, ...], Form]] = Kept(64 << 20)
_texts: Final[dict[str, str]] = {}
"""Not those that Python interns: its table grows with each that it has ever had, and is never made smaller."""
_integers: Final[dict[int, int]] = {}


class KeptAd:
    """An ad as it was when this was made, its parent's attributes included, and what is `said` of it besides.

    What is the same in an ad that is kept already, of the same names, is in memory once: in `like`, or else in the
    first of these names.
    """

    __slots__ = ("_others", "_places", "form", "plain", "size")

    form: Form
    plain: tuple[Any, ...]
    """The values; ELSEWHERE stands for one that is no text, number or truth value."""
    size: int
    """The bytes that `pool.ads.limits` counts."""
    _places: tuple[int, ...]
    _others: tuple[Any, ...]

    def __init__(self, ad: ClassAd, said: Mapping[str, Any] | None = None, *, like: KeptAd | None = None) -> None:
        self._keep(came(ad), said, like)

    @classmethod
    def of_rows(
        cls, form: Form, common: Sequence[Any], own: Mapping[int, Sequence[Any]], rows: int, *, own_is_plain: bool
    ) -> Iterator[KeptAd]:
        """Ads as they came, to be looked at: they share nothing yet, and their size is not known.

        They have the values in common, but for those of their `own`, by their places, which are texts, numbers and
        truth values where `own_is_plain`.
        """
        values = [*common]
        for at in own:
            values[at] = 0  # in whose place each has its own
        model = _came(form, values)
        template = model.plain if own_is_plain else common
        for cells in zip(*own.values(), strict=True) if own else repeat((), rows):
            values = [*template]
            for at, value in zip(own, cells, strict=True):
                values[at] = value
            yield model._with_plain(tuple(values)) if own_is_plain else _came(form, values)

    def to_keep(self, said: Mapping[str, Any] | None = None, *, like: KeptAd | None = None) -> KeptAd:
        """An ad as it came, with what is `said` of it besides, to be kept."""
        kept = object.__new__(KeptAd)
        kept._keep(self, said, like)
        return kept

    def _with_plain(self, plain: tuple[Any, ...]) -> KeptAd:
        """The ad with other plain values."""
        ad = object.__new__(KeptAd)
        ad.form, ad.plain, ad._places, ad._others = self.form, plain, self._places, self._others
        return ad

    def _keep(self, ad: KeptAd, said: Mapping[str, Any] | None, like: KeptAd | None) -> None:
        """Become the ad that came, with what is said of it."""
        if said:
            ad = ad._with_said(said)
        self.form = ad.form
        model = like if like is not None and like.form is ad.form else ad.form.model
        if model is None:
            self.size = self.form.size + sum(map(value_size, ad.values))
            self.plain = tuple(map(_shared, ad.plain))
            self._places, self._others = ad._places, ad._others
            if self.size <= self.form.cost:
                self.form.model = self
        elif model._places != ad._places:
            had, values = model.values, ad.values
            different = [at for at, a, b in zip(count(), had, values) if a is not b and not same(a, b)]
            self._change(model, had, {at: values[at] for at in different})
        else:
            self._keep_like(model, ad)

    def _keep_like(self, model: KeptAd, ad: KeptAd) -> None:
        """Become the ad that came, which has other than plain values where the model has."""
        size, had, new, row = model.size, model.plain, ad.plain, None
        for at in _perhaps_different(had, new):
            a, b = had[at], new[at]
            # What is equal and of one type is the same, but for 0.0 beside -0.0.
            if a == b and type(a) is type(b) and (a or type(a) is not float):
                continue
            row = row or [*had]
            row[at] = _shared(b)
            if type(a) is str or type(b) is str:
                size += value_size(b) - value_size(a)
        self.plain = had if row is None else tuple(row)
        self._places, self._others = model._places, model._others
        for at, a, b in zip(count(), model._others, ad._others):
            if a is not b and not same(a, b):
                size += value_size(b) - value_size(a)
                self._others = (*self._others[:at], b, *self._others[at + 1 :])
        self.size = size

    def _with_said(self, said: Mapping[str, Any]) -> KeptAd:
        """The ad that came with these values as well."""
        if not _PLAIN.issuperset(map(type, said.values())):
            return _came(*_with(self.form, self.values, said))
        form, places = self.form.with_names(tuple(said))
        plain = [*self.plain, *repeat(0, len(form.keys) - len(self.plain))]
        for at, value in zip(places, said.values(), strict=True):
            if plain[at] is ELSEWHERE:
                return _came(*_with(self.form, self.values, said))
            plain[at] = value
        ad = self._with_plain(tuple(plain))
        ad.form = form
        return ad

    def _change(self, model: KeptAd, had: list[Any], changed: Mapping[int, Any]) -> None:
        """Become the other ad, which had these values, but for those that are changed, by their places."""
        if not self._change_plain(model, changed):
            self.form = model.form
            self.size = model.size + sum(value_size(value) - value_size(had[at]) for at, value in changed.items())
            for at, value in changed.items():
                had[at] = _shared(value)
            self._split(had)
            if self._places == model._places:
                self._places = model._places

    def _change_plain(self, model: KeptAd, changed: Mapping[int, Any]) -> bool:
        """The same where nothing but plain values is concerned; else false."""
        plain, size = [*model.plain], model.size
        for at, value in changed.items():
            had = plain[at]
            if type(value) not in _PLAIN or had is ELSEWHERE:
                return False
            if type(value) is str or type(had) is str:
                size += value_size(value) - value_size(had)
            plain[at] = _shared(value)
        self.form, self.size, self.plain = model.form, size, tuple(plain)
        self._places, self._others = model._places, model._others
        return True

    def _split(self, values: list[Any]) -> None:
        # A row of nothing but plain values is one that Python's garbage collector passes by: it would look at every
        # value of a hundred thousand rows again and again.
        self._places = _odd(tuple(map(type, values)))
        self._others = tuple([values[at] for at in self._places])
        for at in self._places:
            values[at] = ELSEWHERE
        self.plain = tuple(values)

    @property
    def values(self) -> list[Any]:
        """The stored values, in the order of the form's keys."""
        values = [*self.plain]
        for at, value in zip(self._places, self._others, strict=True):
            values[at] = value
        return values

    def __len__(self) -> int:
        return len(self.plain)

    def __reduce__(self) -> tuple[object, ...]:
        return KeptAd, (self.ad(),)

    def get(self, key: str, default: Any = None) -> Any:
        """The stored value of a lower-case name, or `default`."""
        at = self.form.at.get(key)
        if at is None:
            return default
        value = self.plain[at]
        return self._others[self._places.index(at)] if value is ELSEWHERE else value

    def eval_str(self, name: str, default: str, /) -> str:
        """The value of an attribute if it is a text, else `default`."""
        at = self.form.at.get(name.lower())
        if at is None:
            return default
        value = self.plain[at]
        if value is ELSEWHERE:
            return self.view().eval_str(name, default)
        return value if type(value) is str else default

    def ad(self) -> ClassAd:
        """The ad; whoever has it may change it."""
        return ClassAd(attrs=self.form.table(self.values))

    def view(self) -> ClassAd:
        """The ad for who evaluates little of it and changes nothing."""
        return ClassAd(attrs=_Row(self)) if self.form.kind is Attrs else self.ad()

    def having(self, said: Mapping[str, Any]) -> KeptAd:
        """The ad with these values, which are stored ones."""
        known, after = self.form.at, object.__new__(KeptAd)
        changed = {known.get(name.lower(), -1): value for name, value in said.items()}
        if -1 in changed:
            form, values = _with(self.form, self.values, said)
            return KeptAd(ClassAd(attrs=form.table(values)))
        if not after._change_plain(self, changed):
            after._change(self, self.values, changed)
        return after

    def changed_by(self, change: Delta) -> KeptAd:
        """The ad after the change."""
        if change.removed or not change.changed.attrs.keys() <= self.form.at.keys():
            return KeptAd(changed_by(self.ad(), change), like=self)
        return self.having(change.changed.attrs)

    def news_since(self, before: KeptAd) -> Delta:
        """What turns that ad into this one."""
        form, values, had = self.form, self.values, before.values
        if before.form is not form:
            return delta(before.ad(), self.ad())
        changed = Attrs()
        # By identity first: most of an ad that is advertised again are the very same values.
        for at in compress(range(len(values)), map(is_not, values, had)):
            if not same(had[at], values[at]):
                key = form.keys[at]
                changed[key] = values[at]
                changed.spell(key, form.name(key))
        return Delta(ClassAd(attrs=changed))


class _Row(Attrs):
    """A kept ad as a table, which nobody changes: it takes over a value that an evaluation asks for."""

    __slots__ = ("_kept",)

    def __init__(self, kept: KeptAd) -> None:
        self.parent = None
        self.names = kept.form.spellings
        self._kept = kept

    def __missing__(self, key: str) -> Any:
        value = self._kept.get(key, MISSING)
        if value is not MISSING:
            self[key] = value
        return value

    def lookup(self, key: str) -> Any:
        return self._kept.get(key, MISSING)

    def elsewhere(self, key: str) -> Any:
        return self._kept.get(key, MISSING)

    def twin(self) -> Attrs:
        return self._whole()

    def __contains__(self, key: object) -> bool:
        return key in self._kept.form.at

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept.form.keys)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str, default: Any = None) -> Any:
        return self._kept.get(key, default)

    def keys(self) -> Any:
        return self._whole().keys()

    def values(self) -> Any:
        return self._whole().values()

    def items(self) -> Any:
        return self._whole().items()

    def keys_all(self) -> list[str]:
        return [*self._kept.form.keys]

    def name_any(self, key: str) -> str:
        return self.name(key)

    def spelled(self) -> dict[str, Any]:
        return self._whole().spelled()

    def _whole(self) -> Attrs:
        kept = self._kept
        return kept.form.table(kept.values)


def came(ad: ClassAd) -> KeptAd:
    """An ad as it came, to be looked at: it shares nothing yet, and its size is not known."""
    attrs = ad.attrs if ad.parent is None else ad.flat().attrs
    return _came(_form_of(attrs), [*attrs.values()])


def _came(form: Form, values: list[Any]) -> KeptAd:
    """An ad that came, of these values, whose list is then used up."""
    ad = object.__new__(KeptAd)
    ad.form = form
    ad._split(values)
    return ad


def _perhaps_different(had: Sequence[Any], new: Sequence[Any]) -> Iterable[int]:
    """Where plain values are not the same, and a few more places."""
    # By identity first: what is shared, and most of what is told of several ads at once, is the very same value.
    found = [*compress(range(len(new)), map(is_not, had, new))]
    if len(found) > _FEW and (kinds := tuple(map(type, new))) == tuple(map(type, had)):
        return (*compress(range(len(new)), map(ne, had, new)), *[at for at in _reals(kinds) if had[at] == 0 == new[at]])
    return found


@of_kinds
def _reals(kinds: tuple[type, ...]) -> tuple[int, ...]:
    """Where values of these kinds are reals: 0.0 is equal to -0.0."""
    return tuple([at for at, kind in enumerate(kinds) if kind is float])


@of_kinds
def _odd(kinds: tuple[type, ...]) -> tuple[int, ...]:
    """Where values of these kinds are no texts, numbers or truth values."""
    return tuple([at for at, kind in enumerate(kinds) if kind not in _PLAIN])


def form_of_names(names: Sequence[str]) -> Form:
    """The form of ads that have these names, which are different ones."""
    attrs = Attrs()
    for name in names:
        key = name.lower()
        attrs.spell(key, name)
        attrs[key] = name
    return _form_of(attrs)


def columns(ads: Sequence[KeptAd], keys: Sequence[str]) -> list[list[Any]]:
    """What the ads have of attributes, by their lower-case names; None where one has nothing."""
    forms = {kept.form for kept in ads}
    if len(forms) > 1:
        return [[kept.get(key) for kept in ads] for key in keys]
    at, rows = next(iter(forms)).at, [kept.plain for kept in ads]
    found = [[row[at[key]] for row in rows] if key in at else [None] * len(rows) for key in keys]
    return [
        [kept.get(key) for kept in ads] if ELSEWHERE in column else column
        for key, column in zip(keys, found, strict=True)
    ]


def _with(form: Form, values: list[Any], said: Mapping[str, Any]) -> tuple[Form, list[Any]]:
    """Values with those that are `said` in their places, and the form that has them all."""
    known = form.at
    places = [known.get(name.lower(), -1) for name in said]
    if -1 in places:
        form, places = form.with_names(tuple(said))
        values += [MISSING] * (len(form.keys) - len(values))
    for at, value in zip(places, said.values(), strict=True):
        values[at] = value
    return form, values


def _form_of(attrs: Attrs) -> Form:
    """The form of a table, the one that other tables have."""
    names = () if attrs.names is None else tuple(attrs.names.items())
    keys, kind = tuple(attrs), type(attrs)
    young = _forms.young.get((keys, names, kind))
    form = young[0] if young is not None else _forms.find((keys, names, kind))
    if form is None:
        form = Form(tuple(map(intern, keys)), names, kind)
        _forms.put((form.keys, names, kind), form, form.cost)
    return form


def _shared(value: Any) -> Any:
    """The same value, if possible the one that others have (expressions are shared by whoever reads them)."""
    kind = type(value)
    known: dict[Any, Any]
    if kind is str:
        known = _texts
    elif kind is int:
        known = _integers
    else:
        return value
    if len(known) >= _SHARED_MAX:
        known.clear()
    return known.setdefault(value, value)
