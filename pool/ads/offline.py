"""Which offline ads there are of each startd, by the part of their names that its slots share.

A startd is offline with all of its slots or with none. So once one of them is heard of, the offline ads of others that
do not come along are of slots that it has no more: it came back with fewer, or with others.
"""

from __future__ import annotations

from pool.ads.key import Key


class OfflineAds:
    """Their places, by startd."""

    def __init__(self) -> None:
        self._places: dict[str, set[Key]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def note(self, place: Key, *, offline: bool) -> None:
        """Something has become of the ad in this place; `offline`: it is there, and says so."""
        startd = startd_of(place)
        if offline:
            self._places.setdefault(startd, set()).add(place)
        elif places := self._places.get(startd):
            places.discard(place)
            if not places:
                del self._places[startd]

    def of(self, startd: str) -> list[Key]:
        """Those of a startd."""
        return list(self._places.get(startd, ()))


def startd_of(place: Key) -> str:
    """Which startd's slot is in this place: `slot1@host` and `slot2_1@host` are of `host`."""
    _, name = place
    return name.partition("@")[2] or name
