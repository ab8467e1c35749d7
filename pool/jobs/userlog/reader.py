"""Reads event logs: HTCondor's text form, as it grows.

    reader = EventReader()
    for event in reader.feed(text): ...      # complete events only; the rest waits for more text

The attributes of an event are those of HTCondor's own event ads (`ReturnValue`, `HoldReason`, `ExecuteHost` ...).
Lines that are not understood are skipped, so that a log with events of a newer kind can be read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.base.dates import utc_seconds
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.jobs.userlog.bodies import read_body
from pool.jobs.userlog.kinds import kind_of

_HEADER: Final = re.compile(
    r"(?P<number>\d{3}) \((?P<cluster>-?\d+)\.(?P<proc>-?\d+)\.(?P<subproc>-?\d+)\) "
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)|(?P<us_month>\d\d)/(?P<us_day>\d\d))[ T]"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?P<fraction>\.\d+)?(?P<utc>Z?) ?(?P<rest>.*)"
)


@dataclass(frozen=True)
class LoggedEvent:
    """One event of a log; `at` is in seconds since the epoch, `lines` are the text after the header's time."""

    number: int
    job: JobId
    subproc: int
    at: float
    lines: tuple[str, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """HTCondor's name of the event's kind."""
        return kind_of(self.number).name

    def ad(self, *, utc: bool = False) -> ClassAd:
        """The event as HTCondor's ad, its time in this host's zone or in UTC. An event of a cluster has no Proc."""
        moment = time.gmtime(self.at) if utc else time.localtime(self.at)
        fraction = f"{self.at % 1:.3f}"[1:] if self.at % 1 else ""
        ad = ClassAd(
            {
                "MyType": kind_of(self.number).my_type,
                "EventTypeNumber": self.number,
                "EventTime": time.strftime("%Y-%m-%dT%H:%M:%S", moment) + fraction,
                "Cluster": self.job.cluster,
            }
        )
        if self.job.proc >= 0:
            ad["Proc"] = self.job.proc
        ad["Subproc"] = self.subproc
        for name, value in self.attributes.items():
            if name not in ("MyType", "EventTypeNumber", "EventTime"):
                ad[name] = value
        return ad


class EventReader:
    """Takes a log's text piece by piece. `year` dates events of old logs, whose times have none; `utc`: times without
    a zone are in UTC, not in this host's zone; `bodies`: the kinds of events whose attributes are wanted, if not all.
    """

    def __init__(self, *, year: int = 1970, utc: bool = False, bodies: Container[int] | None = None) -> None:
        self._rest = ""
        self._year = year
        self._utc = utc
        self._bodies = bodies
        # Many events are of one second, and what that is by the calendar costs more than all else of a header.
        self._second: tuple[tuple[str | None, ...], float] = ((), 0.0)

    def feed(self, text: str) -> Iterator[LoggedEvent]:
        """The events that are complete now."""
        parts = (self._rest + text).replace("\r\n", "\n").split("\n...\n")
        self._rest = parts.pop()
        for part in parts:
            event = self._event(part.lstrip("\n"))
            if event is not None:
                yield event

    @property
    def unfinished(self) -> str:
        """The text after the last complete event."""
        return self._rest

    def _event(self, text: str) -> LoggedEvent | None:
        first, *more = text.split("\n")
        found = _HEADER.match(first)
        if found is None:
            return None
        lines = (found["rest"], *more)
        number, cluster, proc, subproc = map(int, found.group("number", "cluster", "proc", "subproc"))
        attributes = read_body(number, lines) if self._bodies is None or number in self._bodies else {}
        return LoggedEvent(number, JobId(cluster, proc), subproc, self._seconds(found), lines, attributes)

    def _seconds(self, found: re.Match[str]) -> float:
        date = found.group("year", "month", "day", "us_month", "us_day", "hour", "minute", "second", "utc")
        if date != self._second[0]:
            self._second = (date, self._whole_seconds(found))
        return self._second[1] + float(found["fraction"] or 0)

    def _whole_seconds(self, found: re.Match[str]) -> float:
        year = int(found["year"] or self._year)
        month, day = int(found["month"] or found["us_month"]), int(found["day"] or found["us_day"])
        clock = int(found["hour"]), int(found["minute"]), int(found["second"])
        if found["utc"] or self._utc:
            return utc_seconds(year, month, day, *clock)
        return time.mktime((year, month, day, *clock, 0, 0, -1))
