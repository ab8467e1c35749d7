"""Ads as somebody knows them who watches a collector: what is news to him, whatever becomes of the collector.

A collector numbers what happens to its ads, and names the time in which it counts: its generation. Who knows a number
and its generation, as a token, is told only what has happened since, if the collector still knows. Otherwise it tells
all that it has, and what of that is news is seen by comparing.

Rules. An ad that is told again as it was is no news, nor is one in which only the clocks moved. An ad that is not told
again is gone, but not before the collector is settled: one that has just begun knows only those ads that have come
again, and it is settled when those of before would have expired. So a restart alone is no news of any ad, and what
happened meanwhile is told once: what is different when the ad comes again, what is gone when its lifetime is over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pool.ads.key import Key, key_of
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.classad.eval.delta import Delta

if TYPE_CHECKING:
    from pool.ads.kept import KeptAd

CLOCKS: Final = frozenset({"lastheardfrom", "mycurrenttime"})
"""Attributes that are others in each report, whether something has happened or not."""

_ANEW: Final = "-"
_LASTING: Final = "ads seen, 1"
"""What is pickled begins with it, and with another number when the rest changes."""

log = logging.getLogger("pool.ads.seen")


class AdChange(StrEnum):
    """What happened to an ad that is watched."""

    UPDATE = "update"
    CHANGE = "change"
    REMOVE = "remove"
    SYNCED = "synced"
    SETTLED = "settled"


class ToldDelta(Protocol):
    """What a collector says of one change (`protocol.messages.collector.AdDelta`)."""

    @property
    def change(self) -> AdChange: ...
    @property
    def ad_type(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def ad(self) -> ClassAd | None: ...
    @property
    def removed(self) -> Sequence[str]: ...
    @property
    def at(self) -> int: ...
    @property
    def generation(self) -> str: ...
    @property
    def resumed(self) -> bool: ...
    @property
    def settled(self) -> bool: ...


class DoesNotFit(PeerError):
    """A collector has said what cannot be meant; when it tells everything anew, that will."""


class AdNews(NamedTuple):
    """What has become of an ad: it is `ad` now and was `before` (None: there was none). `gone`: `ad` is what it was."""

    ad_type: str
    name: str
    kept: KeptAd
    had: KeptAd | None
    gone: bool = False

    @property
    def ad(self) -> ClassAd:
        """The ad, made anew for whoever asks."""
        return self.kept.ad()

    @property
    def before(self) -> ClassAd | None:
        """What it was, made anew."""
        return None if self.had is None else self.had.ad()

    def __repr__(self) -> str:
        what = "gone" if self.gone else "new" if self.before is None else "changed"
        return f"AdNews({self.ad_type} {self.name}, {what})"


class _Seen(NamedTuple):
    ad_type: str
    name: str
    kept: KeptAd


class SeenAds:
    """All that one watcher was told, for as long as it watches, and longer if a program keeps it.

    The ads are kept as rows (`pool.ads.kept`), of which an ad is made when somebody asks for one.
    """

    def __init__(self) -> None:
        self._ads: dict[Key, _Seen] = {}
        self._untold: set[Key] = set()  # by this connection
        self._doubtful: set[Key] = set()  # by this collector, which is not settled
        self._generation = ""
        self._at = 0
        self.synced = False

    def __getstate__(self) -> tuple[object, ...]:
        ads = [(key, seen.ad_type, seen.name, seen.kept.ad()) for key, seen in self._ads.items()]
        return _LASTING, ads, self._doubtful, self._generation, self._at

    def __setstate__(self, state: object) -> None:
        SeenAds.__init__(self)
        # What another version has kept may be anything: then all is told anew, as to who has seen nothing.
        if type(state) is not tuple or len(state) != 5 or state[0] != _LASTING:
            log.warning("What was seen of ads was kept by another version and cannot be read: all will be told anew.")
            return
        from pool.ads.kept import KeptAd

        _, ads, self._doubtful, self._generation, self._at = state
        self._ads = {key: _Seen(ad_type, name, KeptAd(ad)) for key, ad_type, name, ad in ads}

    def __len__(self) -> int:
        return len(self._ads)

    def __iter__(self) -> Iterator[ClassAd]:
        """The ads, in no particular order."""
        return (seen.kept.ad() for seen in self._ads.values())

    def get(self, ad_type: str, name: str) -> ClassAd | None:
        """One ad."""
        kept = self.kept(ad_type, name)
        return None if kept is None else kept.ad()

    def kept(self, ad_type: str, name: str) -> KeptAd | None:
        """The same as it is kept."""
        seen = self._ads.get(key_of(ad_type, name))
        return None if seen is None else seen.kept

    @property
    def token(self) -> str:
        """Where a collector may go on; empty: with all that it has."""
        return f"{self._generation}.{self._at}" if self._generation else ""

    def begin(self) -> str:
        """A connection is new; the token to be sent over it, none that is known where all has to be told again."""
        self._untold, self.synced = set(self._ads), False
        return self.token or (_ANEW if self._ads else "")

    def forget_token(self) -> None:
        """The next connection is to tell everything: what was told does not fit, or other ads are asked for now."""
        self._generation = ""

    def take(self, told: ToldDelta) -> list[AdNews]:
        """What of this is news; DoesNotFit where it cannot be meant."""
        match told.change:
            case AdChange.SYNCED:
                return self._sync(told)
            case AdChange.SETTLED:
                return self.doubt_ends()
        key = key_of(told.ad_type, told.name)
        before = self._ads.get(key)
        if told.change is AdChange.REMOVE:
            news = self._gone([key])
        else:
            news = self._put(key, told, None if before is None else before.kept)
        # Before all is told the numbers come in no order: nothing can be resumed there.
        if self.synced:
            self._at = told.at
        return news

    def doubt_ends(self) -> list[AdNews]:
        """Take what this collector has not told of to be gone, settled or not: for who needs what is surely there."""
        return self._gone(self._doubtful)

    def _put(self, key: Key, told: ToldDelta, before: KeptAd | None) -> list[AdNews]:
        from pool.ads.kept import KeptAd  # tools know the messages of a watch, and most of them keep no ads

        said = told.ad if told.ad is not None else ClassAd()
        if told.change is AdChange.UPDATE:
            kept = KeptAd(said, like=before)
            different = None if before is None else kept.news_since(before)
        elif before is None:
            self.forget_token()
            raise DoesNotFit(f"it tells of a change of {told.name}, which it has not told of before")
        else:
            different = Delta(said, told.removed)
            kept = before.changed_by(different)
        self._ads[key] = _Seen(told.ad_type, told.name, kept)
        self._untold.discard(key)
        self._doubtful.discard(key)
        # Kept in any case: what is asked of the ad later has to be true, though nobody is told.
        if different is not None and not different.removed and different.changed.attrs.keys() <= CLOCKS:
            return []
        return [AdNews(told.ad_type, told.name, kept, before)]

    def _sync(self, told: ToldDelta) -> list[AdNews]:
        self.synced = True
        self._generation, self._at = told.generation, told.at
        # What a resumed watch does not tell of is as it was; what was doubtful before stays so, for it is the same
        # collector.
        if not told.resumed:
            self._doubtful |= self._untold
        self._untold = set()
        return self.doubt_ends() if told.settled else []

    def _gone(self, keys: Iterable[Key]) -> list[AdNews]:
        # All found before the first is discarded: `keys` may be one of the sets below.
        gone = [(key, seen) for key in keys if (seen := self._ads.pop(key, None)) is not None]
        for key, _ in gone:
            self._untold.discard(key)
            self._doubtful.discard(key)
        return [AdNews(seen.ad_type, seen.name, seen.kept, seen.kept, gone=True) for _, seen in gone]
