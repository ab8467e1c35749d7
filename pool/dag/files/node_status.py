"""NODE_STATUS_FILE: where the graph and each of its nodes are, as ClassAds; condor_dagman's, to the character.

HTCondor's manual: automated-workflows/dagman-information-files.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pool.classad.syntax.unparse import quote

NOT_READY, READY, PRERUN, SUBMITTED, POSTRUN, DONE, ERROR, FUTILE = range(8)
STATES: Final = ("NOT_READY", "READY", "PRERUN", "SUBMITTED", "POSTRUN", "DONE", "ERROR", "FUTILE")
_UNDER_WAY: Final = (PRERUN, SUBMITTED, POSTRUN)


class NodeNow(NamedTuple):
    """A node, at one moment."""

    name: str
    state: int
    note: str = ""
    """`idle` or `not_idle` of one that is submitted, why one has failed."""
    retries: int = 0
    queued: int = 0
    """Jobs of it in the queue, and those of them that are held."""
    held: int = 0


class GraphNow(NamedTuple):
    """A graph, at one moment; the figures are of nodes, but `held` and `idle`, which are of jobs."""

    files: tuple[str, ...]
    total: int
    done: int = 0
    pre: int = 0
    queued: int = 0
    post: int = 0
    ready: int = 0
    unready: int = 0
    futile: int = 0
    failed: int = 0
    held: int = 0
    idle: int = 0
    note: str = ""
    """What becomes of it: success, failed, aborted, cycle, removed, held; empty while it runs."""
    final_to_come: bool = False
    """It was aborted or removed, and its FINAL node is still to run."""

    @property
    def over(self) -> bool:
        """Nothing is to come, so the file is not written again."""
        return self.note not in ("", "held") and not self.final_to_come

    @property
    def given_up(self) -> bool:
        """Whether nodes under way count as failed: their jobs are being removed, and nobody sees them leave."""
        return self.over and self.note != "cycle"


def node_status_text(graph: GraphNow, nodes: Iterable[NodeNow], at: int, interval_s: int) -> str:
    """The whole file."""
    return "".join(node_status_pieces(graph, nodes, at, interval_s))


def node_status_pieces(graph: GraphNow, nodes: Iterable[NodeNow], at: int, interval_s: int) -> Iterator[str]:
    """The whole file, an ad at a time."""
    yield _graph(graph, at)
    for node in nodes:
        yield _node(node, given_up=graph.given_up)
    after = 0 if graph.over or graph.note == "removed" else at + interval_s
    yield f'[\n  Type = "StatusEnd";\n  EndTime = {_moment(at)}\n  NextUpdate = {_moment(after)}\n]\n'


def _graph(graph: GraphNow, at: int) -> str:
    state = SUBMITTED
    if graph.over:
        state = DONE if graph.note == "success" else ERROR
    if graph.given_up:
        lost = graph.pre + graph.queued + graph.post
        graph = graph._replace(failed=graph.failed + lost, pre=0, queued=0, post=0, held=0, idle=0)
    said = f"STATUS_{STATES[state]} ({graph.note})"
    files = ",\n".join(f"    {quote(file)}" for file in graph.files)
    figures = "".join(f"  {name} = {value};\n" for name, value in _figures(graph))
    return (
        f'[\n  Type = "DagStatus";\n  DagFiles = {{\n{files}\n  }};\n  Timestamp = {_moment(at)}\n'
        f"  DagStatus = {state}; /* {quote(said)} */\n"
        f"{figures}  JobProcsIdle = {graph.idle}; /* includes held */\n]\n"
    )


def _figures(graph: GraphNow) -> Iterator[tuple[str, int]]:
    yield "NodesTotal", graph.total
    yield "NodesDone", graph.done
    yield "NodesPre", graph.pre
    yield "NodesQueued", graph.queued
    yield "NodesPost", graph.post
    yield "NodesReady", graph.ready
    yield "NodesUnready", graph.unready
    yield "NodesFutile", graph.futile
    yield "NodesFailed", graph.failed
    yield "JobProcsHeld", graph.held


def _node(node: NodeNow, *, given_up: bool) -> str:
    state, note, queued, held = node.state, node.note, node.queued, node.held
    if given_up and state in _UNDER_WAY:
        state, note, queued, held = ERROR, f"Was STATUS_{STATES[state]}", 0, 0
    elif state == FUTILE:
        note = "Had an ancestor node fail"
    return (
        f'[\n  Type = "NodeStatus";\n  Node = {quote(node.name)};\n'
        f'  NodeStatus = {state}; /* "STATUS_{STATES[state]}" */\n  StatusDetails = {quote(note)};\n'
        f"  RetryCount = {node.retries};\n  JobProcsQueued = {queued};\n  JobProcsHeld = {held};\n]\n"
    )


def _moment(at: int) -> str:
    words = time.asctime(time.localtime(at)) if at else "none"
    return f'{at}; /* "{words}" */'
