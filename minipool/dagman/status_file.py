"""The NODE_STATUS_FILE of a graph that runs.

A large graph's file takes longer to write than the loop may be held. So it is made of what is so at one moment, in
pieces, with the loop's other tasks between them; and it stands in its place when it is whole.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import trio

from pool.dag.course.course import Course, S
from pool.dag.files.node_status import GraphNow, NodeNow, node_status_pieces
from pool.dag.model import StatusFile as Asked

NODES_A_PIECE: Final = 500
ALWAYS_S: Final = 1.0
"""How often a file is written at most that is written whether anything has changed or not."""
UNDER_WAY: Final = (S.PRERUN, S.SUBMITTED, S.POSTRUN)


class StatusFile:
    """The file of one graph."""

    def __init__(self, dags: Sequence[str], say: Callable[[str], None]) -> None:
        self.dags, self._say = tuple(dags), say
        self._changed = trio.Event()
        self._scope = trio.CancelScope()

    def changed(self) -> None:
        """Nodes are elsewhere than before."""
        self._changed.set()

    async def keep(self, course: Course) -> None:
        """Write the file whenever something has changed and its time has come."""
        asked = course.dag.status_file
        if asked is None:
            return
        with self._scope:
            while True:
                if not asked.always:
                    await self._changed.wait()
                # Before it is written, so that a change meanwhile is not lost.
                self._changed = trio.Event()
                for _ in self._writing(course, asked, ""):
                    await trio.lowlevel.checkpoint()
                await trio.sleep(max(asked.min_interval_s, ALWAYS_S) if asked.always else asked.min_interval_s)

    def finish(self, course: Course, note: str) -> None:
        """The last file, with what has become of the graph."""
        self._scope.cancel()
        if course.dag.status_file is not None:
            deque(self._writing(course, course.dag.status_file, note), maxlen=0)

    def _writing(self, course: Course, asked: Asked, note: str) -> Iterator[None]:
        """Write the file, a piece at each step. A file that cannot be written is no reason to end the graph."""
        beside = f"{asked.path}.tmp"
        graph, nodes = graph_now(course, self.dags, note), nodes_now(course)
        texts = node_status_pieces(graph, nodes, int(time.time()), asked.min_interval_s)
        try:
            # Not buffered: a file that is given up must not write to the one that has come after it.
            with open(beside, "wb", buffering=0) as file:
                while text := "".join(islice(texts, NODES_A_PIECE)):
                    file.write(text.encode(errors="surrogateescape"))
                    yield
            os.replace(beside, asked.path)
        except OSError as error:
            self._say(f"Warning: can't create node status file '{beside}': {error.strerror}")


def graph_now(course: Course, dags: tuple[str, ...], note: str) -> GraphNow:
    """The graph as the file shows it."""
    one = course.counts()
    coming = course.final is not None and not course.over and bool(note)
    return GraphNow(
        dags, one.total, one.done, one.pre, one.queued, one.post, one.ready, one.unready, one.futile,
        one.failed, one.held, one.idle, note, coming,
    )  # fmt: skip


def nodes_now(course: Course) -> Iterable[NodeNow]:
    """Its nodes as the file shows them: as they are when this is called, however late one asks for them."""
    states, retries = bytes(course.states), dict(course.retries)
    # Of these alone there is more to tell, and they are few.
    told = {node: _told(course, node) for node in course.attempts if states[node] in (*UNDER_WAY, S.ERROR)}
    return (
        NodeNow(this.name, states[node], note, retries.get(node, 0), queued, held)
        for node, this in enumerate(course.dag.nodes)
        if this.kind != "SERVICE"
        for note, queued, held in (told.get(node, ("", 0, 0)),)
    )


def _told(course: Course, node: int) -> tuple[str, int, int]:
    one, state = course.attempts[node], course.states[node]
    note = one.error if state == S.ERROR else ""
    if state == S.SUBMITTED:
        note = "idle" if len(one.idle) >= one.left else "not_idle"
    return note, one.left, len(one.held)
