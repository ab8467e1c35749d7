"""The queue's SQLite file: opened, migrated, read once at the start, and written in batches.

A `WriteBatch` is all that changed since the last one; it becomes one transaction, on disk when `commit` returns
(WAL with synchronous=FULL). Batches are plain values, so that the thread which commits shares nothing with anybody.

* The file has the version of its schema (PRAGMA user_version). `SCHEMAS` leads from each version to the next; a file of
  a later version than this one knows is refused.
* A text that is no UTF-8 (names of files may be none) is stored as a blob; everything else is text and numbers.
* What a migration takes out is overwritten (secure_delete), also in the write-ahead log: it may have been a secret.
* `checkpoint` is called where it holds nobody up, never by SQLite itself.

Source: SQLite's documentation of "Write-Ahead Logging" and of PRAGMA synchronous, secure_delete and user_version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pool.base.errors import ConfigError
from pool.base.ids import ClaimId
from pool.base.private_file import keep_private

SCHEMAS: Final = ("schema.sql", "schema_2.sql", "schema_3.sql", "schema_4.sql")
"""What leads from each version of the file to the next; a new file goes through all of them."""
VERSION: Final = len(SCHEMAS)
BUSY_TIMEOUT_S: Final = 10.0
MANY_JOBS: Final = 10_000
BESIDE_CACHE_KIB: Final = 256
"""What a connection that goes through the file once keeps of it: SQLite's usual is 2 MB."""

_HERE: Final = Path(__file__).parent
"""Where the schema is. importlib.resources would import zipfile and more: 2 MB in every schedd."""


class ClusterRow(NamedTuple):
    """One row of `clusters`."""

    cluster: int
    live: int
    user: str
    owner: str
    procs: int
    ad: str


class JobRow(NamedTuple):
    """One row of `jobs`."""

    cluster: int
    proc: int
    status: int
    prio: int
    ad: str


class EventRow(NamedTuple):
    """One row of `events`: `text` may be several events, each complete."""

    seq: int
    owner: str
    log: str
    text: str


class ClaimRow(NamedTuple):
    """One row of `claims`."""

    claim: str
    digest: str
    startd: str
    submitter: str
    owner: str
    slot_ad: str
    ticket: str
    files_ticket: str
    lease_s: float
    alive_s: float
    renewed_at: float
    cluster: int | None
    proc: int | None
    activation: str


class ClaimWork(NamedTuple):
    """What a claim does now, how long its lease is, and when that was last renewed."""

    cluster: int | None
    proc: int | None
    activation: str
    renewed_at: float
    lease_s: float
    claim: str


class HistoryRow(NamedTuple):
    """What `history` is told of a job that leaves."""

    cluster: int
    proc: int
    owner: str
    status: int
    left_at: float
    ad: str


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Changes that become durable together."""

    clusters: Sequence[ClusterRow] = ()
    jobs: Sequence[JobRow] = ()
    jobs_gone: Sequence[tuple[int, int]] = ()
    events: Sequence[EventRow] = ()
    events_written: Sequence[tuple[int]] = ()
    claims: Sequence[ClaimRow] = ()
    claim_work: Sequence[ClaimWork] = ()
    claims_gone: Sequence[tuple[str]] = ()
    history: Sequence[HistoryRow] = ()
    next_cluster: int | None = None
    factories: Sequence[tuple[int, str]] = ()
    factories_gone: Sequence[tuple[int]] = ()


def open_queue(path: str | Path, *, schema: int = VERSION) -> sqlite3.Connection:
    """A connection to the queue in this file, which is made or migrated when need be, as far as `schema`."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    keep_private(path)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL would lose the last commits to a power cut, of jobs whose submitters were told that they are durable.
        connection.execute("PRAGMA synchronous = FULL")
        # A burst of submits would otherwise leave a log of its own size behind for good.
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # `checkpoint` is called instead, where it holds nobody up
        migrate(connection, str(path), schema)
    except BaseException:
        connection.close()
        raise
    return connection


def file_of(connection: sqlite3.Connection) -> str:
    """The file of a connection; asked where that is used, for two threads cannot have one statement of it at once."""
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


def open_beside(path: str) -> sqlite3.Connection:
    """Another connection to a file that is open, for what goes through it once: it keeps few pages in memory."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA cache_size = -{BESIDE_CACHE_KIB}")
    return connection


def open_for_reading(path: str | Path) -> sqlite3.Connection:
    """A second connection, for long queries of the history beside the writer."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


