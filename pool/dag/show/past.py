"""What became of a graph's nodes, as the files that DAGMan leaves behind tell it.

The rescue file says which nodes are done and which failed; the nodes' log, event by event, how and when their jobs
ended; the node status file, and DAGMan's log, why a node failed whose jobs never ran. What is written last counts: the
nodes' log goes on where the rescue file ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from pool.dag.graph import layers, reach
from pool.dag.model import Dag

State = Literal["done", "failed", "running", "held", "never", "waiting"]

_NAME: Final = re.compile(r'DAGNodeName = "([^"]+)"|DAG Node: (\S+)')
_FAILED: Final = re.compile(r"^# Nodes that failed:.*?<ENDLIST>", re.MULTILINE | re.DOTALL)
SUBMIT, EXECUTE, TERMINATED, ABORTED, HELD, RELEASED, POST_SCRIPT = 0, 1, 5, 9, 12, 13, 16
SKIPPED, CLUSTER_SUBMIT, CLUSTER_REMOVE = 34, 35, 36
_DONE, _ERROR = 5, 6
"""NodeStatus of the node status file."""


class NodePast(NamedTuple):
    """A node, as far as it has come."""

    state: State = "waiting"
    why: str = ""
    """Of one that failed, is held or never runs."""
    runs: int = 0
    seconds: float = 0.0
    """From its last submission to its end."""


def look_back(
    dag: Dag,
    *,
    rescue: str = "",
    events: Iterable[Mapping[str, Any]] = (),
    status: Iterable[Mapping[str, Any]] = (),
    log: Callable[[], str] = lambda: "",
) -> list[NodePast]:
    """What became of each node. `rescue`: that file's text; the graph was read with it. `log`: of DAGMan's."""
    past = Past(dag, rescue)
    for event in events:
        past.take(event)
    for ad in status:
        past.explain(ad)
    if any(one.state == "failed" and not one.why for one in past.nodes):
        past.explain_by(failures_in(log()))
    past.give_up()
    return past.nodes


class Past:
    """What is known of a graph's nodes so far, event by event of their log."""

    def __init__(self, dag: Dag, rescue: str = "") -> None:
        self.dag = dag
        self.nodes = [NodePast("done") if node.done else NodePast() for node in dag.nodes]
        self.begun_at: dict[int, float] = {}
        """When the jobs of a node were last submitted."""
        self._numbers = {node.name: number for number, node in enumerate(dag.nodes)}
        self._runs: dict[tuple[int, int], _Run] = {}
        for name in failed_in(rescue):
            if name in self._numbers and self.nodes[self._numbers[name]].state != "done":
                self.nodes[self._numbers[name]] = NodePast("failed")

    def number(self, name: str) -> int | None:
        """The node of this name."""
        return self._numbers.get(name)

    def take(self, event: Mapping[str, Any]) -> int | None:
        """What the event says; the node that it is about, if one is."""
        # Nodes without a job are told apart by the third number alone.
        kind, job = event["type"], (event["cluster"], event["subproc"])
        if kind == SKIPPED:
            if (number := self._named(event, "SkipEventLogNotes")) is not None:
                self.nodes[number] = NodePast("done")
            return number
        if kind == POST_SCRIPT and job not in self._runs:  # its PRE script has failed: there was no job
            self._runs[job] = _Run(node=self._numbers.get(str(event["attrs"].get("DAGNodeName"))))
        if kind in (SUBMIT, CLUSTER_SUBMIT) and job not in self._runs:
            self._runs[job] = _Run(is_factory=kind == CLUSTER_SUBMIT)
        run = self._runs.get(job)
        if run is None:
            return None
        if kind == SUBMIT and run.node is None:
            self._begin(run, event)
        if run.node is not None:
            has_post = self.dag.nodes[run.node].post is not None
            self.nodes[run.node] = _after(self.nodes[run.node], run, event, has_post=has_post)
        return run.node

    def _begin(self, run: _Run, event: Mapping[str, Any]) -> None:
        run.node, run.at = self._named(event, "LogNotes"), event["time"]
        if run.node is not None:
            self.begun_at[run.node] = run.at
            self.nodes[run.node] = NodePast("running", runs=self.nodes[run.node].runs + 1)

    def _named(self, event: Mapping[str, Any], attribute: str) -> int | None:
        name = _NAME.search(str(event["attrs"].get(attribute, "")))
        return self._numbers.get(name[1] or name[2]) if name else None

    def explain(self, ad: Mapping[str, Any]) -> None:
        """What the node status file says of a node."""
        number = self._numbers.get(str(ad.get("Node")))
        if number is None:
            return
        past, state, details = self.nodes[number], ad.get("NodeStatus"), str(ad.get("StatusDetails", ""))
        if state == _ERROR and (past.state != "failed" or not past.why):
            self.nodes[number] = past._replace(state="failed", why=details)
        elif state == _DONE and past.state == "waiting":
            self.nodes[number] = past._replace(state="done")

    def explain_by(self, reasons: Mapping[str, str]) -> None:
        """Why nodes failed of which nothing else says it, such as those that could not be submitted."""
        for number, one in enumerate(self.nodes):
            if one.state == "failed" and not one.why:
                self.nodes[number] = one._replace(why=reasons.get(self.dag.nodes[number].name, ""))

    def give_up(self) -> None:
        """No more comes: what a node waits for that has failed never comes either."""
        for number in [number for number, past in enumerate(self.nodes) if past.state == "failed"]:
            for behind in reach(self.dag.children, (number,)):
                if self.nodes[behind].state == "waiting":
                    self.nodes[behind] = NodePast("never", f"waits for {self.dag.nodes[number].name}")


