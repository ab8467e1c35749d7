"""condor_wait: wait until the jobs of an event log have ended.

That nothing is known of a job is not its end: a log without it is an error. A held job is waited for, and that it is
held is said once. The exit status is 0 when the jobs have ended and 1 when the time is over. Source: HTCondor's
manual page condor_wait.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, JSON, VERSION_OPT, Tool, run
from minipool.cli.log_tools.log_reader import (
    ABORTED,
    CLUSTER_REMOVE,
    CLUSTER_SUBMIT,
    EXECUTE,
    HELD,
    RELEASED,
    SUBMIT,
    TERMINATED,
    GrowingLog,
    LogEntry,
    reader_of,
)
from pool.base.errors import UserError
from pool.base.ids import is_number

TOOL = Tool(
    "condor_wait",
    "Wait until jobs have ended, by their event log.",
    "[options] LOG-FILE [CLUSTER[.PROC[.SUBPROC]]]",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        Opt("status", 1, says="say when jobs are submitted, start and end"),
        Opt("echo", 1, says="print the events (:JSON, :XML, :ISO_DATE, :UTC, or several with commas)", colon=True),
        Opt("allevents", 1, says="go on when all jobs have ended, until the time is over"),
        Opt("wait", 1, 1, "SECONDS", "wait no longer than this"),
        JSON,
        Opt("num", 1, 1, "N", "wait until N jobs have ended"),
    ),
)

# A log on a network file system tells nobody that it has grown.
_POLL_S = 0.05
_SAYS = {SUBMIT: "submitted", TERMINATED: "completed", ABORTED: "aborted"}


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_wait."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if not parsed.words:
        raise UsageError("")
    path, *jobs = parsed.words
    if len(jobs) > 1:
        raise UsageError(f"Got unexpected argument {jobs[1]}")
    wanted = _numbers(jobs[0]) if jobs else ()
    if parsed.has("num") and parsed.number("num", 0) < 1:
        raise UsageError("-num must be greater than zero")
    if parsed.has("num") and parsed.has("allevents"):
        raise UsageError("-num cannot be used with -allevents")
    limit = parsed.number("wait", 0) if parsed.has("wait") else None
    deadline = None if limit is None else time.monotonic() + limit
    try:
        log = reader_of(path)
    except OSError as error:
        raise UserError(f"Couldn't open {path}: {error.strerror}") from None
    try:
        return Waiter(parsed, path, wanted).wait(log, deadline)
    finally:
        log.close()


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    if len(parts) > 3 or not all(is_number(part) for part in parts):
        raise UserError(f"{text!r} is not a job id (expected CLUSTER, CLUSTER.PROC or CLUSTER.PROC.SUBPROC)")
    return tuple(int(part) for part in parts)


def _short_date(event: LogEntry) -> str:
    """The event's text with its date as condor_wait writes it, `11/20 23:35:32`."""
    day, _, moment = event.when.partition(" ")
    if len(day) != 10 or day[4] != "-":
        return event.text
    return event.text.replace(event.when, f"{day[5:7]}/{day[8:]} {moment[:8]}", 1)


