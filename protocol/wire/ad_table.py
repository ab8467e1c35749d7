"""Many ads that have nearly the same attributes, as columns: smaller than maps, and quicker to look through.

`shared` is what all of them have; a column's value takes its place, but for None, where the ad has nothing of its own.
`pack_ads` of the codec makes the other form, a list of maps, which says everything; this one is for ads whose names are
spelt alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pool.base.errors import PeerError, PoolError
from protocol.wire.codec import NO_BOUND, make_ads, pack, pack_ads, unpack
from protocol.wire.message import Record

if TYPE_CHECKING:
    from pool.ads.kept import KeptAd
    from pool.classad import ClassAd
    from protocol.messages.common import AdBatch

ROWS_MAX: Final = 10_000

_NAMES, _COLUMNS, _ROWS, _SHARED = "names", "columns", "rows", "shared"
_FIELDS: Final = {_NAMES, _COLUMNS, _ROWS, _SHARED}
_PLAIN: Final = frozenset({str, bool, float})
_INT_END: Final = 2**63


class AdTable(Record):
    """Row by row the ads are what the columns have at the same place, over what they share."""

    names: list[str]
    columns: list[list[Any]]
    rows: int
    shared: dict[str, Any]

    def ads(self) -> list[ClassAd]:
        """Each row as an ad; PeerError when a value is none that an ad can have."""
        (base,) = make_ads([self.shared])
        keys = [name.lower() for name in self.names]
        for key, name in zip(keys, self.names, strict=True):
            base.attrs.spell(key, name)
        found = [base.copy() for _ in range(self.rows)]
        if base.attrs.plain and not base.attrs.names and all(map(is_plain, self.columns)):
            for ad, values in zip(found, zip(*self.columns, strict=True), strict=False):
                ad.attrs.update(zip(keys, values, strict=True))
            return found
        try:
            for ad, values in zip(found, zip(*self.columns, strict=True), strict=False):
                for name, value in zip(self.names, values, strict=True):
                    if value is not None:
                        ad[name] = value
        except (PoolError, TypeError) as error:
            raise PeerError(f"not a ClassAd value: {error}") from None
        return found


def is_plain(column: list[Any]) -> bool:
    """Whether an ad stores these values as they are."""
    kinds = set(map(type, column))
    if int in kinds:
        kinds.discard(int)
        whole = column if not kinds else [value for value in column if type(value) is int]
        if min(whole) < -_INT_END or max(whole) >= _INT_END:
            return False
    return kinds <= _PLAIN


def pack_alike(ads: Sequence[ClassAd], without: Iterable[str] = ()) -> bytes:
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
    return pack_table([*keys.values()], [[ad.attrs.get(key) for ad in ads] for key in keys], len(ads))


def pack_chosen(ads: Sequence[ClassAd], only: Sequence[str]) -> bytes:
    """Of ads without parents the attributes of these names, whatever else the ads have."""
    wanted = {name.lower() for name in only}
    keys: dict[str, str] = {}
    missing, is_odd = wanted, False
    for ad in ads:
        attrs = ad.attrs
        is_odd = is_odd or bool(attrs.names and not attrs.names.keys().isdisjoint(wanted))
        if missing:
            keys |= {key: attrs.name(key) for key in missing if key in attrs}
            missing = wanted - keys.keys()
    if is_odd and any(ad.attrs.name(key) != keys[key] for ad in ads for key in keys.keys() & ad.attrs.keys()):
        return pack_ads(one.project(only) for one in ads)
    return pack_table([*keys.values()], [[ad.attrs.get(key) for ad in ads] for key in keys], len(ads))


def pack_kept(ads: Sequence[KeptAd], only: Sequence[str]) -> bytes:
    """The same of ads that are kept."""
    from pool.ads.kept import columns  # tools unpack tables, and keep no ads

    keys: dict[str, str] = {}
    forms = {kept.form for kept in ads}
    for form in forms:
        for key in dict.fromkeys(name.lower() for name in only):
            if key in form.at and keys.setdefault(key, name := form.name(key)) != name:
                return pack_chosen([kept.ad() for kept in ads], only)
    return pack_table([*keys.values()], columns(ads, [*keys]), len(ads))


def pack_table(
    names: Sequence[str], columns: Sequence[Sequence[object]], rows: int, shared: Mapping[str, object] | None = None
) -> bytes:
    """A table of values."""
    return pack({_NAMES: names, _COLUMNS: columns, _ROWS: rows, _SHARED: shared or {}})


def unpack_table(data: bytes, *, new_text_max: int = NO_BOUND) -> AdTable | list[ClassAd]:
    """What any of the packers made; PeerError when the bytes are anything else."""
    said = unpack(data, new_text_max=new_text_max)
    if type(said) is list and all(type(row) is dict for row in said):
        return make_ads(said)
    if type(said) is not dict or said.keys() != _FIELDS:
        raise PeerError("not packed ads", expected="a list of maps, or a table")
    names, columns, rows, shared = said[_NAMES], said[_COLUMNS], said[_ROWS], said[_SHARED]
    if type(names) is not list or type(columns) is not list or type(rows) is not int or type(shared) is not dict:
        raise PeerError("not a table of ads")
    if not 0 <= rows <= ROWS_MAX:
        raise PeerError(f"a table of {rows} ads", expected=f"at most {ROWS_MAX}")
    if not are_names(names):
        raise PeerError("not a table of ads", expected="a different name for each column")
    if len(columns) != len(names) or any(type(column) is not list or len(column) != rows for column in columns):
        raise PeerError("not a table of ads", expected=f"{len(names)} columns of {rows} values")
    return AdTable(names=names, columns=columns, rows=rows, shared=shared)


def are_names(names: Sequence[object]) -> bool:
    """Whether these are texts, each of them another name."""
    return all(type(name) is str for name in names) and len({str(name).lower() for name in names}) == len(names)


def ads_of(batch: AdBatch) -> list[ClassAd]:
    """The ads of a batch, in whichever form they came."""
    return unpack_ads(batch.table) if batch.table else batch.ads


def unpack_ads(data: bytes) -> list[ClassAd]:
    """The same as ads."""
    found = unpack_table(data)
    return found.ads() if isinstance(found, AdTable) else found
