"""The log of condor_dagman, `x.dag.dagman.out`, whose lines programs look for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Final

from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.dag.course.states import Counts, DagStatus, JobFigures

_RULE: Final = "*" * 54
_HEAD: Final = (
    " Done     Pre   Queued    Post   Ready   Un-Ready   Failed   Futile",
    "  ===     ===      ===     ===     ===        ===      ===      ===",
)


def now_text(at: float) -> str:
    """`11/22/26 19:00:32`, as each line begins."""
    return _second_text(int(at))


@lru_cache(maxsize=1)
def _second_text(second: int) -> str:
    # A storm of lines is of one second, and making this is a third of writing a line.
    return time.strftime("%m/%d/%y %H:%M:%S", time.localtime(second))


class DagmanOut:
    """The log; what is said is written at once, and lasts when the process does not."""

    def __init__(self, path: str, level: int = 3) -> None:
        self.path, self.level = path, level
        try:
            self._touched = os.stat(path).st_mtime
        except OSError:
            self._touched = 0.0
        self._file: IO[str] = open(path, "a", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115 - for the life of the process
        self._gathers = False

    def say(self, *lines: str, level: int = 2) -> None:
        """These lines, unless -Debug asks for fewer."""
        if level <= self.level:
            stamp = now_text(time.time())
            self._file.write("".join([f"{stamp} {line}\n" for line in lines]))
            if not self._gathers:
                self._file.flush()

    @contextmanager
    def in_one_piece(self) -> Iterator[None]:
        """What is said meanwhile is written when that is over: a storm of lines costs most where each is written."""
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False
            self._file.flush()

    def starting(self, program: str) -> None:
        """What stands first of each run."""
        touched = time.strftime("%m/%d %H:%M:%S", time.localtime(self._touched))
        last = (
            f"Log last touched {touched}"
            if self._touched
            else ("Log last touched time unavailable (No such file or directory)")
        )
        self.say(
            _RULE,
            "** condor_dagman (CONDOR_DAGMAN) STARTING UP",
            f"** {program}",
            "** SubsystemInfo: name=DAGMAN type=DAGMAN(9) class=CLIENT(2)",
            "** Configuration: subsystem:DAGMAN local:<NONE> class:CLIENT",
            f"** {CONDOR_VERSION}",
            f"** {CONDOR_PLATFORM}",
            f"** PID = {os.getpid()} RealUID = {os.getuid()}",
            f"** {last}",
            _RULE,
            level=1,
        )

    def table(self, status: DagStatus, counts: Counts) -> None:
        """How many nodes are where."""
        figures = (
            f"{counts.done:5d}   {counts.pre:5d}    {counts.queued:5d}   {counts.post:5d}   {counts.ready:5d}      "
            f"{counts.unready:5d}    {counts.failed:5d}    {counts.futile:5d}"
        )
        self.say(
            f"DAG status: {int(status)} (DAG_STATUS_{status.name})",
            f"Of {counts.total} nodes total:",
            *_HEAD,
            figures,
            f"{counts.held} job proc(s) currently held",
            level=3,
        )

    def jobs_table(self, jobs: JobFigures) -> None:
        """How many jobs are where (DAGMAN_PRINT_JOB_TABLE_INTERVAL)."""
        self.say(
            f"Total jobs placed to AP: {jobs.submitted}",
            "     Idle     Held     Running     Successful     Failed",
            "      ===      ===         ===            ===        ===",
            f"  {jobs.idle:7d}  {jobs.held:7d}     {jobs.running:7d}     {jobs.succeeded:10d} {jobs.failed:10d}",
            level=3,
        )

    def ended(self, code: int) -> None:
        """The last line."""
        self.say(f"**** condor_dagman (condor_DAGMAN) pid {os.getpid()} EXITING WITH STATUS {code}", level=1)
