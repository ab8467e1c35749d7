"""Following a graph that runs: what the schedd tells of its jobs, and what became of its nodes.

The schedd tells when something has changed, and how far the graph is (the ad of DAGMan's job). What became of each
node is read from the nodes' log, as `pool dag show` reads it, so both always say the same. The log of an earlier run
is not taken for this one's: it is read once DAGMan has begun, for that truncates it.
"""

from __future__ import annotations

import codecs
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from minipool.cli.dag_tools.graph_files import newest_rescue, text_of
from minipool.client import core
from minipool.client.blocking import Pool
from minipool.client.lines import Lines
from minipool.client.model import JobState
from minipool.client.patience import Attempts
from minipool.client.session import Session
from minipool.client.steps import Step, Tell
from minipool.dagman.arguments import parse
from minipool.dagman.configured import paths, reading, with_file
from pool.base.errors import UserError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.config import Config
from pool.dag.language.reader import read
from pool.dag.show.past import NodePast, Past, State, failed_in
from pool.execute.quoting import arguments_of, environment_of
from pool.jobs.userlog.reader import EventReader
from pool.jobs.userlog.requests import of_event
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.schedd import Selection

NEEDS: Final = (
    *("ClusterId", "ProcId", "JobStatus", "HoldReason", "ExitCode", "DAGNodeName", "RemoteHost", "JobCurrentStartDate"),
    *(
        "Owner",
        "Iwd",
        "Args",
        "Arguments",
        "Env",
        "Environment",
        "DAG_Status",
        "DAG_NodesTotal",
        "DAG_NodesDone",
        "DAG_NodesPrerun",
    ),
    *("DAG_NodesQueued", "DAG_NodesPostrun", "DAG_NodesReady", "DAG_NodesUnready", "DAG_NodesFailed"),
    *("DAG_NodesFutile", "DAG_AdUpdateTime"),
)

LOG_BEHIND_S: Final = 5.0
"""How long a log may be behind."""
POLL_S: Final = 0.05


class Change(NamedTuple):
    """A node that is in another state now."""

    node: int
    now: NodePast
    at: float
    cluster: int
    done: int
    """How many nodes are done."""
    was: State
    """Which state it was in before."""


class Followed:
    """A graph that runs or has run; `cluster` is DAGMan's job."""

    def __init__(self, session: Session, cluster: int) -> None:
        self.session, self.cluster = session, cluster
        self.dagman = ClassAd()
        self.jobs: dict[JobId, ClassAd] = {}
        """Jobs of nodes that are in the queue."""
        self.nodes: Nodes | None = None
        """None until DAGMan has begun."""
        self.over = False
        self.lock = threading.Lock()
        """Held while any of this changes."""
        self._newly_held: set[str] = set()
        """Nodes of which the schedd has told that a job is held, and the log has not."""

    def steps(self) -> Iterator[list[Change]]:
        """What has changed, again and again until the graph is over."""
        lines = Lines(self.session, None)
        select = Selection(constraint=f"ClusterId == {self.cluster} || DAGManJobId == {self.cluster}", all=True)
        try:
            for _ in lines.stream(core.follow(select, Attempts(0, None), self._take, forever=True, projection=NEEDS)):
                if not self.dagman:  # it has left the queue before
                    self._look_into_history()
                yield self._read_on()
                if self.over:
                    return
        finally:
            lines.close()

    def _take(self, states: Sequence[JobState], complete: bool) -> Iterable[Step]:
        with self.lock:
            for state in states:
                if state.id.cluster == self.cluster:
                    self.dagman, self.over = state.ad, state.left
                elif state.left:
                    self.jobs.pop(state.id, None)
                else:
                    before = self.jobs.get(state.id, ClassAd())
                    if JobStatus.HELD == state.ad.eval_int("JobStatus") != before.eval_int("JobStatus"):
                        self._newly_held.add(state.ad.eval_str("DAGNodeName") or "")
                    self.jobs[state.id] = state.ad
        return (Tell(value=None),) if complete else ()

    def _look_into_history(self) -> None:
        pool = Pool(self.session)
        try:
            found = pool.history(self.cluster, limit=1)
        finally:
            pool.close()
        if not found:
            raise UserError(f"there is no job {self.cluster}")
        self.dagman, self.over = found[0], True

    def _read_on(self) -> list[Change]:
        if self.nodes is None and "DAG_Status" in self.dagman:
            # The graph's own file may say where its log is, and what its nodes are called.
            own = environment_of(self.dagman).get("_CONDOR_DAGMAN_CONFIG_FILE", "")
            config = self.session.config
            if own:
                config = with_file(config, os.path.join(self.dagman.eval_str("Iwd") or ".", own))
            self.nodes = Nodes(config, self.dagman)
        if self.nodes is None:
            return []
        nodes = self.nodes
        with self.lock:
            changes = list(nodes.read_on())
        if self.over:
            return changes + self._last_changes(nodes)
        changes += self._changes_behind(nodes, lambda: self._shows_held(nodes))
        self._newly_held.clear()
        return changes

    def _shows_held(self, nodes: Nodes) -> bool:
        self._newly_held = {name for name in self._newly_held if not nodes.is_held(name)}
        return not self._newly_held

    def _last_changes(self, nodes: Nodes) -> list[Change]:
        changes = self._changes_behind(nodes, lambda: nodes.done >= self.dagman.eval_int("DAG_NodesDone", 0))
        with self.lock:
            return changes + list(nodes.without_a_word())

    def _changes_behind(self, nodes: Nodes, complete: Callable[[], bool]) -> list[Change]:
        """What the log tells yet: the schedd tells of a job before that is written there, and then may be silent."""
        changes: list[Change] = []
        deadline = time.monotonic() + LOG_BEHIND_S
        while not complete() and time.monotonic() < deadline:
            time.sleep(POLL_S)  # a file tells nobody that it has grown
            with self.lock:
                changes += nodes.read_on()
        return changes


