"""What a collector knows: ads by type and name, for as long as each lives, and what of them changed for whom.

An ad replaces the one of the same type and name (`kept_name` in pool/hosts/daemon_names.py). It lives for its
ClassAdLifetime from when it was heard, and is then absent. Whoever watches gets a `Watch`: the changes since it last
looked, one per ad, so that a slow watcher costs no more than the table itself. Types and names compare without case.
All that happens to ads is numbered, so that a watch can begin where another one ended; of the ads that are gone the
last GONE_MAX are remembered for that.

A sender has at most ADS_PER_SENDER_MAX ads and BYTES_PER_SENDER_MAX bytes: what one sends takes no other's room.

Source: HTCondor manual, "Configuration Macros" (CLASSAD_LIFETIME) and "condor_advertise".
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from sys import intern
from typing import Final, NamedTuple

from pool.ads.kept import KeptAd
from pool.ads.key import Key, key_of
from pool.ads.limits import DAEMONS, AdLimits
from pool.base.errors import UserError
from pool.classad import ClassAd, Expr
from pool.classad.eval.budget import Patience
from pool.classad.values.truth import is_true
from pool.hosts.daemon_names import kept_name

LIFETIME_S: Final = 900.0
ADS_PER_SENDER_MAX: Final = 50_000
BYTES_PER_SENDER_MAX: Final = 128 << 20
ANY: Final = "any"
GONE_MAX: Final = 10_000


class Place(NamedTuple):
    """Where an ad is, and its type and the name under which it is kept, as they are spelt."""

    key: Key
    ad_type: str
    name: str


class StoredAd(NamedTuple):
    """An ad and when it was heard; `secret` is what only the negotiator may see, `sender` who is charged for it."""

    key: Key
    """What it replaces, and is replaced by."""
    ad_type: str
    name: str
    kept: KeptAd
    secret: KeptAd | None
    sender: str
    heard_at: float
    expires_at: float
    version: int = 0
    """What its sender calls it, to speak of changes; 0: nothing."""
    at: int = 0
    """The number of its coming."""

    @property
    def size(self) -> int:
        """The bytes that its sender is charged."""
        return self.kept.size + (self.secret.size if self.secret is not None else 0)

    @property
    def ad(self) -> ClassAd:
        """The ad, made anew of what is kept."""
        return self.kept.ad()

    @property
    def private(self) -> ClassAd | None:
        """The private half, made anew."""
        return None if self.secret is None else self.secret.ad()


class GoneAd(NamedTuple):
    """An ad that is gone, and the number of its going."""

    ad_type: str
    name: str
    at: int

    @property
    def key(self) -> Key:
        """Its place when it was there."""
        return key_of(self.ad_type, self.name)


class Told(NamedTuple):
    """What a watcher is told of an ad: what it is now (None: gone), and what he was told before (None: nothing)."""

    ad_type: str
    name: str
    stored: StoredAd | None
    before: StoredAd | None
    at: int = 0


class Watch:
    """What one watcher has not been told yet. `wake` is called whenever there is something new.

    `goes_on`: a watch before this one may have told it of any ad, so it hears once of each that is not for it now.
    """

    def __init__(
        self, ad_types: Iterable[str], constraint: Expr | None, wake: Callable[[], None], *, goes_on: bool = False
    ) -> None:
        self._types = frozenset(ad_type.lower() for ad_type in ad_types)
        self._constraint = None if constraint is None else Patience(constraint)
        self._wake = wake
        self._goes_on = goes_on
        self._refused: set[Key] = set()
        self._pending: dict[Key, StoredAd | GoneAd] = {}
        self._told: dict[Key, StoredAd] = {}

    def wants_type(self, ad_type: str) -> bool:
        """Whether ads of this type are watched at all."""
        return ad_type.lower() in self._types or ANY in self._types

    def changed(self, key: Key, now: StoredAd | GoneAd) -> None:
        """An ad is new, different or gone."""
        # Taken out first, so that the newest change stands last: an ad that changes all the time holds up no other.
        self._pending.pop(key, None)
        self._pending[key] = now
        self._wake()

    def take(self, most: int) -> list[Told]:
        """Up to `most` changes, the oldest first."""
        out: list[Told] = []
        while self._pending and len(out) < most:
            key = next(iter(self._pending))
            now = self._pending.pop(key)
            # Asked when it is taken, not when it changes: of ten changes in between only the last is evaluated.
            stored = now if isinstance(now, StoredAd) and self._selects(now) else None
            before = self._told.pop(key, None)
            if stored is not None:
                self._told[key] = stored
            if stored is not None or before is not None or self._may_be_known(key, now):
                out.append(Told(now.ad_type, now.name, stored, before, now.at))
        return out

    def _may_be_known(self, key: Key, now: StoredAd | GoneAd) -> bool:
        """Whether an ad that this watch has never told, and does not tell, may have been told by one before."""
        if not self._goes_on or key in self._refused:
            return False
        # What is gone need not be remembered: it is told again only if it comes again, and then perhaps once more.
        if isinstance(now, StoredAd):
            self._refused.add(key)
        return True

    def __bool__(self) -> bool:
        return bool(self._pending)

    def _selects(self, stored: StoredAd) -> bool:
        return self._constraint is None or is_true(self._constraint.eval(stored.kept.view()))


class AdStore:
    """All ads, with their watchers. The clock is the caller's."""

    def __init__(
        self,
        *,
        lifetime_s: float = LIFETIME_S,
        per_sender_max: int = ADS_PER_SENDER_MAX,
        bytes_per_sender_max: int = BYTES_PER_SENDER_MAX,
        limits: AdLimits = DAEMONS,
    ) -> None:
        self.lifetime_s = lifetime_s
        self.per_sender_max = per_sender_max
        self.bytes_per_sender_max = bytes_per_sender_max
        self.limits = limits
        self._ads: dict[str, dict[Key, StoredAd]] = {}
        self._per_sender: dict[str, tuple[int, int]] = {}
        self._expiries: list[tuple[float, int, Key]] = []
        self._looked_at: dict[Key, float] = {}
        self._numbers = itertools.count()
        self._watches: list[Watch] = []
        self.at = 0
        """The number of what happened last."""
        self._gone: deque[GoneAd] = deque()
        self._forgotten_at = 0

    def __len__(self) -> int:
        return sum(map(len, self._ads.values()))

    def counts(self) -> dict[str, int]:
        """How many ads of each type there are."""
        return {next(iter(ads.values())).ad_type: len(ads) for ads in self._ads.values() if ads}

    # ---- changes

    def put(
        self,
        ad: ClassAd | KeptAd,
        private: ClassAd | KeptAd | None = None,
        *,
        now: float,
        sender: str = "",
        version: int = 0,
    ) -> StoredAd:
        """Keep an ad; UserError when it is none that can be kept."""
        kept = KeptAd(ad) if isinstance(ad, ClassAd) else ad
        secret = KeptAd(private) if isinstance(private, ClassAd) else private
        ad_type, name = kept.eval_str("MyType", ""), kept_name(kept)
        if not ad_type or not name:
            raise UserError("an ad for the collector needs MyType and Name")
        place = Place(key_of(ad_type, name), intern(ad_type), name)
        return self.put_at(place, kept, secret, now=now, sender=sender, version=version)

    def put_at(
        self, place: Place, kept: KeptAd, secret: KeptAd | None, *, now: float, sender: str, version: int
    ) -> StoredAd:
        """Keep an ad whose place is known."""
        key, ad_type, name = place
        self._judge(kept, "ad", place)
        size = kept.size
        if secret is not None:
            self._judge(secret, "private ad", place)
            size += secret.size
        ads = self._ads.get(key[0])
        if ads is None:
            ads = self._ads[key[0]] = {}
        before = ads.get(key)
        if before is not None:
            key, name = before.key, before.name if before.name == name else name
        self._charge_for(sender, before, size)
        lifetime_s = self.lifetime_s
        if kept.get("classadlifetime") is not None:
            lifetime_s = kept.view().eval_float("ClassAdLifetime", lifetime_s) or lifetime_s
            if math.isnan(lifetime_s):  # at the head of the heap it would compare with nothing, and no ad would expire
                lifetime_s = self.lifetime_s
        self.at += 1
        stored = StoredAd(key, ad_type, name, kept, secret, intern(sender), now, now + lifetime_s, version, self.at)
        ads[key] = stored
        self._expect(key, stored)
        self._tell(key, stored)
        return stored

    def _judge(self, kept: KeptAd, what: str, place: Place) -> None:
        if len(kept) > self.limits.attributes or kept.size > self.limits.size:
            self.limits.judge(len(kept), kept.size, f"the {what} {place.ad_type} {place.name:.80}")

    def _charge_for(self, sender: str, before: StoredAd | None, size: int) -> None:
        """Let the sender pay for an ad in the place of that one; UserError where it has no more room."""
        had = before if before is not None and before.sender == sender else None
        count, total = self._per_sender.get(sender, (0, 0))
        if had is not None and total - had.size + size <= self.bytes_per_sender_max:
            self._per_sender[sender] = count, total - had.size + size
            return
        if had is None and count >= self.per_sender_max:
            raise UserError(f"{sender} has {self.per_sender_max} ads here already")
        if total - (had.size if had is not None else 0) + size > self.bytes_per_sender_max:
            raise UserError(f"the ads of {sender} have {total} bytes already", expected=f"{self.bytes_per_sender_max}")
        if before is not None:
            self._charge(before.sender, -1, -before.size)
        self._charge(sender, 1, size)

    def remove(self, ad_type: str, name: str) -> StoredAd | None:
        """Forget an ad; what it was."""
        key = key_of(ad_type, name)
        stored = self._ads.get(key[0], {}).pop(key, None)
        if stored is not None:
            self._looked_at.pop(key, None)
            self._charge(stored.sender, -1, -stored.size)
            self.at += 1
            self._gone.append(gone := GoneAd(stored.ad_type, stored.name, self.at))
            if len(self._gone) > GONE_MAX:
                self._forgotten_at = self._gone.popleft().at
            self._tell(key, gone)
        return stored

    def expire(self, now: float) -> list[StoredAd]:
        """Forget the ads whose time is over."""
        gone: list[StoredAd] = []
        while self._expiries and self._expiries[0][0] <= now:
            at, _, key = heapq.heappop(self._expiries)
            if self._looked_at.get(key) != at:
                continue  # it is to be looked at sooner, or was removed
            del self._looked_at[key]
            stored = self._ads[key[0]][key]
            if stored.expires_at > now:
                self._expect(key, stored)
                continue
            self.remove(stored.ad_type, stored.name)
            gone.append(stored)
        return gone

    def next_expiry(self) -> float | None:
        """When to call `expire` next; it may turn out that nothing has expired by then."""
        return self._expiries[0][0] if self._expiries else None

    # ---- questions

    def get(self, ad_type: str, name: str) -> StoredAd | None:
        """One ad."""
        key = key_of(ad_type, name)
        return self._ads.get(key[0], {}).get(key)

    def at_place(self, place: Place) -> StoredAd | None:
        """The ad of a place."""
        ads = self._ads.get(place.key[0])
        return None if ads is None else ads.get(place.key)

    def of_type(self, ad_type: str) -> list[StoredAd]:
        """The ads of a type (`Any`: of all) at this moment, in the order in which they first came."""
        if ad_type.lower() == ANY:
            return [stored for ads in self._ads.values() for stored in ads.values()]
        return list(self._ads.get(ad_type.lower(), {}).values())

    def select(self, ad_type: str, constraint: Expr | None) -> Iterator[StoredAd | None]:
        """The ads for which the constraint is true; None in the place of each other, so that a caller may pause.

        TooDear when the constraint costs too much for too many of them.
        """
        asked = None if constraint is None else Patience(constraint)
        for stored in self.of_type(ad_type):
            yield stored if asked is None or is_true(asked.eval(stored.kept.view())) else None

    # ---- watchers

    def remembers(self, at: int) -> bool:
        """Whether it is known what has happened since this number."""
        return self._forgotten_at <= at <= self.at

    def watch(
        self,
        ad_types: Iterable[str],
        constraint: Expr | None,
        wake: Callable[[], None],
        *,
        since: int | None = None,
        goes_on: bool = False,
    ) -> Watch:
        """Begin to watch; the first changes are the ads that are there, or what has happened `since`.

        That number must be one that is remembered. `goes_on`: as `Watch` has it.
        """
        watch = Watch(ad_types, constraint, wake, goes_on=goes_on)
        news: Iterable[StoredAd | GoneAd] = (stored for ads in self._ads.values() for stored in ads.values())
        if since is not None:
            news = sorted((one for one in chain(news, self._gone) if one.at > since), key=lambda one: one.at)
        for one in news:
            if watch.wants_type(one.ad_type):
                watch.changed(one.key, one)
        self._watches.append(watch)
        return watch

    def unwatch(self, watch: Watch) -> None:
        """End a watch."""
        self._watches.remove(watch)

    # ---- inside

    def _tell(self, key: Key, now: StoredAd | GoneAd) -> None:
        for watch in self._watches:
            if watch.wants_type(now.ad_type):
                watch.changed(key, now)

    def _charge(self, sender: str, ads: int, size: int) -> None:
        count, total = self._per_sender.get(sender, (0, 0))
        count += ads
        if count:
            self._per_sender[sender] = count, total + size
        else:
            self._per_sender.pop(sender, None)

    def _expect(self, key: Key, stored: StoredAd) -> None:
        """Look at the ad when it expires at the latest: one that is renewed in time is looked at, and expected anew."""
        due = self._looked_at.get(key)
        if due is not None and due <= stored.expires_at:
            return
        self._looked_at[key] = stored.expires_at
        heapq.heappush(self._expiries, (stored.expires_at, next(self._numbers), key))
        # What is gone, or is looked at sooner, leaves its entry, and the heap is made anew when most of it is such.
        if len(self._expiries) > 1000 + 2 * len(self._looked_at):
            self._expiries = [(at, next(self._numbers), key) for key, at in self._looked_at.items()]
            heapq.heapify(self._expiries)