def _formed(event: LogEntry, options: Sequence[str]) -> str:
    """The event's text in the form of -echo:FORM."""
    from pool.jobs.userlog.forms import formed, read_form

    date, _, rest = event.when.partition(" ")
    moment = rest[:8]
    if "-" not in date:  # logs of before HTCondor 8.9, and EVENT_LOG_FORMAT_OPTIONS = LEGACY: a date without the year
        date = f"{time.localtime().tm_year}-{date.replace('/', '-')}"
    try:
        at = time.mktime(time.strptime(f"{date} {moment}", "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        raise UserError(f"an event's date cannot be read: {event.when}") from None
    plain = event.text.replace(event.when, f"{date} {moment}", 1)
    # condor_wait writes dates without a year unless ISO_DATE is asked for, whatever the log has.
    return formed(plain, at, read_form(["LEGACY", *options] if "ISO_DATE" not in options else options))


def _second_line(text: str) -> str:
    """What an event says below its headline: of a hold, the reason."""
    lines = text.strip().splitlines()
    return lines[1].strip() if len(lines) > 2 else "no reason is given"


class Waiter:
    """Counts the jobs that are there and those that have ended."""

    def __init__(self, parsed: Parsed, path: str, wanted: tuple[int, ...]) -> None:
        self.path, self.wanted = path, wanted
        self.status, self.echo = parsed.has("status"), parsed.has("echo")
        self.all_events = parsed.has("allevents")
        self.json = parsed.has("json")
        self.form = [word.upper() for word in (parsed.qualifier("echo") or "").split(",") if word]
        self.needed = parsed.number("num", 0)
        self.open: set[tuple[int, int, int]] = set()
        self.making: set[int] = set()
        """Clusters that may make further jobs (max_materialize, max_idle)."""
        self.held: dict[tuple[int, int, int], str] = {}
        """Why those jobs are held."""
        self.told: set[tuple[int, int, int]] = set()
        """Jobs of which it was said that they are held: policies may hold and release a job again and again."""
        self.events = self.submitted = self.ended = 0

    def wait(self, log: GrowingLog, deadline: float | None) -> int:
        """Read until the jobs have ended (0) or the time is over (1)."""
        while True:
            for event in log.new_events():
                self._take(event)
                if self.needed and self.ended >= self.needed:
                    # "Specifed" is HTCondor's spelling, which scripts look for.
                    return self._over(f"Specifed number of jobs ({self.needed}) done.", 0)
            # An empty file may become a log; one with other text in it never will.
            if not self.events and not self._is_empty():
                raise UserError(f"{self.path} is not a job event log: it holds no event")
            if not (self._is_waiting() or self.needed or self.all_events):
                self._refuse_nothing()
                return self._over("All jobs done.", 0)
            self._tell_of_holds()
            if deadline is not None and time.monotonic() >= deadline:
                return self._over("Time expired.", 1)
            sys.stdout.flush()
            time.sleep(_POLL_S)

    def _is_waiting(self) -> bool:
        """Whether jobs of the log have not ended, or are yet to be made."""
        # Of one job that was named, its cluster's further jobs are nobody's business.
        all_seen = len(self.wanted) > 1 and bool(self.submitted or self.ended)
        return bool(self.open or (self.making and not all_seen))

    def _is_empty(self) -> bool:
        try:
            return os.stat(self.path).st_size == 0
        except OSError:
            return True  # it was a log when it was opened

    def _refuse_nothing(self) -> None:
        """That nothing has happened to a job is not its end."""
        if not (self.submitted or self.ended):
            what = "that job" if self.wanted else "any jobs"
            raise UserError(f"{self.path}: This log does not mention {what}!")

    def _tell_of_holds(self) -> None:
        """A held job may stay so for ever: whoever waits should know. Said of those that are held when all is read."""
        for job, why in self.held.items():
            if job not in self.told:
                name = f"{job[0]}.{job[1]}"
                sys.stderr.write(f"Job {name} is held: {why} (it is waited for until it is released or removed)\n")
                self.told.add(job)

    def _over(self, said: str, status: int) -> int:
        """The last word, and the exit status."""
        if self.json:
            from minipool.cli.output.json_output import write_object

            write_object({"Done": status == 0, "Ended": self.ended, "Waiting": len(self.open)})
        else:
            sys.stdout.write(f"{said}\n")
        return status

    def _take(self, event: LogEntry) -> None:
        self.events += 1
        job = (event.cluster, event.proc, event.subproc)
        # Events 35 and 36 frame a cluster that makes its jobs late: until the second more of them may come.
        if event.number == CLUSTER_SUBMIT and self.wanted[:1] in ((), job[:1]):
            self.making.add(event.cluster)
        elif event.number == CLUSTER_REMOVE:
            self.making.discard(event.cluster)
        mine = job[: len(self.wanted)] == self.wanted
        if self.echo and mine:
            sys.stdout.write(_formed(event, self.form) if self.form else _short_date(event))
        if not mine:
            return
        if self.status:
            self._say(event)
        if event.number == SUBMIT:
            self.open.add(job)
            self.submitted += 1
        elif event.number in (TERMINATED, ABORTED):
            self.open.discard(job)
            self.ended += 1
        if event.number == HELD:
            self.held[job] = _second_line(event.text)
        elif event.number in (RELEASED, TERMINATED, ABORTED):
            self.held.pop(job, None)

    def _say(self, event: LogEntry) -> None:
        name = f"{event.cluster}.{event.proc}.{event.subproc}"
        if event.number == EXECUTE:
            sys.stdout.write(f"{name} executing on host {event.headline.partition('host: ')[2]}\n")
        elif event.number in _SAYS:
            sys.stdout.write(f"{name} {_SAYS[event.number]}\n")
