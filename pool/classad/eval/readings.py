"""What expressions of ads read, remembered: of many ads most say the same.

The same text may read other things in another ad: a name in it is an expression in one, a number in the next, and the
other ad's in a third. So what an ad has for each name that was looked for in it is remembered, too.
"""

from __future__ import annotations

from typing import Any, Final

from pool.classad.eval.ad import ClassAd, text_of
from pool.classad.eval.references import Walk
from pool.classad.values.attrs import MISSING
from pool.classad.values.kept import Kept
from pool.classad.values.value import PLAIN

KNOWN_BYTES_MAX: Final = 32 << 20
"""Of all that one `Readings` remembers."""
_BYTES_EACH: Final = 2_000

Look = str | bool
"""What there is of an attribute: nothing, a value, or this expression."""


class Reading:
    """What some attributes of an ad read: of the ad itself (`own`, they among it) and of another (`theirs`).

    `lacking`: what was looked for in the ad itself, and is not there. All names are in lower case.
    """

    __slots__ = ("_looks", "lacking", "own", "theirs")

    def __init__(self, ad: ClassAd, names: tuple[str, ...]) -> None:
        walk = Walk(ad.attrs)
        walk.attributes(names)
        self.own = frozenset(walk.internal)
        self.lacking = frozenset(walk.absent)
        self.theirs = frozenset(walk.external)
        self._looks = tuple((key, _look(ad, key)) for key in (*walk.internal, *walk.absent))

    def holds_for(self, ad: ClassAd) -> bool:
        """Whether these attributes of another ad read the same."""
        return all(_look(ad, key) == seen for key, seen in self._looks)

    @property
    def cost(self) -> int:
        """About how many bytes it takes."""
        return _BYTES_EACH + sum(len(seen) for _, seen in self._looks if isinstance(seen, str))


class Readings:
    """What attributes of these names read in one ad and another."""

    def __init__(self, *names: str) -> None:
        self._names = tuple(name.lower() for name in names)
        self._known: Kept[tuple[Look, ...], Reading] = Kept(KNOWN_BYTES_MAX)

    def of(self, ad: ClassAd) -> Reading:
        """What they read in this one."""
        looks = tuple([_look(ad, name) for name in self._names])
        known = self._known.find(looks)
        if known is None or not known.holds_for(ad):
            known = Reading(ad, self._names)
            self._known.put(looks, known, known.cost)
        return known

    def __len__(self) -> int:
        return len(self._known)


def _look(ad: ClassAd, key: str) -> Look:
    stored: Any = ad.attrs.lookup(key)
    if type(stored) in PLAIN:
        return True
    return stored is not MISSING and text_of(stored)
