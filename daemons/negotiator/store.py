"""The accountant's table on disk: SQLite, in SPOOL.

It is written after each charge, so that a restart loses little; what an administrator changes survives a power cut.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import Final

from pool.base.errors import PoolError
from pool.base.private_file import keep_private
from pool.matching import SubmitterAccount

_COLUMNS: Final = tuple(field.name for field in fields(SubmitterAccount))

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS accounts (
    submitter        TEXT PRIMARY KEY,
    factor           REAL NOT NULL,
    priority         REAL NOT NULL,
    in_use           INTEGER NOT NULL,
    weighted_in_use  REAL NOT NULL,
    usage_s          REAL NOT NULL,
    weighted_usage_s REAL NOT NULL,
    began_at         REAL NOT NULL,
    last_used_at     REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
"""


class AccountStore:
    """The file. Its methods may run in any thread, one at a time."""

    def __init__(self, path: Path | str) -> None:
        keep_private(path)
        self._path = path
        self._saved: dict[str, SubmitterAccount] = {}
        with self._named():
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(_SCHEMA)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise PoolError(
                f"the accounts in {self._path} cannot be read: {error}",
                expected="the SQLite database of this negotiator; without a file it begins with nobody's use",
            ) from None

    def load(self) -> tuple[dict[str, SubmitterAccount], float]:
        """All accounts, and the time up to which they are charged (0: never)."""
        with self._named():
            rows = self._connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM accounts").fetchall()
            updated = self._connection.execute("SELECT value FROM state WHERE name = 'updated_at'").fetchone()
        self._saved = {row[0]: SubmitterAccount(*row) for row in rows}
        return dict(self._saved), updated[0] if updated else 0.0

    def save(self, accounts: Iterable[SubmitterAccount], updated_at: float, *, durable: bool = False) -> None:
        """Write what is different. Who has a name that is no text has no record: others' must not be lost for it.

        `durable`: it is on the disk when this returns. Without, a power cut may cost the last charges, and no more.
        """
        now = {account.submitter: account for account in accounts if _is_text(account.submitter)}
        changed = [account for name, account in now.items() if self._saved.get(name) != account]
        gone = [(name,) for name in self._saved if name not in now]
        marks = ", ".join("?" * len(_COLUMNS))
        # In WAL mode NORMAL syncs only at a checkpoint, FULL at each commit (sqlite.org, "PRAGMA synchronous"). A sync
        # takes all commits before it along, so charges need none of their own.
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        # The lock at once: a reader such as a backup makes this wait, and not fail in the middle.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(f"REPLACE INTO accounts VALUES ({marks})", [astuple(a) for a in changed])
            self._connection.executemany("DELETE FROM accounts WHERE submitter = ?", gone)
            self._connection.execute("REPLACE INTO state VALUES ('updated_at', ?)", (updated_at,))
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._saved = now

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
