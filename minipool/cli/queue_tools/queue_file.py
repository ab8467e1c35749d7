"""`pool queue`: write the job queue to a file, make a queue of such a file, look whether a queue is sound."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, VERSION_OPT, Tool, run
from pool.base.errors import PoolError, UserError

if TYPE_CHECKING:
    from minipool.client.session import Session

TOOL = Tool(
    "pool queue",
    "Back up, restore or check the job queue.",
    "dump [FILE] | load FILE | check",
    (
        Opt("file", 1, 1, "FILE", "the queue's file (SPOOL/job_queue.sqlite)"),
        DEBUG,
        HELP,
        VERSION_OPT,
    ),
    notes="dump and check may be used while the schedd runs; load may not. What was there before a load is kept beside"
    "\nthe new file, with `.before` at the end of its name. These are for the account that the pool runs as.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool queue`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    words = list(parsed.words)
    what = words.pop(0) if words else ""
    if what not in ("dump", "load", "check") or len(words) > (what != "check") or (what == "load" and not words):
        raise UsageError("Say dump, load FILE or check")
    from minipool.cli.entry.context import open_session

    session = open_session(parsed)
    path = parsed.value("file") or os.path.join(session.config.path("SPOOL"), "job_queue.sqlite")
    if what == "load":
        return _load(session, words[0], path)
    if not os.path.exists(path):
        raise UserError(f"there is no queue {path}")
    return _dump(path, words[0] if words else "-") if what == "dump" else _check(path)


def _dump(path: str, where: str) -> int:
    from pool.jobs.queue import backup
    from pool.jobs.queue.store import open_for_reading

    connection = open_for_reading(path)
    if where == "-":
        sys.stdout.writelines(backup.dump(connection))
        return 0
    # A backup that was interrupted must not look like one.
    unfinished = where + ".unfinished"
    with open(unfinished, "w", encoding="utf-8", opener=_private) as file:
        file.writelines(backup.dump(connection))
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, where)
    return 0


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _load(session: Session, source: str, path: str) -> int:
    from pathlib import Path

    from pool.jobs.queue import backup

    # It keeps the queue in memory, and would write what it knows over what was loaded.
    if _schedd_runs(session):
        raise UserError("the schedd runs; stop it first (condor_off -daemon schedd)")
    fresh = Path(path + ".loading")
    for name in (fresh, Path(f"{fresh}-wal"), Path(f"{fresh}-shm")):
        name.unlink(missing_ok=True)
    try:
        with open(source, encoding="utf-8") if source != "-" else sys.stdin as lines:
            count = backup.load(lines, fresh)
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from None
    # The log of SQLite's changes before the database: alone it is worth nothing, and beside a new one it is poison.
    for end in ("-wal", "-shm", ""):
        if os.path.exists(path + end):
            os.replace(path + end, path + ".before" + end)
    os.replace(fresh, path)
    sys.stdout.write(f"{count} rows are in {path}\n")
    return 0


def _schedd_runs(session: Session) -> bool:
    try:
        with session.daemon("schedd"):
            return True
    except PoolError:
        return False


def _check(path: str) -> int:
    from pool.jobs.queue import backup
    from pool.jobs.queue.store import open_for_reading

    problems = backup.check(open_for_reading(path))
    for said in problems:
        sys.stdout.write(f"{said}\n")
    if not problems:
        sys.stdout.write(f"{path} is sound\n")
    return 1 if problems else 0
