"""Ads of machines that are absent or offline, in a file: a collector that restarts has them again.

An ad is offline when it says so (`Offline = true`, as of a machine that sleeps); `pool/ads/absent.py` says which are
absent. The file is SQLite; it has one row for each such ad. What is to change in it is written by one task, some
milliseconds later: a collector that is killed within those loses nothing but that change.

Source: HTCondor's manual, "Collector Daemon Configuration Options" (COLLECTOR_PERSISTENT_AD_LOG) and "Power
Management" (OFFLINE_LOG, OFFLINE_EXPIRE_ADS_AFTER).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

from daemons.base.named_file import Foreign, named_file
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from pool.ads.key import Key, key_of
from pool.ads.table import StoredAd
from pool.base.private_file import keep_private
from pool.classad import ClassAd
from protocol.wire.ad_table import unpack_ads
from protocol.wire.codec import pack_ads

ASIDE: Final = ".unreadable"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS ads (
    type     TEXT NOT NULL,
    name     TEXT NOT NULL,
    sender   TEXT NOT NULL,
    heard_at REAL NOT NULL,
    ad       BLOB NOT NULL,
    PRIMARY KEY (type, name)
) WITHOUT ROWID;
"""


class KeptAd(NamedTuple):
    """An ad as it was when the collector ended."""

    ad: ClassAd
    sender: str
    heard_at: float


class PersistentAds:
    """What is to be in the file. `current` tells what of an ad's place is: None where nothing is to be kept."""

    def __init__(self, start: DaemonStart, current: Callable[[Key], StoredAd | None]) -> None:
        self._start, self._current = start, current
        self._changed: set[Key] = set()
        self._news = Signal()
        self._path = start.config.path("COLLECTOR_PERSISTENT_AD_LOG", "") or start.config.path("OFFLINE_LOG", "")
        self._file: AdFile | None = None
        self._kept: set[Key] = set()

    def load(self) -> Iterator[KeptAd]:
        """The ads that were kept; none of a file that holds something else, in whose place there is a new one."""
        if not self._path:
            return
        try:
            self._file = AdFile(self._path)
            ads = self._file.load()
        except Foreign as error:
            if self._file is not None:
                self._file.close()
            aside = _put_aside(self._path)
            self._start.log.always(f"{error}. It is {aside} now, and a new one is begun.")
            self._file, ads = AdFile(self._path), []
        for kept in ads:
            self._kept.add(key_of(kept.ad.eval_str("MyType", ""), kept.ad.eval_str("Name", "")))
            yield kept

    def note(self, key: Key, *, stays: bool) -> None:
        """Something has become of this ad; `stays`: it is one to be kept."""
        if self._file is not None and (stays or key in self._kept):
            self._kept.add(key)
            self._changed.add(key)
            self._news.fire()

    async def run(self) -> None:
        """Write what has changed, for ever."""
        while True:
            news = self._news.next()
            if self._file is not None and self._changed:
                now = {key: self._current(key) for key in self._changed}
                self._changed.clear()
                self._kept -= {key for key, stored in now.items() if stored is None}
                try:
                    await self._start.world.threads.run_sync(self._file.save, now)
                except sqlite3.Error as error:
                    # Tried again with the next change.
                    self._changed |= now.keys()
                    self._start.log.always(f"The ads of absent machines are not on disk: {error}")
            await news.wait()


def _put_aside(path: Path | str) -> Path:
    """Give the file another name, and what SQLite has beside it; what was put aside before is lost."""
    aside = Path(f"{path}{ASIDE}")
    for beside in ("", "-wal", "-shm"):
        if (there := Path(f"{path}{beside}")).exists():
            there.replace(f"{aside}{beside}")
    return aside


class AdFile:
    """The file. Its methods may run in any thread, one at a time."""

    def __init__(self, path: Path | str) -> None:
        keep_private(path)
        self._path = path
        with self._named():
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(_SCHEMA)

    def _named(self) -> AbstractContextManager[None]:
        expected = "the SQLite database of this collector (COLLECTOR_PERSISTENT_AD_LOG)"
        return named_file(self._path, "the ads", expected)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def load(self) -> list[KeptAd]:
        """All ads."""
        with self._named():
            rows = self._connection.execute("SELECT sender, heard_at, ad FROM ads ORDER BY heard_at").fetchall()
            return [KeptAd(ad, sender, heard_at) for sender, heard_at, packed in rows for ad in unpack_ads(packed)]

    def save(self, ads: Mapping[Key, StoredAd | None]) -> None:
        """Write these, and remove those that are None."""
        rows = [(*key, one.sender, one.heard_at, pack_ads([one.ad])) for key, one in ads.items() if one is not None]
        self._write(rows, [key for key, one in ads.items() if one is None])

    def _write(self, rows: Iterable[tuple[object, ...]], gone: Iterable[Key]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("REPLACE INTO ads VALUES (?, ?, ?, ?, ?)", rows)
            self._connection.executemany("DELETE FROM ads WHERE type = ? AND name = ?", gone)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
