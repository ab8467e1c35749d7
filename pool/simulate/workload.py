"""A recorded workload: when jobs came, for whom, what they asked for and how long they ran.

Jobs that agree in what slots and the negotiator read of them share one ad, as in a schedd's autoclusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pool.base.errors import ClassAdError, UserError
from pool.classad import ClassAd, parse_long
from pool.jobs.waiting.autoclusters import ALWAYS
from pool.simulate.records import Record, records

OF_SLOTS = frozenset({"5", "10", "11"})
"""The universes whose jobs take slots: vanilla, java, parallel."""
COMPLETED = "4"
SHORTEST_S = 0.5
"""How long a job took that is completed, and took no whole second: records count whole seconds."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job; `kind` is the place of its ad among the workload's."""

    id: str
    submitter: str
    submitted_at: float
    run_s: float
    prio: int
    kind: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in the order in which they were submitted. `never_ran` left before they ran, `elsewhere` take no slots."""

    jobs: tuple[RecordedJob, ...]
    kinds: tuple[ClassAd, ...]
    never_ran: int = 0
    elsewhere: int = 0


class _Reading:
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.jobs: dict[str, RecordedJob] = {}
        self.kinds: list[ClassAd] = []
        self.never_ran = self.elsewhere = 0
        self._places: dict[tuple[tuple[str, str], ...], int] = {}
        self._seen: set[tuple[str, str]] = set()

    def news(self, record: Record) -> set[str]:
        """What the job's own expressions read of it that was not known to count."""
        texts = record.texts.get("requirements", ""), record.texts.get("rank", "")
        # Thousands of jobs say the same: it is looked at once.
        if texts in self._seen:
            return set()
        self._seen.add(texts)
        ad, names = record.ad(), set[str]()
        for name in ("Requirements", "Rank"):
            names |= {read.lower() for read in ad.references(name)[0]}
        return names - self.names

    def add(self, record: Record) -> None:
        if record.texts.get("jobuniverse", "5") not in OF_SLOTS:
            self.elsewhere += 1
            return
        submitted, run_s = record.number("QDate"), self._run_s(record)
        if submitted is None:
            raise record.error("the job has no QDate", expected="the moment when it was submitted")
        # Removed while it waited: how long it would have run nobody knows.
        if run_s <= 0:
            self.never_ran += 1
            return
        id = f"{record.texts.get('clusterid', '?')}.{record.texts.get('procid', '?')}"
        prio = int(record.number("JobPrio") or 0)
        job = RecordedJob(id, _submitter(record), submitted, run_s, prio, self._kind(record))
        # A file of executions has a job once for each of them; what it needed is what the longest says.
        which = record.texts.get("globaljobid") or f"{id} {record.line} {record.nth}"
        known = self.jobs.get(which)
        if known is None or known.run_s < run_s:
            self.jobs[which] = job

    def _run_s(self, record: Record) -> float:
        """How long the job needs: what of its run counted, or all of it where nothing says so; 0 where it never ran."""
        shortest = SHORTEST_S if record.texts.get("jobstatus") == COMPLETED else 0.0
        return record.number("CommittedTime") or record.number("RemoteWallClockTime") or shortest

    def _kind(self, record: Record) -> int:
        own = ((name, text) for name, text in record.texts.items() if name in self.names or _asks(name))
        key = tuple(sorted(own))
        if key not in self._places:
            self._places[key] = len(self.kinds)
            self.kinds.append(_ad(record, [name for name, _ in key]))
        return self._places[key]


def read_workload(lines: Callable[[], Iterable[str]], *, file: str, reads: Iterable[str]) -> Workload:
    """The jobs of a file, which `lines` opens; `reads` is what slots and negotiator read. UserError with a place."""
    names = ALWAYS | {name.lower() for name in reads}
    while (reading := _read(records(lines(), file), names)).names != names:
        names = reading.names  # a job reads more of itself than was known: all anew
    if not reading.jobs:
        raise UserError(
            f"{file}: no job in it has run",
            expected="what `condor_history -long`, -json or -xml prints, or a history file",
        )
    jobs = sorted(reading.jobs.values(), key=lambda job: job.submitted_at)
    return Workload(tuple(jobs), tuple(reading.kinds), reading.never_ran, reading.elsewhere)


def _read(found: Iterator[Record], names: frozenset[str]) -> _Reading:
    reading = _Reading(names)
    for record in found:
        if news := reading.news(record):
            return _Reading(names | news)
        reading.add(record)
    return reading


def _asks(name: str) -> bool:
    return name.startswith(("request", "require"))


def _ad(record: Record, names: list[str]) -> ClassAd:
    wanted = set(names)
    # Empty lines in place of the others: so a mistake keeps its place.
    lines = [line if line.partition("=")[0].strip().lower() in wanted else "" for line in record.lines]
    try:
        return parse_long("\n".join(lines), file=record.file)
    except ClassAdError as error:
        if error.span is not None:
            error.span = error.span._replace(line=error.span.line + record.line - 1)
        raise


def _submitter(record: Record) -> str:
    """Whom the schedd charges: the accounting group, or the user."""
    user = record.string("User") or f"{record.string('Owner')}@"
    if user == "@":
        raise record.error("the job has neither User nor Owner")
    group = record.string("AccountingGroup")
    return f"{group}@{user.partition('@')[2]}" if group else user