def migrate(connection: sqlite3.Connection, path: str, schema: int = VERSION) -> None:
    """Bring the queue in this file to a schema; ConfigError when it is of a later version of minipool."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == schema:
        return
    if version > VERSION:
        raise ConfigError(f"{path} was written by a newer minipool (schema {version}, this one knows {VERSION})")
    connection.create_function("claim_public", 1, lambda id: ClaimId(id).public(), deterministic=True)
    connection.create_function("claim_digest", 1, lambda id: ClaimId(id).digest(), deterministic=True)
    connection.execute("PRAGMA secure_delete = ON")  # nothing of what goes stays in the file's free pages
    # One script with its own BEGIN and COMMIT: executescript commits what is open, so nothing may be begun before it.
    steps = "\n".join(_HERE.joinpath(name).read_text("utf-8") for name in SCHEMAS[version:schema])
    connection.executescript(f"BEGIN IMMEDIATE;\n{steps}\nPRAGMA user_version = {schema};\nCOMMIT;")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # nor in the write-ahead log


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of what is done within, or, when that raises, nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite itself rolls some failures back (a full disk may be one); a second time would be an error.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def commit(connection: sqlite3.Connection, batch: WriteBatch) -> None:
    """Write the batch as one transaction; nothing of it is there when this raises."""
    with transaction(connection):
        for statement, rows in _statements(batch):
            if rows:
                connection.executemany(statement, rows)


def _statements(batch: WriteBatch) -> Iterator[tuple[str, Sequence[tuple[object, ...]]]]:
    """What makes the batch's changes, each with its rows. What leaves a table comes after what enters it."""
    yield "INSERT OR REPLACE INTO clusters VALUES (?, ?, ?, ?, ?, ?)", batch.clusters
    yield "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?)", batch.jobs
    yield "DELETE FROM jobs WHERE cluster = ? AND proc = ?", batch.jobs_gone
    yield "INSERT INTO history (cluster, proc, owner, status, left_at, ad) VALUES (?, ?, ?, ?, ?, ?)", batch.history
    events = [(row.seq, row.owner, stored_text(row.log), stored_text(row.text)) for row in batch.events]
    yield "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)", events
    yield "DELETE FROM events WHERE seq = ?", batch.events_written
    yield "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", batch.claims
    yield (
        "UPDATE claims SET cluster = ?, proc = ?, activation = ?, renewed_at = ?, lease_s = ? WHERE claim = ?",
        batch.claim_work,
    )
    yield "DELETE FROM claims WHERE claim = ?", batch.claims_gone
    yield "INSERT OR REPLACE INTO factories VALUES (?, ?)", batch.factories
    yield "DELETE FROM factories WHERE cluster = ?", batch.factories_gone
    if batch.next_cluster is not None:
        yield "INSERT OR REPLACE INTO counters VALUES ('next_cluster', ?)", [(batch.next_cluster,)]


def stored_text(text: str) -> str | bytes:
    """A text as SQLite takes it: one with bytes that are no UTF-8, which names of files may have, as a blob."""
    if not text.isascii():
        raw = text.encode("utf-8", "surrogateescape")
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw
    return text


def read_text(stored: str | bytes) -> str:
    """The text that `stored_text` made this of."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogateescape")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Copy the write-ahead log into the database, so that it can begin anew."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


# Reading at a start.


def read_clusters(connection: sqlite3.Connection) -> Iterator[ClusterRow]:
    """The clusters with jobs in the queue, by id."""
    return map(ClusterRow._make, connection.execute("SELECT * FROM clusters WHERE live = 1 ORDER BY cluster"))


def read_jobs(connection: sqlite3.Connection) -> Iterator[tuple[int, int, int, int, str]]:
    """The values of all `JobRow`s, by id."""
    return connection.execute("SELECT cluster, proc, status, prio, ad FROM jobs ORDER BY cluster, proc")


def has_many_jobs(connection: sqlite3.Connection) -> bool:
    """Whether reading all jobs is worth some care."""
    (found,) = connection.execute("SELECT COUNT(*) FROM (SELECT 1 FROM jobs LIMIT ?)", (MANY_JOBS,)).fetchone()
    return bool(found >= MANY_JOBS)


def read_events(connection: sqlite3.Connection) -> list[EventRow]:
    """The events that may be missing in their logs, oldest first."""
    rows = connection.execute("SELECT * FROM events ORDER BY seq")
    return [EventRow(seq, owner, read_text(log), read_text(text)) for seq, owner, log, text in rows]


def read_claims(connection: sqlite3.Connection) -> list[ClaimRow]:
    """The slots that were held."""
    return [ClaimRow._make(row) for row in connection.execute("SELECT * FROM claims")]


def read_factories(connection: sqlite3.Connection) -> dict[int, str]:
    """The recipes of clusters that still make jobs."""
    return dict(connection.execute("SELECT cluster, recipe FROM factories"))


def read_counter(connection: sqlite3.Connection, name: str, default: int) -> int:
    """A number that outlives restarts."""
    row = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
    return default if row is None else int(row[0])
