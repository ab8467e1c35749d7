"""Many ads that have nearly the same attributes, as columns: smaller than maps, and quicker to look through.

A value that is absent in one of the ads is None. `pack_ads` of the codec makes the other form, a list of maps, which
says everything; this one is for ads without parents whose names are spelt alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pool.errors import PeerError, PoolError
from protocol.codec import make_ads, pack, pack_ads, unpack

if TYPE_CHECKING:
    from pool.classad import ClassAd

_NAMES, _COLUMNS, _COUNT = "names", "columns", "count"
_FIELDS: Final = {_NAMES, _COLUMNS, _COUNT}


class AdTable(NamedTuple):
    """The ads' own attributes; row by row they are what the columns have at the same place."""

    names: list[str]
    columns: list[list[Any]]
    rows: int

    def ads(self) -> list[ClassAd]:
        """Each row as an ad; PeerError when a value is none that an ad can have."""
        if not self.columns:
            return make_ads([{} for _ in range(self.rows)])
        found = []
        for values in zip(*self.columns, strict=True):
            row = dict(zip(self.names, values, strict=True))
            found.append({name: value for name, value in row.items() if value is not None} if None in values else row)
        return make_ads(found)


def pack_table(ads: Sequence[ClassAd], without: Iterable[str] = ()) -> bytes:
    """The ads' own attributes, less those `without` (lower case)."""
    keys: dict[str, str] = {}
    for ad in ads:
        attrs = ad.attrs
        if attrs.names:  # spelt as nobody else does
            return pack_ads(ads)
        if not attrs.keys() <= keys.keys():
            keys |= {key: attrs.name(key) for key in attrs}
    for key in without:
        keys.pop(key, None)
    columns = [[ad.attrs.get(key) for ad in ads] for key in keys]
    return pack({_NAMES: list(keys.values()), _COLUMNS: columns, _COUNT: len(ads)})


def unpack_table(data: bytes) -> AdTable | list[ClassAd]:
    """What either of the packers made; PeerError when the bytes are anything else."""
    said = unpack(data)
    if type(said) is list and all(type(row) is dict for row in said):
        return make_ads(said)
    if type(said) is not dict or said.keys() != _FIELDS:
        raise PeerError("not packed ads", expected="a list of maps, or a table")
    names, columns, count = said[_NAMES], said[_COLUMNS], said[_COUNT]
    if type(names) is not list or type(columns) is not list or type(count) is not int or count < 0:
        raise PeerError("not a table of ads")
    if any(type(name) is not str for name in names) or len({name.lower() for name in names}) != len(names):
        raise PeerError("not a table of ads", expected="a different name for each column")
    if len(columns) != len(names) or any(type(column) is not list or len(column) != count for column in columns):
        raise PeerError("not a table of ads", expected=f"{len(names)} columns of {count} values")
    return AdTable(names, columns, count)


def unpack_ads(data: bytes) -> list[ClassAd]:
    """The same as ads."""
    found = unpack_table(data)
    try:
        return found.ads() if isinstance(found, AdTable) else found
    except PoolError as error:
        raise PeerError(f"not a ClassAd value: {error}") from None
