#!/usr/bin/env python3
"""Fetch-work hooks that take their work from an SQLite table, and note in it what became of it.

One file, and what it does depends on the name that it is called by: link it as `fetch_work`, `reply_fetch`,
`evict_claim` and `job_exit` into a directory of hooks that only you can write to, and put the database's path into a
file `database` beside them. By its own name it fills and shows the table:

    sqlite_work.py DATABASE add /bin/echo hello      one piece of work; prints its number
    sqlite_work.py DATABASE list                     all of it: number, state, exit code, slot, command

A row is `waiting`, then `running`, then `done`; work that was rejected or evicted waits again.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import sqlite3
import sys
from pathlib import Path

TABLE = """
CREATE TABLE IF NOT EXISTS work (
    id INTEGER PRIMARY KEY,
    command TEXT NOT NULL,
    arguments TEXT NOT NULL DEFAULT '',
    owner TEXT NOT NULL,
    directory TEXT NOT NULL,
    cpus INTEGER NOT NULL DEFAULT 1,
    memory_mb INTEGER NOT NULL DEFAULT 128,
    disk_kib INTEGER NOT NULL DEFAULT 1024,
    state TEXT NOT NULL DEFAULT 'waiting',
    slot TEXT,
    exit_code INTEGER
)
"""
TAKE = """
UPDATE work SET state = 'running', slot = ?
WHERE id = (SELECT id FROM work WHERE state = 'waiting' ORDER BY id LIMIT 1)
RETURNING id, command, arguments, owner, directory, cpus, memory_mb, disk_kib
"""


def connect(path: str) -> sqlite3.Connection:
    """The database; its table is made when it is missing. Many slots may ask at once: each waits for its turn."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute(TABLE)
    return connection


def attribute(ad: str, name: str) -> str:
    """The text of an attribute in an ad, without quotation marks; empty when it is not there."""
    found = re.search(rf"^{name} = (.*)$", ad, re.MULTILINE | re.IGNORECASE)
    return found[1].strip('"') if found else ""


def quoted(text: str) -> str:
    """A string as ads write it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def fetch_work(database: sqlite3.Connection, slot: str) -> None:
    """Print the oldest work that waits, as a job's ad; print nothing when there is none."""
    row = database.execute(TAKE, (attribute(slot, "Name"),)).fetchone()
    if row is None:
        return
    number, command, arguments, owner, directory, cpus, memory, disk = row
    for name, value in (
        ("WorkId", number),
        ("Cmd", quoted(command)),
        ("Arguments", quoted(arguments)),
        ("Owner", quoted(owner)),
        ("IWD", quoted(directory)),
        ("Out", quoted(f"work.{number}.out")),
        ("Err", quoted(f"work.{number}.err")),
        ("RequestCpus", cpus),
        ("RequestMemory", memory),
        ("RequestDisk", disk),
    ):
        print(f"{name} = {value}")


def reply_fetch(database: sqlite3.Connection, ads: str) -> None:
    """The slot has accepted the work, or not: then it waits for another."""
    if sys.argv[1:] == ["reject"]:
        wait_again(database, ads)


def wait_again(database: sqlite3.Connection, ads: str) -> None:
    """The work was not done; somebody else may do it."""
    number = attribute(ads, "WorkId")
    database.execute("UPDATE work SET state = 'waiting', slot = NULL WHERE id = ? AND state = 'running'", (number,))


def job_exit(database: sqlite3.Connection, job: str) -> None:
    """The work has ended; EVICT_CLAIM tells of work that was ended before its time."""
    if sys.argv[1:] == ["exit"]:
        code = attribute(job, "ExitCode") or f"-{attribute(job, 'ExitSignal')}"
        number = attribute(job, "WorkId")
        database.execute("UPDATE work SET state = 'done', exit_code = ? WHERE id = ?", (code, number))


def add(database: sqlite3.Connection, words: list[str]) -> None:
    """Queue a command, to be run as whoever asks, here."""
    arguments = " ".join("'" + word.replace("'", "''") + "'" for word in words[1:])
    row = (words[0], arguments, pwd.getpwuid(os.getuid()).pw_name, os.getcwd())
    done = database.execute("INSERT INTO work (command, arguments, owner, directory) VALUES (?, ?, ?, ?)", row)
    print(done.lastrowid)


def show(database: sqlite3.Connection) -> None:
    """Print the table."""
    for number, state, code, slot, command, arguments in database.execute(
        "SELECT id, state, coalesce(exit_code, ''), coalesce(slot, ''), command, arguments FROM work ORDER BY id"
    ):
        print(number, state, code, slot, command, shlex.join(shlex.split(arguments)), sep="\t")


HOOKS = {"fetch_work": fetch_work, "reply_fetch": reply_fetch, "evict_claim": wait_again, "job_exit": job_exit}


def main() -> None:
    """Be the hook that this file is called, or the tool."""
    called = Path(sys.argv[0])
    if called.name in HOOKS:
        database = connect((called.parent / "database").read_text().strip())
        HOOKS[called.name](database, sys.stdin.read())
    elif sys.argv[2:3] == ["add"] and len(sys.argv) > 3:
        add(connect(sys.argv[1]), sys.argv[3:])
    elif sys.argv[2:] == ["list"]:
        show(connect(sys.argv[1]))
    else:
        sys.exit(f"usage: {called.name} DATABASE add COMMAND [ARGUMENT...] | DATABASE list")


if __name__ == "__main__":
    main()
