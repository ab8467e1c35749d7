"""Machines that are expected and absent: their ads, kept when they would have expired, until they are heard of again.

ABSENT_REQUIREMENTS says which ads, ABSENT_EXPIRE_ADS_AFTER for how long. Such an ad has `Absent = true`; only who asks
for ads by Absent is told of it, so that nobody takes it for a machine that is there.

Source: HTCondor's manual, "Collector Daemon Configuration Options" and "Absent ClassAds".
"""

from __future__ import annotations

from collections.abc import Iterator

from pool.ads.limits import AdLimits
from pool.ads.table import ANY, AdStore, Place, StoredAd
from pool.base.errors import UserError
from pool.classad import ClassAd, Expr
from pool.classad.values.truth import is_true

_TYPE = "machine"
_ATTRIBUTE = "absent"
_FOR_EVER_S = 2**31 - 1


class AbsentAds:
    """The ads of absent machines. `requirements`: which become absent; `keep_s`: for how long, 0 for ever."""

    def __init__(self) -> None:
        self.requirements: Expr | None = None
        self.keep_s = 0.0
        self._store = AdStore()

    def __len__(self) -> int:
        return len(self._store)

    def configure(self, requirements: Expr | None, keep_s: float, limits: AdLimits) -> None:
        """What holds from now on."""
        self.requirements, self.keep_s, self._store.limits = requirements, keep_s, limits

    def take(self, gone: StoredAd, *, now: float) -> bool:
        """Keep an ad that has expired, if it is of a machine that is then absent; whether it is."""
        if gone.ad_type.lower() != _TYPE or self.requirements is None or not is_true(self.requirements.eval(gone.ad)):
            return False
        ad = gone.ad.copy()
        ad["Absent"] = True
        ad["ClassAdLifetime"] = int(self.keep_s) or _FOR_EVER_S
        ad["LastHeardFrom"] = ad["MyCurrentTime"] = int(now)
        try:
            self.put(ad, now=now, sender=gone.sender)
        except UserError:
            return False  # its sender has no room for more
        return True

    def put(self, ad: ClassAd, *, now: float, sender: str) -> None:
        """Have the ad of a machine that became absent at this time; UserError where it cannot be kept."""
        self._store.put(ad, now=now, sender=sender)

    def get(self, ad_type: str, name: str) -> StoredAd | None:
        """One ad."""
        return self._store.get(ad_type, name)

    def select(self, ad_type: str, constraint: Expr | None) -> Iterator[StoredAd | None]:
        """Those for which the constraint is true, if it reads Absent; None in the place of each other."""
        if constraint is None or ad_type.lower() not in (_TYPE, ANY):
            return iter(())
        mine, other = constraint.references()
        if all(name.lower() != _ATTRIBUTE for name in mine | other):
            return iter(())
        return self._store.select(ad_type, constraint)

    def forget(self, place: Place) -> None:
        """A machine is there again."""
        if self._store.at_place(place) is not None:
            self._store.remove(place.ad_type, place.name)

    def remove(self, ad_type: str, name: str) -> StoredAd | None:
        """Forget an ad, as the machine is there again or is expected no longer; what it was."""
        return self._store.remove(ad_type, name)

    def expire(self, now: float) -> list[StoredAd]:
        """Forget those that have been absent for too long."""
        return self._store.expire(now)

    def next_expiry(self) -> float | None:
        """When to call `expire` next."""
        return self._store.next_expiry()