class Nodes:
    """The nodes of the graph, by their log as it grows."""

    def __init__(self, config: Config, dagman: ClassAd) -> None:
        # The files are named from where DAGMan runs.
        os.chdir(dagman.eval_str("Iwd") or ".")
        options = parse(arguments_of(dagman))
        self.files = options.dags
        rescue = options.rescue_file or ("" if options.load_save else newest_rescue(self.files))
        self.past = Past(read(self.files, text_of, reading(options, config), rescue=rescue))
        self._states: list[State] = []
        self.done = 0
        facts = {"CLUSTER": str(dagman.eval_int("ClusterId", 0)), "OWNER": dagman.eval_str("Owner") or ""}
        self._path = paths(options, config, facts).nodes_log
        self._read = 0
        # What is read may end within a letter.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._reader = EventReader(year=time.localtime().tm_year)

    def read_on(self) -> Iterator[Change]:
        """Each change since the last time."""
        try:
            with open(self._path, "rb") as log:
                log.seek(self._read)
                new = log.read()
        except FileNotFoundError:
            new = b""
        events = [of_event(event) for event in self._reader.feed(self._decoder.decode(new))]
        if not self._read:
            self._begin_anew(events)
        self._read += len(new)
        for event in events:
            yield from self._take(event)

    def _begin_anew(self, events: Iterable[dict[str, Any]]) -> None:
        """Nodes that this run has run are done in the rescue file only if this run has written that."""
        glance = Past(self.past.dag)
        for number in {glance.take(event) for event in events}:
            if number is not None:
                self.past.nodes[number] = NodePast()
        self._states = [one.state for one in self.past.nodes]
        self.done = self._states.count("done")

    def _take(self, event: dict[str, Any]) -> Iterator[Change]:
        number = self.past.take(event)
        if number is None or (now := self.past.nodes[number]).state == (was := self._states[number]):
            return
        self.done += (now.state == "done") - (was == "done")
        self._states[number] = now.state
        yield Change(number, now, event["time"], event["cluster"], self.done, was)

    def is_held(self, name: str) -> bool:
        """Whether the log has a job of the node as held; of a name that is no node's there is nothing to wait for."""
        number = self.past.number(name)
        return number is None or self.past.nodes[number].state == "held"

    def without_a_word(self) -> Iterator[Change]:
        """Nodes that the rescue file at the end names as failed, though none of their jobs has."""
        rescue = newest_rescue(self.files)
        for name in failed_in(text_of(rescue)) if rescue else ():
            number = self.past.number(name)
            if number is not None and (was := self.past.nodes[number].state) in ("waiting", "running"):
                self.past.nodes[number] = now = self.past.nodes[number]._replace(state="failed")
                yield Change(number, now, os.stat(rescue).st_mtime, 0, self.done, was)
