"""The files that condor_dagman writes of a graph's course: rescue and save files, metrics, pictures, the jobstate log.

* A file stands in its place whole or not at all: who goes on from a half one would run again what is done.
* A run writes one rescue file, whose number is the next after that from which it began, also when it is gone on with.
* The metrics come last. They say to a process of the same job that the graph has ended.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Final

import trio

from minipool.dagman.status_file import StatusFile
from pool.dag.course.course import Course
from pool.dag.course.happenings import Note
from pool.dag.course.states import DagStatus, ExitCode
from pool.dag.files.dot import dot_lines
from pool.dag.files.metrics import RunFacts, metrics_text
from pool.dag.files.rescue import rescue_lines, rescue_name, save_lines
from pool.dag.model import DotFile

if TYPE_CHECKING:
    from minipool.dagman.own_job import OwnJob

LINES_A_PIECE: Final = 2000
DOT_S: Final = 1.0
"""How long a picture is shown at least before it is drawn anew."""
END_NOTES: Final = {DagStatus.RM: "removed", DagStatus.ABORT: "aborted", DagStatus.CYCLE: "cycle"}


class Files:
    """The files of one graph."""

    def __init__(
        self, dags: Sequence[str], metrics: str, say: Callable[[str], None], *, graph_metrics: bool, rescue_max: int,
        reset_retries: bool, metrics_version: int = 2,
    ) -> None:  # fmt: skip
        self.dags, self.primary, self.several = tuple(dags), dags[0], len(dags) > 1
        self.metrics, self.graph_metrics, self.metrics_version = metrics, graph_metrics, metrics_version
        self.rescue_max, self.reset_retries = rescue_max, reset_retries
        self.started_at = time.time()
        self.rescue_number = 0
        self.go_on_from: int | None = None
        """The rescue file that an earlier run, which is gone on with, began from; newer ones are of its end."""
        self._rescue = ""
        self._changed, self._drawing_scope = trio.Event(), trio.CancelScope()
        self.status, self._say = StatusFile(dags, say), say

    def last_rescue(self) -> int:
        """The number of the newest rescue file; 0: there is none."""
        return max((n for n in range(1, self.rescue_max + 1) if os.path.exists(self.rescue(n))), default=0)

    def last_rescue_before(self) -> int:
        """The number of the one that the run begins from, or that the run began from which is gone on with."""
        return self.last_rescue() if self.go_on_from is None else self.go_on_from

    def ended(self, dag_id: int, since: float) -> int | None:
        """What this job returned, if it has ended the graph already: its metrics say so, written `since` then.

        A process that is killed after its last line would else be run again, and the graph from the start.
        """
        try:
            with open(self.metrics, encoding="utf-8", errors="replace") as file:
                metrics = json.load(file)
            if metrics["dagman_id"] != str(dag_id) or metrics["end_time"] < since:
                return None
            code = metrics["exitcode"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        # After any other code the schedd runs the job again, and means it.
        return code if code in (ExitCode.OKAY, ExitCode.ERROR, ExitCode.ABORT) else None

    def rescue(self, number: int) -> str:
        """The rescue file of this number."""
        return rescue_name(self.primary, number, several=self.several)

    def put_aside_after(self, number: int) -> None:
        """Rescue files that are newer than this one are renamed to `.old`."""
        for later in range(number + 1, self.rescue_max + 1):
            if os.path.exists(self.rescue(later)):
                os.replace(self.rescue(later), f"{self.rescue(later)}.old")

    def writing_rescue(self, course: Course) -> Iterator[str]:
        """Write a rescue file, always the same of one run: a piece at each step, while the course stands still."""
        # A graph with a FINAL node may write twice, and two numbers would be two attempts to mend it.
        if not self._rescue:
            self._rescue = self.rescue(min(self.last_rescue_before() + 1, self.rescue_max))
        return self._writing(self._rescue, rescue_lines(course, time.time(), reset_retries=self.reset_retries))

    def writing_save(self, course: Course, node: int) -> Iterator[str]:
        """Write the node's save file likewise; the one before is kept as `.old`."""
        path = save_path(self.primary, course.node(node).save_point)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if os.path.exists(path):
            os.replace(path, f"{path}.old")
        return self._writing(path, save_lines(course, node, time.time()))

    def _writing(self, path: str, lines: Iterable[str]) -> Iterator[str]:
        # Whole or not at all: who starts from a half one would run again what is done.
        beside, left = f"{path}.tmp", iter(lines)
        # Not buffered: a file that is given up must not write to the one that has come after it.
        with open(beside, "wb", buffering=0) as file:
            while text := "".join(islice(left, LINES_A_PIECE)):
                file.write(text.encode(errors="surrogateescape"))
                yield path
        os.replace(beside, path)
        yield path

    def note(self, course: Course, note: Note) -> None:
        """A line for the JOBSTATE_LOG."""
        name = course.node(note.node).name
        self._log(course, f"{name} {note.word} {note.about} - - {note.sequence}")

    def internal(self, course: Course, said: str) -> None:
        """A line of the JOBSTATE_LOG about condor_dagman itself."""
        if course.dag.jobstate_log:
            self._log(course, f"INTERNAL *** {said} ***")

    def _log(self, course: Course, line: str) -> None:
        with open(course.dag.jobstate_log, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{int(time.time())} {line}\n")

    def changed(self) -> None:
        """Nodes are elsewhere than before."""
        self.status.changed()
        self._changed.set()

    async def keep_drawing(self, course: Course) -> None:
        """Draw the graph whenever something has changed, if that is wanted, and not sooner than somebody could look."""
        if course.dag.dot is None or not course.dag.dot.update:
            return
        with self._drawing_scope:
            while True:
                await self._changed.wait()
                # Before it is drawn, so that a change meanwhile is not lost.
                self._changed = trio.Event()
                try:
                    for _ in self._drawing(course, course.dag.dot):
                        await trio.lowlevel.checkpoint()
                except OSError as error:  # no reason to end the graph
                    self._say(f"Warning: can't create dot file {course.dag.dot.path}: {error.strerror}")
                await trio.sleep(DOT_S)

    def draw(self, course: Course) -> str:
        """Write the DOT file; its name."""
        assert course.dag.dot is not None
        *_, path = self._drawing(course, course.dag.dot)
        return path

    def _drawing(self, course: Course, asked: DotFile) -> Iterator[str]:
        """Write the DOT file of this moment, a piece at each step; its name."""
        include = None
        if asked.include:
            with open(asked.include, encoding="utf-8", errors="surrogateescape") as file:
                include = file.read()
        path = (
            asked.path
            if asked.overwrite
            else next(name for name in (f"{asked.path}.{number}" for number in count()) if not os.path.exists(name))
        )
        yield from self._writing(path, dot_lines(course.dag, bytes(course.states), int(time.time()), include))

    def last_sequence(self, path: str) -> int:
        """The number of the last attempt in a JOBSTATE_LOG that goes on; 0 where none is."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                last = [line.rpartition(" ")[2].strip() for line in file if " INTERNAL " not in line]
        except FileNotFoundError:
            return 0
        return max((int(word) for word in last if word.isdigit()), default=0)

    def finish(self, course: Course, code: int, own: OwnJob) -> None:
        """The last of all files."""
        self.internal(course, f"DAGMAN_FINISHED {code}")
        self._drawing_scope.cancel()
        self.status.finish(course, END_NOTES.get(course.status, "failed") if code else "success")
        # The last changes of all come too soon behind others to have been drawn.
        if course.dag.dot is not None and course.dag.dot.update:
            self.draw(course)
        dag_id = "" if own.id is None else str(own.id.cluster)
        run = RunFacts(self.started_at, time.time(), code, dag_id, own.parent, self.rescue_number)
        text = metrics_text(course, run, of_graph=self.graph_metrics, version=self.metrics_version)
        deque(self._writing(self.metrics, [text]), maxlen=0)


def save_path(primary: str, name: str) -> str:
    """Where a save file is: in `save_files` beside the DAG file, unless it is named with a directory."""
    return name if "/" in name else os.path.join(os.path.dirname(primary), "save_files", name)
