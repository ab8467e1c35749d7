"""Reading a job event log in its text form while others append to it, one whole event at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, NamedTuple, Protocol

SUBMIT: Final = 0
EXECUTE: Final = 1
EVICTED: Final = 4
TERMINATED: Final = 5
ABORTED: Final = 9
HELD: Final = 12
RELEASED: Final = 13
CLUSTER_SUBMIT: Final = 35
CLUSTER_REMOVE: Final = 36

# EVENT_LOG_FORMAT_OPTIONS decides on the year, on fractions and on a Z: the date is kept as it is written.
_HEADER = re.compile(r"(\d{3}) \((-?\d+)\.(-?\d+)\.(-?\d+)\) (\S+ \S+) (.*)\n")


class LogEntry(NamedTuple):
    """One event: its number, the job, when (as written), and its text with the closing line."""

    number: int
    cluster: int
    proc: int
    subproc: int
    when: str
    headline: str
    text: str


class GrowingLog(Protocol):
    """Reads a log that grows."""

    def new_events(self) -> Iterator[LogEntry]:
        """The events since the last call."""

    def close(self) -> None:
        """Done with the file."""


def reader_of(path: str) -> GrowingLog:
    """A reader for the form that the log has, as its first letter shows; an empty log is taken for text."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.read(1)
    return AdLogReader(path, "</c>\n" if first == "<" else "\n}\n") if first in ("<", "{") else LogReader(path)


class AdLogReader:
    """Yields the events of a log in XML or JSON, whose ads end with `end`."""

    def __init__(self, path: str, end: str) -> None:
        self._file: IO[str] = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - close() closes it
        self._end = end
        self._rest = ""

    def new_events(self) -> Iterator[LogEntry]:
        """The events since the last call."""
        import time

        from pool.jobs.userlog.requests import events_of

        self._rest += self._file.read()
        # Only up to the end of the last whole ad: what is behind it is still being written.
        whole, end, self._rest = self._rest.rpartition(self._end)
        for found in events_of(whole + end, year=time.localtime().tm_year):
            yield _event_of(found)

    def close(self) -> None:
        """Done with the file."""
        self._file.close()


def _event_of(found: Mapping[str, Any]) -> LogEntry:
    """An event of an ad, with the text that it would have had in a log of text."""
    import time

    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found["time"]))
    host = found["attrs"].get("ExecuteHost")
    headline = f"Job executing on host: {host}" if host else found["name"].replace("_", " ").capitalize()
    number, cluster, proc, subproc = (int(found[name]) for name in ("type", "cluster", "proc", "subproc"))
    why = found["attrs"].get("HoldReason")
    more = f"\t{why}\n" if why else ""
    text = f"{number:03d} ({cluster:03d}.{proc:03d}.{subproc:03d}) {when} {headline}\n{more}...\n"
    return LogEntry(number, cluster, proc, subproc, when, headline, text)


class LogReader:
    """Yields the events that are complete; what is half written is read again the next time."""

    def __init__(self, path: str) -> None:
        self._file: IO[str] = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - close() closes it
        self._rest = ""

    def new_events(self) -> Iterator[LogEntry]:
        """The events since the last call."""
        self._rest += self._file.read()
        while (end := self._end()) is not None:
            text, self._rest = self._rest[:end], self._rest[end:]
            header = _HEADER.match(text.lstrip())
            if header is not None:
                number, cluster, proc, subproc = (int(header[at]) for at in range(1, 5))
                yield LogEntry(number, cluster, proc, subproc, header[5], header[6], text)

    def _end(self) -> int | None:
        if self._rest.startswith("...\n"):
            return 4
        found = self._rest.find("\n...\n")
        return None if found < 0 else found + 5

    def close(self) -> None:
        """Done with the file."""
        self._file.close()
