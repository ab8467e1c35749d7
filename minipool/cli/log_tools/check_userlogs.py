"""condor_check_userlogs: are event logs in order? Each job is submitted once, runs after that, and ends once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import HELP, JSON, VERSION_OPT, Tool, run, usage
from minipool.cli.log_tools.log_reader import ABORTED, EXECUTE, HELD, SUBMIT, TERMINATED

TOOL = Tool(
    "condor_check_userlogs",
    "Check event logs for jobs that were submitted, ran or ended in the wrong order or number.",
    "LOG-FILE...",
    (Opt("usage", 1, says="show this"), HELP, VERSION_OPT, JSON),
)

_NOT_EXECUTABLE, _POST_SCRIPT = 2, 16
_ENDS = (_NOT_EXECUTABLE, TERMINATED, ABORTED)


class JobEvents:
    """What the logs have of one job."""

    def __init__(self) -> None:
        self.submitted = self.ended = self.scripts = 0


class Checker:
    """Takes events in their order and says what is wrong with each."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[int, int, int], JobEvents] = {}

    def check(self, event: dict[str, Any]) -> str:
        """What is wrong with this event, or nothing."""
        number = event["type"]
        if number not in (SUBMIT, EXECUTE, _POST_SCRIPT, *_ENDS):
            return ""
        job = (event["cluster"], event["proc"], event["subproc"])
        counts = self.jobs.setdefault(job, JobEvents())
        wrong: list[tuple[str, int]] = []
        if number == SUBMIT:
            counts.submitted += 1
            wrong += [("submitted, submit count != 1", counts.submitted)] if counts.submitted != 1 else []
            wrong += [("submitted, total end count != 0", counts.ended)] if counts.ended else []
        elif number == EXECUTE:
            wrong += [("executing, submit count < 1", counts.submitted)] if counts.submitted < 1 else []
            wrong += [("executing, total end count != 0", counts.ended)] if counts.ended else []
        elif number == _POST_SCRIPT:
            counts.scripts += 1
            wrong += [("post script ended, submit count < 1", counts.submitted)] if counts.submitted < 1 else []
            wrong += [("post script ended, total end count < 1", counts.ended)] if counts.ended < 1 else []
            wrong += [("post script ended, post script count > 1", counts.scripts)] if counts.scripts > 1 else []
        else:
            counts.ended += 1
            wrong += [("ended, submit count < 1", counts.submitted)] if counts.submitted < 1 else []
            wrong += [("ended, total end count != 1", counts.ended)] if counts.ended != 1 else []
            wrong += [("ended, post script count != 0", counts.scripts)] if counts.scripts else []
        # Of several faults HTCondor's CheckEvents tells the last (check_events.cpp).
        return _bad(job, *wrong[-1]) if wrong else ""

    def check_all(self) -> str:
        """What is wrong with the jobs now that the logs are at their end."""
        said = []
        for job, counts in sorted(self.jobs.items()):
            # Only subprocess 0 is submitted: others are nodes of a parallel job.
            if job[2] == 0 and counts.submitted != 1:
                said.append(_bad(job, "ended, submit count != 1", counts.submitted))
            elif job[2] == 0 and counts.ended != 1:
                said.append(_bad(job, "ended, total end count != 1", counts.ended))
        return "; ".join(said)


def _bad(job: tuple[int, int, int], what: str, count: int) -> str:
    return f"BAD EVENT: job ({job[0]}.{job[1]}.{job[2]}) {what} ({count})"


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_check_userlogs."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from pool.jobs.userlog.requests import events_of_file

    if parsed.has("usage") or not parsed.words:
        sys.stdout.write(usage(TOOL))
        return 0
    status = 0
    events: list[dict[str, Any]] = []
    for path in parsed.words:
        try:
            events += events_of_file(path)
        except OSError as error:
            sys.stderr.write(f"Error monitoring log file {path}: {error.strerror}\n")
            status = 1
    # Several logs are read as one, in the order of time; the sort keeps the order within a second.
    events.sort(key=lambda event: int(event["time"]))
    checker = Checker()
    if parsed.has("json"):
        return _as_json(events, checker, status)
    if _say(events, checker):
        status = 1
    # HTCondor's last word about reading, blank and all: there was no further event.
    sys.stdout.write("Log outcome: ULOG_NO_EVENT \n")
    wrong = checker.check_all()
    if wrong:
        sys.stdout.flush()
        sys.stderr.write(f"{wrong}\nCheckAllJobs() result: EVENT_ERROR\n")
        status = 1
    sys.stdout.write("Log(s) have error(s)\n" if status else "Log(s) are okay\n")
    return status


def _as_json(events: Sequence[dict[str, Any]], checker: Checker, status: int) -> int:
    """One object: whether the logs are in order, how many jobs they have, and what is wrong."""
    from minipool.cli.output.json_output import write_object

    wrong = [said for event in events if (said := checker.check(event))]
    wrong += [said for said in checker.check_all().split("; ") if said]
    okay = not wrong and status == 0
    write_object({"Okay": okay, "Jobs": len(checker.jobs), "Events": len(events), "Errors": wrong})
    return 0 if okay else 1


def _say(events: Sequence[dict[str, Any]], checker: Checker) -> bool:
    """A line or two for each event; whether one was wrong."""
    total, net, bad = 0, 0, False
    for event in events:
        number = event["type"]
        said = f"Log event: ULOG_{event['name']} ({event['cluster']}.{event['proc']}.{event['subproc']})"
        wrong = checker.check(event)
        if wrong:
            bad = True
            sys.stdout.flush()
            sys.stderr.write(f"{wrong}\n")
        if number == SUBMIT:
            total, net = total + 1, net + 1
            said += f' ("{event["attrs"].get("LogNotes", "")}")'
        elif number in _ENDS:
            net -= 1
        elif number == HELD:
            said += f" (code={event['attrs']['HoldReasonCode']} subcode={event['attrs']['HoldReasonSubCode']})"
        if number == SUBMIT or number in _ENDS:
            said += f"\n Total submitted: {total}; net submitted: {net}\n"
        sys.stdout.write(f"{said}\n")
    return bad
