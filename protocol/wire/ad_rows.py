"""Whole ads that have the same names, as daemons send them to be kept: the names once, and once what else is the same.

The names are packed by themselves: a receiver that has seen these bytes before knows the form of the ads, and looks at
no name. Who only asks for ads has nothing to do with this (`ad_table`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import Final, NamedTuple

from pool.ads.kept import Form, KeptAd, form_of_names, of_kinds
from pool.base.errors import PeerError
from pool.classad.values.kept import Kept
from protocol.wire.ad_table import ROWS_MAX, are_names, is_plain
from protocol.wire.codec import NEW_TEXT_MAX, pack, storable, unpack

CELLS_MAX: Final = 1_000_000
"""Values of all ads of a table: what they have in common is sent once."""
_PARTS: Final = (bytes, list, list, int)
_PLAIN: Final = frozenset({str, bool, float})


def pack_rows(ads: Sequence[KeptAd]) -> bytes:
    """Ads of one form, whole: packed names, what the ads have in common, None where they have values of their own, and
    these, by columns.
    """
    first = ads[0]
    common, own, columns = first.values, [], zip(*(kept.values for kept in ads), strict=True)
    if len(ads) > 1:
        for at, column in enumerate(columns):
            # Kept ads share what is the same in them; what they do not share is sent as it is.
            if not all(map(is_, column, repeat(common[at]))):
                common[at] = None
                own.append(column)
    return pack([_names_of(first.form), common, own, len(ads)])


def unpack_rows(data: bytes) -> list[KeptAd]:
    """Those ads, as somebody sent them to be kept; PeerError when the bytes are anything else."""
    said = unpack(data, new_text_max=NEW_TEXT_MAX)
    if type(said) is not list or tuple(map(type, said)) != _PARTS:
        raise PeerError("not a table of rows", expected="names, values in common, columns of others, and how many")
    names, common, columns, rows = said
    form = _form_of(names)
    if len(common) != len(form.keys):
        raise PeerError(f"{len(common)} values for {len(form.keys)} names")
    if not (0 <= rows <= ROWS_MAX and rows * len(common) <= CELLS_MAX):
        raise PeerError(f"{rows} rows of {len(common)} values", expected=f"at most {ROWS_MAX}, and {CELLS_MAX} values")
    places = _places_of(tuple(map(type, common)))
    if len(columns) != len(places.missing) or not all(type(one) is list and len(one) == rows for one in columns):
        raise PeerError("not a table of rows", expected=f"{len(places.missing)} columns of {rows} values")
    if not is_plain([common[at] for at in places.ints]):
        raise PeerError("not a ClassAd value", expected="whole numbers of 64 bits")
    for at, value in zip(places.odd, storable([common[at] for at in places.odd]), strict=True):
        common[at] = value
    plain = all(map(is_plain, columns))
    by_place = dict(zip(places.missing, columns if plain else map(storable, columns), strict=True))
    return [*KeptAd.of_rows(form, common, by_place, rows, own_is_plain=plain)]


def _form_of(names: bytes) -> Form:
    """The form of ads with these names, which are the same again and again."""
    known = _forms.find(names)
    if known is None:
        said = unpack(names)
        if type(said) is not list or not said or not are_names(said):
            raise PeerError("not a table of rows", expected="a different name for each value")
        known = form_of_names(said)
        _forms.put(names, known, 4 * len(names) + known.cost)
    return known


_forms: Final[Kept[bytes, Form]] = Kept(16 << 20)


@lru_cache(maxsize=64)
def _names_of(form: Form) -> bytes:
    """The names of ads, packed."""
    return pack([*map(form.name, form.keys)])


class _Places(NamedTuple):
    """Where values are missing, are whole numbers, or may be stored otherwise than they come."""

    missing: list[int]
    ints: list[int]
    odd: list[int]


@of_kinds
def _places_of(kinds: tuple[type, ...]) -> _Places:
    """Those of values of these kinds."""
    found = _Places([], [], [])
    for at, kind in enumerate(kinds):
        if kind is type(None):
            found.missing.append(at)
        elif kind is int:
            found.ints.append(at)
        elif kind not in _PLAIN:
            found.odd.append(at)
    return found
