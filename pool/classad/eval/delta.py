"""What changed from one ad to the next: attributes set, and attributes gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pool.classad.eval.ad import ClassAd, same
from pool.classad.values.attrs import MISSING, Attrs


class Delta(NamedTuple):
    """`changed` holds what is new or different, `removed` the names of what is no longer there."""

    changed: ClassAd
    removed: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.changed) or bool(self.removed)


def delta(old: ClassAd, new: ClassAd) -> Delta:
    """What turns `old` into `new`, parents included."""
    before, after = _flat(old), _flat(new)
    changed = Attrs()
    for key, stored in after.items():
        had = before.get(key, MISSING)
        # By identity first: most of an ad that is advertised again holds the very same values.
        if had is not stored and (had is MISSING or not same(had, stored)):
            changed[key] = stored
            changed.spell(key, after.name(key))
    gone = tuple(before.name(key) for key in before.keys() - after.keys())
    return Delta(ClassAd(attrs=changed), gone)


def _flat(ad: ClassAd) -> Attrs:
    return ad.attrs if ad.parent is None else ad.flat().attrs


def changed_by(ad: ClassAd, change: Delta) -> ClassAd:
    """The ad after the change, which is another one; names that it does not have need not be removed."""
    after = ad.copy()
    for name in change.removed:
        if name in after:
            del after[name]
    for name, stored in change.changed.own():
        after[name] = stored
    return after
