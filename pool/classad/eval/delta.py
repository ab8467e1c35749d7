"""What changed from one ad to the next: attributes set, and attributes gone."""

from __future__ import annotations

from dataclasses import dataclass

from pool.classad.eval.ad import ClassAd, same
from pool.classad.values.attrs import MISSING, Attrs


@dataclass(frozen=True, slots=True)
class Delta:
    """`changed` holds what is new or different, `removed` the names of what is no longer there."""

    changed: ClassAd
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed) or bool(self.removed)


def delta(old: ClassAd, new: ClassAd) -> Delta:
    """What turns `old` into `new`, parents included."""
    before, after = old.attrs, new.attrs
    changed = Attrs()
    for key in after.keys_all():
        stored = after.lookup(key)
        had = before.lookup(key)
        # By identity first: most of an ad that is advertised again holds the very same values.
        if had is MISSING or (had is not stored and not same(had, stored)):
            changed[key] = stored
            changed.spell(key, after.name_any(key))
    gone = tuple(before.name_any(key) for key in before.keys_all() if after.lookup(key) is MISSING)
    return Delta(ClassAd(attrs=changed), gone)
