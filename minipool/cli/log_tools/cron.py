"""`pool cron`: when crontab fields run next, for people and, with -jsonl, for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from pool.base.errors import UserError

if TYPE_CHECKING:
    from pool.jobs.crontab import CronTab

TOOL = Tool(
    "pool cron",
    "Say when crontab fields run next.",
    "MINUTE HOUR DAY-OF-MONTH MONTH DAY-OF-WEEK [options]",
    (
        Opt("jsonl", 1, says="read fields as JSON lines and answer each with the next run (in UTC)"),
        Opt("from", 1, 1, "SECONDS", "count from this moment (since 1970), not from now"),
        Opt("count", 1, 1, "N", "show the next N runs (5)"),
        Opt("utc", 1, says="the fields mean UTC, not local time"),
        HELP,
        VERSION_OPT,
    ),
    notes='A line of -jsonl is {"id", "cron_minute", "cron_hour", "cron_day_of_month", "cron_month",'
    '\n"cron_day_of_week", "base"}; its answer {"id", "next"}, or {"id", "invalid": true, "error"}.',
)

_FIELDS = ("cron_minute", "cron_hour", "cron_day_of_month", "cron_month", "cron_day_of_week")


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool cron`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from pool.jobs.crontab import CronTab

    if parsed.has("jsonl"):
        for line in sys.stdin:
            if line.strip():
                sys.stdout.write(json.dumps(_answer(line)) + "\n")
                sys.stdout.flush()
        return 0
    # Five words, or one in quotes: a bare * would be the names of the directory's files.
    words = parsed.words[0].split() if len(parsed.words) == 1 else parsed.words
    if len(words) != 5:
        raise UsageError(f"pool cron: there are {len(words)} fields, not five (put them in quotes: a * is the shell's)")
    table = CronTab.parse(*words)
    at: float | None = float(parsed.number("from", int(time.time())))
    for _ in range(parsed.number("count", 5)):
        at = _next(table, at or 0, utc=parsed.has("utc"))
        if at is None:
            sys.stdout.write("never again\n")
            break
        moment = time.gmtime(at) if parsed.has("utc") else time.localtime(at)
        sys.stdout.write(time.strftime("%a %Y-%m-%d %H:%M", moment) + f"  ({at:.0f})\n")
    return 0


def _next(table: CronTab, after: float, *, utc: bool) -> int | None:
    if not utc:
        return table.next_run(after)
    from calendar import timegm

    return table.next_run(after, time.gmtime, timegm)


def _answer(line: str) -> dict[str, object]:
    from pool.jobs.crontab import CronTab

    try:
        asked = json.loads(line)
        table = CronTab.parse(*(str(asked.get(name, "*")) for name in _FIELDS))
        moment = _next(table, float(asked["base"]), utc=True)
        if moment is None:
            return {"id": asked.get("id"), "invalid": True, "error": "the date never comes"}
        return {"id": asked.get("id"), "next": moment}
    except UserError as error:
        return {"id": asked.get("id"), "invalid": True, "error": str(error)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"id": None, "invalid": True, "error": f"not a question: {error}"}