def of_layers(dag: Dag) -> list[list[int]]:
    """The layers, and behind them those nodes that stand outside of the graph: SERVICE, PROVISIONER and FINAL."""
    inside = [[number for number in layer if dag.nodes[number].kind in ("JOB", "SUBDAG")] for layer in layers(dag)]
    outside = [number for number, node in enumerate(dag.nodes) if node.kind not in ("JOB", "SUBDAG")]
    return [layer for layer in (*inside, outside) if layer]


def failed_in(rescue: str) -> list[str]:
    """The nodes that a rescue file's comment names as failed."""
    listed = _FAILED.search(rescue)
    if listed is None:
        return []
    lines = listed[0].split("\n")[1:]
    names = ",".join(line.lstrip("# ") for line in lines).split(",")
    return [name.strip() for name in names if name.strip() and name.strip() != "<ENDLIST>"]


def failures_in(log: str) -> dict[str, str]:
    """Why each node failed that the last list of DAGMan's log shows."""
    shown = re.split(r"Node Name: ", log.rpartition("ERROR: the following ")[2])[1:]
    found = ((node.split("\n", 1)[0], re.search(r"^.* Error: (.*)$", node, re.MULTILINE)) for node in shown)
    return {name: error[1] for name, error in found if error is not None}


class _Run:
    """The jobs of one submission, while the log tells of them."""

    def __init__(self, *, is_factory: bool = False, node: int | None = None) -> None:
        self.node = node
        self.at = 0.0
        self.procs: set[int] = set()
        self.failed = ""
        self.makes_jobs = is_factory
        self.post: NodePast | None = None
        """What its POST script has made of the node; it may come before the end of the jobs: two write to the log."""


def _after(past: NodePast, run: _Run, event: Mapping[str, Any], *, has_post: bool) -> NodePast:
    attributes, took = event["attrs"], max(event["time"] - run.at, 0.0)
    match event["type"]:
        case 0:
            run.procs.add(event["proc"])
        case 12:
            return past._replace(state="held", why=str(attributes.get("HoldReason", "")))
        case 13:
            return past._replace(state="running", why="")
        case 5 | 9 | 36:
            if event["type"] == CLUSTER_REMOVE:
                run.makes_jobs = False
            else:
                run.procs.discard(event["proc"])
                run.failed = run.failed or _how(event["type"], attributes)
            if has_post:  # it decides
                return run.post or past._replace(state="running", why=run.failed)
            if run.failed:
                return past._replace(state="failed", why=run.failed, seconds=took)
            if not run.procs and not run.makes_jobs:
                return past._replace(state="done", why="", seconds=took)
        case 16:
            how = _how(16, attributes)
            run.post = past._replace(state="failed" if how else "done", why=how and f"POST script: {how}", seconds=took)
            return run.post
    return past


def _how(kind: int, attributes: Mapping[str, Any]) -> str:
    """How something ended badly; empty if it ended well."""
    if kind == ABORTED:
        return f"removed: {attributes['Reason']}" if attributes.get("Reason") else "removed"
    if not attributes.get("TerminatedNormally", True):
        return f"signal {attributes.get('TerminatedBySignal')}"
    code = attributes.get("ReturnValue", 0)
    return f"exit code {code}" if code else ""
