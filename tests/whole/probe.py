"""A job that shows what happened to it, for tests that kill what runs it.

It takes a lock that dies with its process (two at once would say so), and writes a line when it begins and when it ends.
One that a test wants to find at work runs until it is told to end: no time is long enough on a busy machine.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import htcondor2

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, as_account

PROBE = """#!/bin/sh
exec 9> lock
flock -n 9 || echo overlap >> trace
echo begin >> trace
if [ "$1" = told ]; then until [ -e end ]; do sleep 0.1; done; else sleep "$1"; fi
echo end >> trace
echo done
"""
DESCRIPTION = """executable = probe.sh
arguments = {runs}
output = out
error = err
log = log
should_transfer_files = NO
job_lease_duration = 60
+Probe = "{probe}"
{more}
queue
"""


class Probe:
    """One job's directory, and what can be read off it. `seconds`: how long it runs; None: until it is told to end."""

    def __init__(self, pool: RealPool, seconds: float | None = 1.0, more: str = "") -> None:
        self.pool, self.seconds, self.more, self.id = pool, seconds, more, uuid.uuid4().hex
        self.directory = Path(tempfile.mkdtemp(prefix="probe-", dir=pool.directory))
        (self.directory / "probe.sh").write_text(PROBE)
        (self.directory / "probe.sh").chmod(0o755)
        self.directory.chmod(0o755)
        if identity := as_account(pool.user):
            os.chown(self.directory, identity["user"], identity["group"])

    def submit(self, *, check: bool = True) -> None:
        runs = "told" if self.seconds is None else self.seconds
        text = DESCRIPTION.format(runs=runs, probe=self.id, more=self.more)
        self.pool.tool("condor_submit", cwd=self.directory, check=check, text=text)

    def may_end(self) -> None:
        """Tell it to."""
        (self.directory / "end").touch()

    def in_queue(self) -> list[ClassAd]:
        return [ad for ad in patiently(self.pool, self.pool.jobs) if ad.eval_str("Probe") == self.id]

    def in_history(self) -> list[ClassAd]:
        return patiently(self.pool, lambda: self.pool.history("-constraint", f'Probe == "{self.id}"'))

    def until_begun(self) -> None:
        """It has begun, and its schedd has heard of it: for one that is yet to be told to end."""
        self.pool.until(lambda: self.trace()[:1] == ["begin"], "the probe's first line")
        self.pool.until(
            lambda: [ad for ad in self.in_queue() if ad.eval_int("NumJobStarts")], "the start to be counted"
        )

    def until_ended(self) -> ClassAd:
        self.pool.until(self.in_history, "the probe's end")
        self.pool.until(lambda: not self.in_queue(), "the probe to leave the queue")
        (ad,) = self.in_history()  # P3: once
        return ad

    def trace(self) -> list[str]:
        path = self.directory / "trace"
        return path.read_text().split() if path.exists() else []

    def events(self) -> list[str]:
        return re.findall(r"^(\d{3}) \(", (self.directory / "log").read_text(), re.MULTILINE)

    def assert_ended_once(self) -> ClassAd:
        """P2 and P3: it ended, well, once; its log, its history and its output agree."""
        self.pool.until(lambda: self.trace()[-1:] == ["end"], "the probe's last line")
        ad = self.until_ended()
        assert (ad["JobStatus"], ad["ExitCode"]) == (4, 0)
        trace = self.trace()
        assert "overlap" not in trace
        assert trace.count("end") == 1 or trace.count("begin") > 1
        assert trace[-1] == "end"
        assert (self.directory / "out").read_text() == "done\n"
        self.pool.until(lambda: "005" in self.events(), "the last event")
        events = self.events()
        assert events.count("000") == 1
        assert events.count("005") == 1
        assert events[0] == "000"
        assert events[-1] == "005"
        read = [event.type for event in htcondor2.JobEventLog(str(self.directory / "log")).events(0)]
        assert [int(kind) for kind in read] == [int(kind) for kind in events]
        return ad


def patiently(pool: RealPool, ask: Callable[[], list[ClassAd]]) -> list[ClassAd]:
    """The answer, as soon as the daemon that is asked is there (again)."""
    answers: list[list[ClassAd]] = []

    def answered() -> bool:
        try:
            answers.append(ask())
        except AssertionError:  # the tool failed: nobody answers yet
            return False
        return True

    pool.until(answered, "an answer")
    return answers[0]
