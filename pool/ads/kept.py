"""Ads that are kept for long and seldom read: what many of them repeat is in memory once.

Slots are alike: their ads have the same attributes, in the same order, and most of their texts are those of other
slots. An ad takes 12 kB, which is the most that a running job would cost its schedd; kept like this it takes a fifth.
"""

from __future__ import annotations

from sys import intern
from typing import Any, Final, NamedTuple

from pool.classad import ClassAd
from pool.classad.values.attrs import Attrs

_FORMS_MAX: Final = 1000


class _Form(NamedTuple):
    """The names of an ad: its keys in order, how the unusual ones are spelt, and its table's kind."""

    keys: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    kind: type[Attrs]


_forms: Final[dict[_Form, _Form]] = {}
_integers: Final[dict[int, int]] = {}
_INTEGERS_MAX: Final = 10_000


class KeptAd:
    """An ad as it was when this was made, its parent's attributes included."""

    __slots__ = ("_form", "_values")

    def __init__(self, ad: ClassAd) -> None:
        attrs = ad.attrs if ad.parent is None else ad.flat().attrs
        names = () if attrs.names is None else tuple(attrs.names.items())
        self._form = _shared_form(_Form(tuple(attrs), names, type(attrs)))
        self._values = tuple([_shared(value) for value in attrs.values()])

    def ad(self) -> ClassAd:
        """The ad; whoever has it may change it."""
        form = self._form
        attrs = form.kind()
        attrs.update(zip(form.keys, self._values, strict=True))
        attrs.names = dict(form.names) or None
        return ClassAd(attrs=attrs)


def _shared_form(form: _Form) -> _Form:
    if len(_forms) >= _FORMS_MAX:
        _forms.clear()
    return _forms.setdefault(form, form)


def _shared(value: Any) -> Any:
    """The same value, if possible the one that others have (expressions are shared by whoever reads them)."""
    kind = type(value)
    if kind is str:
        return intern(value)
    if kind is int:
        if len(_integers) >= _INTEGERS_MAX:
            _integers.clear()
        return _integers.setdefault(value, value)
    return value
