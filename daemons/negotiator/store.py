"""The accountant's table on disk: SQLite, in SPOOL.

It is written after each charge, so that a restart loses little; what an administrator changes survives a power cut.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from daemons.base.faults import fault
from daemons.base.named_file import named_file
from pool.accounting import SubmitterAccount
from pool.accounting.leases import Lease
from pool.base.private_file import keep_private

_COLUMNS: Final = tuple(field.name for field in fields(SubmitterAccount) if field.name != "leases")
_ADDED: Final = (("ceiling", "REAL NOT NULL DEFAULT -1"), ("floor", "REAL NOT NULL DEFAULT 0"))
"""Columns that tables of earlier versions lack."""

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
CREATE TABLE IF NOT EXISTS leases (
    submitter TEXT NOT NULL,
    attribute TEXT NOT NULL,
    until     REAL NOT NULL,
    before    REAL NOT NULL,
    PRIMARY KEY (submitter, attribute)
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
            known = {row[1] for row in self._connection.execute("PRAGMA table_info(accounts)")}
            for name, kind in _ADDED:
                if name not in known:
                    self._connection.execute(f"ALTER TABLE accounts ADD COLUMN {name} {kind}")

    def _named(self) -> AbstractContextManager[None]:
        expected = "the SQLite database of this negotiator; without a file it begins with nobody's use"
        return named_file(self._path, "the accounts", expected)

    def load(self) -> tuple[dict[str, SubmitterAccount], float]:
        """All accounts, and the time up to which they are charged (0: never)."""
        with self._named():
            rows = self._connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM accounts").fetchall()
            leases = self._connection.execute("SELECT submitter, attribute, until, before FROM leases").fetchall()
            updated = self._connection.execute("SELECT value FROM state WHERE name = 'updated_at'").fetchone()
        self._saved = {row[0]: SubmitterAccount(*row) for row in rows}
        for submitter, *lease in leases:
            if (account := self._saved.get(submitter)) is not None:
                self._saved[submitter] = replace(account, leases=(*account.leases, Lease(*lease)))
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
            rows = [tuple(getattr(account, name) for name in _COLUMNS) for account in changed]
            self._connection.executemany(f"REPLACE INTO accounts ({', '.join(_COLUMNS)}) VALUES ({marks})", rows)
            self._connection.executemany("DELETE FROM accounts WHERE submitter = ?", gone)
            self._save_leases([account.submitter for account in changed] + [name for (name,) in gone], now)
            self._connection.execute("REPLACE INTO state VALUES ('updated_at', ?)", (updated_at,))
            fault("negotiator.before_accounts_commit")
            self._connection.execute("COMMIT")
            fault("negotiator.after_accounts_commit")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._saved = now

    def _save_leases(self, submitters: Iterable[str], now: Mapping[str, SubmitterAccount]) -> None:
        """Those of the accounts that have changed."""
        before = {name for name in submitters if name in self._saved and self._saved[name].leases}
        self._connection.executemany("DELETE FROM leases WHERE submitter = ?", [(name,) for name in before])
        rows = [
            (name, lease.attribute, lease.until, lease.before)
            for name in submitters
            if name in now
            for lease in now[name].leases
        ]
        self._connection.executemany("REPLACE INTO leases VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
