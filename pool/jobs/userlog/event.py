"""An event of a job's log: a value with `lines()`, and how it stands in the file.

    event_text(Held("via condor_hold (by user ann)", 1), JobId(7, 0), at=now)

An event is a header line (number, job, local time, first words), lines of its own, and a line of three dots.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from pool.base.ids import JobId

LINE_CHARS_MAX: Final = 8191


@dataclass(frozen=True)
class LogEvent:
    """Something that a job's log tells."""

    number: ClassVar[int]

    def lines(self) -> Iterator[str]:
        """The event after its header, without line ends; the first line follows the time."""
        raise NotImplementedError


def event_text(event: LogEvent, job: JobId, at: float) -> str:
    """The whole event, ready to be appended to a log."""
    header = f"{event.number:03d} ({job.cluster:03d}.{job.proc:03d}.000) {local_time(at)} "
    return header + "\n".join(event.lines()) + "\n...\n"


def cluster_text(event: LogEvent, cluster: int, at: float) -> str:
    """An event of a whole cluster (035, 036), which has -1 for its job."""
    return f"{event.number:03d} ({cluster:03d}.-01.000) {local_time(at)} " + "\n".join(event.lines()) + "\n...\n"


_last_time: tuple[int, int, str] = (-1, 0, "")


def local_time(at: float) -> str:
    """`2026-11-20 23:51:08`, in the zone of this host."""
    global _last_time
    second = int(at)
    # Events come in bursts, and those of one second look alike; the zone is compared because a process may change it.
    if _last_time[0] != second or _last_time[1] != time.timezone:
        _last_time = (second, time.timezone, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second)))
    return _last_time[2]


def one_line(reason: str) -> str:
    """A reason as one line of the log."""
    return reason.replace("\n", "|").replace("\r", " ")
