"""The queue as a text that outlives versions, and whether a queue's file is sound.

A dump is JSON lines: a heading, then rows by table, then how many there were. It is read in one transaction, so it is
one moment of the queue, whether a schedd works on it or not. `load` makes a new file of it; what is cut off or was
altered is refused whole.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pool.base.errors import ClassAdError, UserError
from pool.jobs.queue.pack import read_packed
from pool.jobs.queue.store import VERSION, migrate, open_queue, read_text, stored_text

TABLES: Final = ("counters", "clusters", "jobs", "events", "claims", "factories", "history")
FORM: Final = "minipool-queue"
ROWS_PER_INSERT: Final = 1000
PROBLEMS_MAX: Final = 20


def dump(connection: sqlite3.Connection) -> Iterator[str]:
    """The lines of a dump."""
    connection.execute("BEGIN")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        yield json.dumps({"form": FORM, "schema": version}) + "\n"
        count = 0
        for table in TABLES:
            if table not in known:
                continue
            rows = connection.execute(f"SELECT * FROM {table}")
            columns = [column[0] for column in rows.description]
            yield json.dumps({"table": table, "columns": columns}) + "\n"
            for row in rows:
                count += 1
                yield json.dumps([_shown(value) for value in row], separators=(",", ":")) + "\n"
        yield json.dumps({"rows": count}) + "\n"
    finally:
        connection.execute("ROLLBACK")


def _shown(value: object) -> object:
    """A column's value as JSON has it: what is stored as bytes is a text that is no UTF-8."""
    return read_text(value) if isinstance(value, bytes) else value


def load(lines: Iterable[str], path: Path) -> int:
    """Make a queue's file of a dump; how many rows. UserError, and no file, when the dump is not whole."""
    if path.exists():
        raise UserError(f"{path} exists")
    lines = iter(lines)
    connection = open_queue(path, schema=_schema(next(lines, "")))
    try:
        count = _fill(connection, lines)
        migrate(connection, str(path))
    except BaseException:
        connection.close()
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink(missing_ok=True)
        raise
    # The file alone is the queue: whoever moves it to its place need not know of the log beside it.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return count


def _fill(connection: sqlite3.Connection, lines: Iterable[str]) -> int:
    count, number, insert, rows, over = 0, 1, "", [], False
    connection.execute("BEGIN IMMEDIATE")
    for number, line in enumerate(lines, 2):
        try:
            said = json.loads(line)
            if over:
                raise ValueError("there is more after its end")
            if isinstance(said, list):
                count += 1
                rows.append([stored_text(value) if isinstance(value, str) else value for value in said])
                if len(rows) >= ROWS_PER_INSERT:
                    connection.executemany(insert, rows)
                    rows = []
            else:
                if rows:
                    connection.executemany(insert, rows)
                    rows = []
                if "rows" in said:
                    over = said["rows"] == count
                    if not over:
                        raise ValueError(f"it had {said['rows']} rows, and {count} are there")
                else:
                    insert = _insert(connection, said)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, sqlite3.Error) as error:
            raise UserError(f"the dump cannot be read: line {number}: {error}") from None
    if not over:
        raise UserError(f"the dump ends too early, after line {number}")
    connection.execute("COMMIT")
    return count


def _schema(heading: str) -> int:
    """The schema of the dump with this first line."""
    if not heading:
        raise UserError("the dump ends too early, after line 0")
    try:
        said = json.loads(heading)
        if said["form"] != FORM:
            raise ValueError("this is no dump of a queue")
        schema = int(said["schema"])
        if not 0 < schema <= VERSION:
            raise ValueError(f"it was written by a newer minipool (schema {schema}, this one knows {VERSION})")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the dump cannot be read: line 1: {error}") from None
    return schema


def _insert(connection: sqlite3.Connection, said: Any) -> str:
    """The statement that adds a row of a table; columns that came later keep their defaults."""
    table, columns = said["table"], said["columns"]
    if table not in TABLES:
        raise ValueError(f"there is no table {table}")
    known = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    unknown = set(columns) - set(known)
    if unknown:
        raise ValueError(f"the table {table} has no {', '.join(sorted(unknown))}")
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def check(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with a queue, in words; nothing when all is well."""
    problems = [said for (said,) in connection.execute("PRAGMA integrity_check") if said != "ok"]
    if problems:
        return problems[:PROBLEMS_MAX]
    for number, proc in connection.execute(
        "SELECT j.cluster, j.proc FROM jobs j LEFT JOIN clusters c USING (cluster) WHERE c.cluster IS NULL"
    ):
        problems.append(f"job {number}.{proc} is of no cluster")
    for number, proc in connection.execute(
        "SELECT cluster, proc FROM jobs JOIN clusters USING (cluster) WHERE proc >= procs"
    ):
        problems.append(f"job {number}.{proc} has an id that its cluster has not given yet")
    for number, proc, status in connection.execute(
        "SELECT cluster, proc, status FROM jobs WHERE status NOT BETWEEN 1 AND 7"
    ):
        problems.append(f"job {number}.{proc} is in state {status}, which there is not")
    (highest,) = connection.execute("SELECT MAX(cluster) FROM clusters").fetchone()
    row = connection.execute("SELECT value FROM counters WHERE name = 'next_cluster'").fetchone()
    if highest is not None and (row is None or row[0] <= highest):
        problems.append(f"cluster {highest} exists, and the next id is {None if row is None else row[0]}")
    problems += _ads(connection)
    return problems[:PROBLEMS_MAX]


def _ads(connection: sqlite3.Connection) -> list[str]:
    problems = []
    for what, query in (
        ("cluster", "SELECT cluster, ad FROM clusters"),
        ("job", "SELECT cluster || '.' || proc, ad FROM jobs"),
    ):
        for name, text in connection.execute(query):
            try:
                read_packed(text).unpack()
            except (ValueError, KeyError, TypeError, AttributeError, ClassAdError) as error:
                problems.append(f"the ad of {what} {name} cannot be read: {error}")
                if len(problems) >= PROBLEMS_MAX:
                    return problems
    return problems
