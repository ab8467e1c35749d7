"""Ads as one short text for the queue's rows: JSON, where an expression is `{"n": text}` in the new form.

The long form (`{"x": text}`, which older queues have) cannot say that a string ends in a backslash.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from pool.classad import ClassAd, Member, expr
from pool.classad.ad import text_of
from pool.classad.expression import storable

_PLAIN: Final = frozenset({bool, int, float, str})
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_INT_END: Final = 2**63


def pack(ad: ClassAd, without: Collection[str] = ()) -> str:
    """The ad's own attributes (not its parent's), less those `without` (lower case)."""
    attrs = ad.attrs
    return _encode(
        {
            attrs.name(key): value if type(value) in _PLAIN else {"n": text_of(value)}
            for key, value in dict.items(attrs)
            if key not in without
        }
    )


def pack_columns(names: Sequence[str], columns: Sequence[Sequence[object]], count: int) -> list[str]:
    """Each row of a table as `pack` packs an ad with these attributes; a value that is None is absent there."""
    if not columns:
        return ["{}"] * count
    texts = [_column(column) for column in columns]
    heads = [encode_basestring_ascii(name) + ":" for name in names]
    if not any(None in column for column in texts):
        form = "{" + ",".join(head.replace("%", "%%") + "%s" for head in heads) + "}"
        return [form % row for row in zip(*texts, strict=True)]
    return [
        "{" + ",".join([head + text for head, text in zip(heads, row, strict=True) if text is not None]) + "}"
        for row in zip(*texts, strict=True)
    ]


def _column(values: Sequence[Any]) -> list[str | None]:
    kinds = set(map(type, values))
    if kinds == {str}:
        return list(map(encode_basestring_ascii, values))
    if kinds == {int} and min(values) >= -_INT_END and max(values) < _INT_END:
        return list(map(str, values))
    if len(set(map(id, values))) == 1:
        return [None if values[0] is None else _value(values[0])] * len(values)
    return [None if value is None else _value(value) for value in values]


def _value(value: object) -> str:
    stored = storable(value)
    return _encode(stored if type(stored) in _PLAIN else {"n": text_of(stored)})


def unpack(text: str, parent: ClassAd | None = None) -> ClassAd:
    """The inverse of `pack`."""
    ad = ClassAd(parent=parent)
    attrs = ad.attrs  # plain values are stored as they are, without the checks that strangers' values need
    for name, value in json.loads(text).items():
        if type(value) is dict:
            ad[name] = expr(value["n"]) if "n" in value else expr(value["x"], old=True)
        else:
            key = name.lower()
            attrs[key] = value
            attrs.spell(key, name)
    return ad


def pack_items(items: Iterable[tuple[str, Member]]) -> str:
    """Pack attributes that are in no ad."""
    return pack(ClassAd(list(items)))


def names_in(text: str) -> set[str]:
    """The names of the attributes of a packed ad, in lower case, without unpacking it."""
    raw: dict[str, Any] = json.loads(text)
    return {name.lower() for name in raw}
