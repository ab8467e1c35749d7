"""The nodes' log, `x.dag.nodes.log`: what is written to it from here, and what it tells in a recovery.

The schedd writes the events of nodes' jobs. From here come those of what is no job: nodes that were skipped, nodes
that do nothing (NOOP), and how POST scripts ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence

from pool.classad import ClassAd
from pool.dag.course import happenings as it
from pool.dag.course.states import LIMIT_LOWERED
from pool.dag.model import Dag
from pool.jobs.userlog.bodies import read_body
from pool.jobs.userlog.event import local_time
from pool.jobs.userlog.reader import EventReader, LoggedEvent

NOOP_PROC = 2147483647
"""The job of nodes that have none (HTCondor tells them apart by the third number)."""
FACTORY = -1
_READ = (16, 34)
"""The events of whose attributes something is asked of each in a recovery."""
_NO_TIME = "\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  "
_TERMINATED = (
    *(f"{_NO_TIME}{whose} {where} Usage" for whose in ("Run", "Total") for where in ("Remote", "Local")),
    *(f"\t0  -  {whose} Bytes {way} By Job" for whose in ("Run", "Total") for way in ("Sent", "Received")),
)
_NAME_FIRST = '[ DAGNodeName = "'
_DONE_AT_ONCE = "\n".join(("\t(1) Normal termination (return value 0)", *_TERMINATED))


class NodesLog:
    """The log of one graph."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fakes = 0

    def truncate(self) -> None:
        """A new run begins."""
        open(self.path, "w").close()

    def skipped(self, name: str) -> None:
        """034: the PRE script has skipped the node."""
        self._append(_event(34, self._fake(), "PRE script return value is PRE_SKIP value", f"    DAG Node: {name}"))

    def noop(self, names: Iterable[str]) -> None:
        """000 and 005 of nodes that do nothing."""
        said = []
        for name in names:
            job = self._fake()
            said.append(_event(0, job, "Job submitted from host: <dummy-submit-for-noop-job>", f"    DAG Node: {name}"))
            said.append(_event(5, job, "Job terminated.", _DONE_AT_ONCE))
        self._append("".join(said))

    def _fake(self) -> str:
        self._fakes += 1
        return f"000.{NOOP_PROC}.{self._fakes:03d}"

    def post_ended(self, name: str, cluster: int, code: int) -> None:
        """016: how the node's POST script ended."""
        how = (
            f"(1) Normal termination (return value {code})"
            if code >= 0
            else f"(0) Abnormal termination (signal {-code})"
        )
        job = f"{max(cluster, 0):03d}.000.000"
        self._append(_event(16, job, "POST Script terminated.", f"\t{how}", f"    DAG Node: {name}"))

    def _append(self, text: str) -> None:
        # In one piece and at the end, for the schedd writes to it as well.
        log = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(log, text.encode(errors="surrogateescape"))
        finally:
            os.close(log)

    def events(self) -> Iterator[LoggedEvent]:
        """What it holds."""
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                reader = EventReader(year=time.localtime().tm_year, bodies=_READ)
                while text := file.read(1 << 20):
                    yield from reader.feed(text)
        except FileNotFoundError:
            return

    def went_on(self, fakes: int) -> None:
        """So many nodes without a job are in it already."""
        self._fakes = max(self._fakes, fakes)


def _event(number: int, job: str, *lines: str) -> str:
    return f"{number:03d} ({job}) {local_time(time.time())} " + "\n".join(lines) + "\n...\n"


