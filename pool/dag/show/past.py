"""What became of a graph's nodes, as the files that DAGMan leaves behind tell it.

The rescue file says which nodes are done and which failed; the nodes' log, event by event, how and when their jobs
ended; the node status file why a node failed whose jobs never ran. What is written last counts: the log goes on where
the rescue file ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from pool.dag.graph import layers, reach
from pool.dag.model import Dag

State = Literal["done", "failed", "running", "held", "never", "waiting"]

_NAME: Final = re.compile(r'DAGNodeName = "([^"]+)"|DAG Node: (\S+)')
_FAILED: Final = re.compile(r"^# Nodes that failed:.*?<ENDLIST>", re.MULTILINE | re.DOTALL)
SUBMIT, EXECUTE, TERMINATED, ABORTED, HELD, RELEASED, POST_SCRIPT = 0, 1, 5, 9, 12, 13, 16
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
    dag: Dag, *, rescue: str = "", events: Iterable[Mapping[str, Any]] = (), status: Iterable[Mapping[str, Any]] = ()
) -> list[NodePast]:
    """What became of each node. `rescue` is that file's text; the graph was read with it."""
    found = [NodePast("done") if node.done else NodePast() for node in dag.nodes]
    numbers = {node.name: number for number, node in enumerate(dag.nodes)}
    for name in failed_in(rescue):
        if name in numbers and found[numbers[name]].state != "done":
            found[numbers[name]] = NodePast("failed")
    _follow(dag, found, numbers, events)
    for ad in status:
        _explain(found, numbers.get(str(ad.get("Node")), -1), ad)
    # What a node cannot reach any more, as one that it waits for has failed.
    for number in [number for number, past in enumerate(found) if past.state == "failed"]:
        for behind in reach(dag.children, (number,)):
            if found[behind].state == "waiting":
                found[behind] = NodePast("never", f"waits for {dag.nodes[number].name}")
    return found


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


class _Run:
    """The jobs of a node's submission, while the log tells of them."""

    def __init__(self, node: int, at: float) -> None:
        self.node, self.at = node, at
        self.procs: set[int] = set()
        self.failed = ""


def _follow(dag: Dag, found: list[NodePast], numbers: Mapping[str, int], events: Iterable[Mapping[str, Any]]) -> None:
    runs: dict[int, _Run] = {}
    for event in events:
        cluster, kind = event["cluster"], event["type"]
        if kind == SUBMIT and cluster not in runs:
            name = _NAME.search(str(event["attrs"].get("LogNotes", "")))
            number = numbers.get((name[1] or name[2]) if name else "", -1)
            if number < 0:
                continue
            runs[cluster] = _Run(number, event["time"])
            found[number] = NodePast("running", runs=found[number].runs + 1)
        if (run := runs.get(cluster)) is not None:
            found[run.node] = _after(dag, found[run.node], run, event)


def _after(dag: Dag, past: NodePast, run: _Run, event: Mapping[str, Any]) -> NodePast:
    attributes, took = event["attrs"], max(event["time"] - run.at, 0.0)
    match event["type"]:
        case 0:
            run.procs.add(event["proc"])
        case 12:
            return past._replace(state="held", why=str(attributes.get("HoldReason", "")))
        case 13:
            return past._replace(state="running", why="")
        case 5 | 9:
            run.procs.discard(event["proc"])
            run.failed = run.failed or _how(event["type"], attributes)
            # Where there is a POST script it decides, later.
            if run.failed:
                return past._replace(state="failed", why=run.failed, seconds=took)
            if not run.procs and dag.nodes[run.node].post is None:
                return past._replace(state="done", why="", seconds=took)
        case 16:
            how = _how(16, attributes)
            return past._replace(state="failed" if how else "done", why=how and f"POST script: {how}", seconds=took)
    return past


def _how(kind: int, attributes: Mapping[str, Any]) -> str:
    """How something ended badly; empty if it ended well."""
    if kind == ABORTED:
        return f"removed: {attributes['Reason']}" if attributes.get("Reason") else "removed"
    if not attributes.get("TerminatedNormally", True):
        return f"signal {attributes.get('TerminatedBySignal')}"
    code = attributes.get("ReturnValue", 0)
    return f"exit code {code}" if code else ""


def _explain(found: list[NodePast], number: int, ad: Mapping[str, Any]) -> None:
    if number < 0:
        return
    past, state, details = found[number], ad.get("NodeStatus"), str(ad.get("StatusDetails", ""))
    if state == _ERROR and (past.state != "failed" or not past.why):
        found[number] = past._replace(state="failed", why=details)
    elif state == _DONE and past.state == "waiting":
        found[number] = past._replace(state="done")
