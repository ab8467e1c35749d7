"""Reading a job event log in its text form while others append to it, one whole event at a time."""

from __future__ import annotations

import re

from pool.hints import IO, Final, Iterator, NamedTuple

SUBMIT: Final = 0
EXECUTE: Final = 1
EVICTED: Final = 4
TERMINATED: Final = 5
ABORTED: Final = 9
HELD: Final = 12
RELEASED: Final = 13

_HEADER = re.compile(r"(\d{3}) \((-?\d+)\.(-?\d+)\.(-?\d+)\) (\S+ \S+) (.*)\n")


class Event(NamedTuple):
    """One event: its number, the job, when (as written), and its text with the closing line."""

    number: int
    cluster: int
    proc: int
    subproc: int
    when: str
    headline: str
    text: str


class LogReader:
    """Yields the events that are complete; what is half written is read again the next time."""

    def __init__(self, path: str) -> None:
        self._file: IO[str] = open(path, encoding="utf-8", errors="replace")  # noqa: SIM115 - close() closes it
        self._rest = ""

    def new_events(self) -> Iterator[Event]:
        """The events since the last call."""
        self._rest += self._file.read()
        while (end := self._end()) is not None:
            text, self._rest = self._rest[:end], self._rest[end:]
            header = _HEADER.match(text.lstrip())
            if header is not None:
                number, cluster, proc, subproc = (int(header[at]) for at in range(1, 5))
                yield Event(number, cluster, proc, subproc, header[5], header[6], text)

    def _end(self) -> int | None:
        if self._rest.startswith("...\n"):
            return 4
        found = self._rest.find("\n...\n")
        return None if found < 0 else found + 5

    def close(self) -> None:
        """Done with the file."""
        self._file.close()