class Replay:
    """The events of a log as those of a course."""

    def __init__(self, dag: Dag) -> None:
        self._numbers = {node.name: number for number, node in enumerate(dag.nodes)}
        self.clusters: dict[int, int] = {}
        """The node of each cluster in the log."""
        self._factories: set[int] = set()
        self._fakes: dict[int, int] = {}
        self.last_fake = 0
        self._open: dict[int, set[int]] = {}
        """The jobs of each cluster whose end the log has not had, and FACTORY while it makes more."""
        self._early: dict[int, it.ScriptEnded] = {}
        """Ends of POST scripts that stand before those of their nodes' jobs: two write to the log, each in its time."""

    def events(self, logged: LoggedEvent) -> Sequence[it.Event]:
        """What one event of the log says."""
        cluster, proc = logged.job
        if logged.number == 0:
            return self._submitted(logged)
        if logged.number == 35:
            self._factories.add(cluster)
            return ()
        if logged.number == 34:
            node = self._numbers.get(_after_colon(str(logged.attributes.get("SkipEventLogNotes", ""))))
            self.last_fake = max(self.last_fake, logged.subproc)
            return () if node is None else (it.WasSkipped(node),)
        if logged.number == 16:
            return self._post_ended(logged)
        if proc == NOOP_PROC:
            node = self._fakes.get(logged.subproc)
            return (it.JobEnded(node, 0, 0, 0),) if node is not None and logged.number == 5 else ()
        node = self.clusters.get(cluster)
        return () if node is None else (*_of_job(logged, node), *self._job_ended(logged))

    def _post_ended(self, logged: LoggedEvent) -> Sequence[it.Event]:
        node = self._numbers.get(str(logged.attributes.get("DAGNodeName", "")))
        if node is None:
            return ()
        ended = it.ScriptEnded(node, "POST", _code(logged))
        if self._open.get(logged.job.cluster):
            self._early[logged.job.cluster] = ended
            return ()
        return (ended,)

    def _job_ended(self, logged: LoggedEvent) -> Sequence[it.Event]:
        """The POST script's end, if this was what it stood before."""
        cluster, proc = logged.job
        left = self._open.get(cluster)
        if logged.number not in (5, 9, 36) or left is None:
            return ()
        left.discard(FACTORY if logged.number == 36 else proc)
        if left:
            return ()
        del self._open[cluster]
        return (self._early.pop(cluster),) if cluster in self._early else ()

    def _submitted(self, logged: LoggedEvent) -> Sequence[it.Event]:
        cluster, proc = logged.job
        node = self._numbers.get(name_of(logged))
        if node is None:
            return ()
        if proc == NOOP_PROC:
            self._fakes[logged.subproc] = node
            self.last_fake = max(self.last_fake, logged.subproc)
            return (it.Submitted(node, 0, 1),)
        self._open.setdefault(cluster, {FACTORY} if cluster in self._factories else set()).add(proc)
        if cluster in self.clusters:
            return (it.JobMade(node, cluster, proc),)
        self.clusters[cluster] = node
        # A factory's end is an event of its own; its jobs may all have left before the next is made.
        if cluster in self._factories:
            return (it.Submitted(node, cluster, 0, is_factory=True), it.JobMade(node, cluster, proc))
        return (it.Submitted(node, cluster, 1),)


def name_of(logged: LoggedEvent) -> str:
    """The node of a submit event."""
    for line in logged.lines[1:]:
        if line.startswith("    DAG Node: "):
            return _after_colon(line)
    # The ad of the first note nearly always begins so, and to read it as an ad was half of a recovery.
    if len(logged.lines) > 1 and (note := logged.lines[1].strip()).startswith(_NAME_FIRST):
        name, _, rest = note[len(_NAME_FIRST) :].partition('"')
        if "\\" not in name and rest[:1] in (";", " "):
            return name
    notes = read_body(0, logged.lines).get("StructuredNotes")
    return notes.eval_str("DAGNodeName") or "" if isinstance(notes, ClassAd) else ""


def _after_colon(text: str) -> str:
    return text.partition("DAG Node: ")[2].strip()


def _of_job(logged: LoggedEvent, node: int) -> Sequence[it.Event]:
    cluster, proc = logged.job
    match logged.number:
        case 1:
            return (it.JobRuns(node, cluster, proc),)
        case 4 | 7 | 10 | 24:
            return (it.JobWaits(node, cluster, proc),)
        case 5:
            code = _code(logged)
            return (it.JobEnded(node, cluster, proc, *((code, None) if code >= 0 else (None, -code))),)
        case 9:
            beyond = any(LIMIT_LOWERED in line for line in logged.lines[1:])
            return (it.JobEnded(node, cluster, proc, beyond_limit=beyond),)
        case 12:
            return (it.JobHeld(node, cluster, proc),)
        case 13:
            return (it.JobReleased(node, cluster, proc),)
        case 36:
            return (it.ClusterOver(node, cluster),)
    return ()


def _code(logged: LoggedEvent) -> int:
    """A code, or a signal as its negative."""
    line = logged.lines[1] if len(logged.lines) > 1 else ""
    number = int(line.rpartition(" ")[2].rstrip(")") or 0)
    return -number if "(0)" in line else number
