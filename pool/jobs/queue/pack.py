"""A job's or a cluster's own attributes as the queue has them: one text, and the set of its names.

A `PackedAd` is made once, from what a submitter says or from a row of the queue's file, and is kept, stored and
searched as it is: whether it has a name is known without reading the text. Only who evaluates unpacks it, into an ad.

The text is what the queue's file has: JSON, where an expression is `{"n": text}` in the new form. The long form
(`{"x": text}`, which older queues have) cannot say that a string ends in a backslash. No other module knows this.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from json.encoder import encode_basestring_ascii
from json.scanner import make_scanner
from typing import Any, Final

from pool.classad import ClassAd, expr
from pool.classad.eval.ad import text_of
from pool.classad.eval.expression import storable

_PLAIN: Final = frozenset({bool, int, float, str})
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_scan: Final = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # the stub names the wrong class
_INT_END: Final = 2**63
_SETS_MAX: Final = 10_000
_sets: Final[dict[tuple[str, ...], frozenset[str]]] = {}
"""Sets of names, one for all ads that have the same: a queue's million ads have few different ones."""


def lower_names(*names: str) -> frozenset[str]:
    """Names as `PackedAd.has_any` is asked for them."""
    return frozenset(name.lower() for name in names)


class PackedAd:
    """An ad's own attributes, packed. `names` has theirs in lower case."""

    __slots__ = ("names", "text")

    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.text = text
        self.names = names

    def __len__(self) -> int:
        """Bytes of it in the queue's file."""
        return len(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedAd) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"PackedAd({self.text!r})"

    def has_any(self, names: AbstractSet[str]) -> bool:
        """Whether it has an attribute of one of these names (in lower case)."""
        return not self.names.isdisjoint(names)

    @property
    def may_have_macros(self) -> bool:
        """Whether one of its values may have `$$(...)` to expand."""
        return "$$(" in self.text

    def unpack(self, parent: ClassAd | None = None) -> ClassAd:
        """The ad, to be evaluated."""
        ad = ClassAd(parent=parent)
        attrs = ad.attrs  # plain values are stored as they are, without the checks that strangers' values need
        for name, value in json.loads(self.text).items():
            if type(value) is dict:
                ad[name] = expr(value["n"]) if "n" in value else expr(value["x"], old=True)
            else:
                key = name.lower()
                attrs[key] = value
                attrs.spell(key, name)
        return ad


def like(name: str, value: int) -> str:
    """What SQL's LIKE finds in the text of every ad that has this number; and perhaps in others."""
    return f"%{encode_basestring_ascii(name)}:{value}%"


EMPTY: Final = PackedAd("{}", frozenset())
"""The ad of a job that is like its cluster: one for all of them."""


def read_packed(text: str) -> PackedAd:
    """The ad of a row in the queue's file. One that cannot be read has no names, and whoever unpacks it hears of it."""
    if text == EMPTY.text:
        return EMPTY
    try:
        names = tuple(_scan(text, 0)[0])
        return PackedAd(text, _sets.get(names) or _set_of(names))
    except (ValueError, TypeError, StopIteration):
        return PackedAd(text, frozenset())


def pack(ad: ClassAd, without: Collection[str] = ()) -> PackedAd:
    """The ad's own attributes (not its parent's), less those `without` (lower case)."""
    # dict's own items: those of `Attrs` go on with the parent's.
    attrs = ad.attrs
    own = {key: value for key, value in dict.items(attrs) if key not in without}
    text = _encode(
        {attrs.name(key): value if type(value) in _PLAIN else {"n": text_of(value)} for key, value in own.items()}
    )
    return PackedAd(text, _set_of(tuple(own)))


def pack_columns(names: Sequence[str], columns: Sequence[Sequence[object]], count: int) -> list[PackedAd]:
    """Each row of a table as `pack` packs an ad with these attributes; a value that is None is absent there."""
    if not columns:
        return [EMPTY] * count
    texts = [_column(column) for column in columns]
    heads = [encode_basestring_ascii(name) + ":" for name in names]
    if not any(None in column for column in texts):
        form = "{" + ",".join(head.replace("%", "%%") + "%s" for head in heads) + "}"
        same = _set_of(tuple(names))
        return [PackedAd(form % row, same) for row in zip(*texts, strict=True)]
    return [_pack_row(names, heads, row) for row in zip(*texts, strict=True)]


def _pack_row(names: Sequence[str], heads: Sequence[str], row: Sequence[str | None]) -> PackedAd:
    text = "{" + ",".join([head + text for head, text in zip(heads, row, strict=True) if text is not None]) + "}"
    return PackedAd(text, _set_of(tuple([name for name, text in zip(names, row, strict=True) if text is not None])))


def columns_of(ads: Iterable[PackedAd], wanted: AbstractSet[str] | None) -> dict[str, list[Any]] | None:
    """The attributes `wanted` (in lower case; None: all) as columns, None where an ad has none.

    None for all when some are expressions, which may read anything, or are not spelt alike: each ad must be unpacked.
    """
    rows: list[dict[str, Any]] = json.loads("[" + ",".join([ad.text for ad in ads]) + "]")
    keys = {name: name.lower() for row in rows for name in row}
    if wanted is not None:
        keys = {name: key for name, key in keys.items() if key in wanted}
    if len(set(keys.values())) != len(keys):
        return None
    columns = {name: [row.get(name) for row in rows] for name in keys}
    if any(dict in set(map(type, column)) for column in columns.values()):
        return None
    return columns


def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    """The set of these names, in lower case."""
    known = _sets.get(names)
    if known is None:
        if len(_sets) >= _SETS_MAX:
            _sets.clear()
        known = _sets[names] = frozenset(map(str.lower, names))
    return known


def _column(values: Sequence[Any]) -> list[str | None]:
    kinds = set(map(type, values))
    # Columns mostly have one kind, and then code in C does the whole column.
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
