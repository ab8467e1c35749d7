"""`pool eventlog`: job event logs as JSON, for people and, with -jsonl, for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.base.errors import UserError

TOOL = Tool(
    "pool eventlog",
    "Show the events of job event logs as JSON.",
    "LOG-FILE... | -jsonl",
    (
        Opt("jsonl", 1, says="read logs as JSON lines and answer each with its events (times in UTC)"),
        HELP,
        VERSION_OPT,
    ),
    notes='A line of -jsonl is {"id", "op": "eventlog", "text"}; its answer {"id", "events"}, or {"id", "error"}.\n'
    "A log may be text, XML or JSON; one line is printed for each event of a file.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool eventlog`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    year = time.localtime().tm_year
    if parsed.has("jsonl"):
        return _answer_lines(year)
    if not parsed.words:
        raise UsageError("pool eventlog: say which log")
    for path in parsed.words:
        _show(path, year)
    return 0


def _answer_lines(year: int) -> int:
    from pool.jobs.userlog.requests import answer_line

    while line := sys.stdin.readline():
        if not line.isspace():
            sys.stdout.write(answer_line(line, year=year) + "\n")
            sys.stdout.flush()
    return 0


def _show(path: str, year: int) -> None:
    from json import dumps

    from pool.jobs.userlog.requests import events_of

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise UserError(f"pool eventlog: cannot read {path}: {error.strerror}") from None
    for event in events_of(text, year=year):
        sys.stdout.write(dumps(event) + "\n")
