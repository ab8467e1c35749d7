"""What HTCondor's condor_dagman made of graphs, the course makes of them: order, exit codes, rescue and save files."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pool.dag.course import happenings as it
from pool.dag.course.course import Course
from pool.dag.course.scripts import unknown_macros
from pool.dag.course.states import Limits, Settings
from pool.dag.files.rescue import rescue_lines, rescue_name, save_lines
from pool.dag.language.errors import DagError
from pool.dag.language.reader import Options, read
from tests.pool.dag.cases import reader
from tests.pool.dag.course.played import Played
from tests.pool.dag.recorded import Recorded, recorded, without_time

CASES = [case for case in recorded() if not case.head.get("live")]
HANGS = 10**6
"""A job that does not end by itself."""


@dataclass
class Told(Played):
    """One whose files are kept, and whose jobs may hang."""

    several: bool = False
    broken: frozenset[str] = frozenset()
    left: dict[str, str] = field(default_factory=dict)

    def run(self) -> Told:
        self.begin()
        while self.finished is None and (at := self._next_event()) is not None:
            events = self._open[at]
            event = events.pop(0)
            if not events:
                del self._open[at]
            self.happens(event)
        return self

    def _next_event(self) -> int | None:
        hangs = (isinstance(one[0], it.JobEnded) and one[0].code == HANGS for one in self._open)
        return next((at for at, hang in enumerate(hangs) if not hang), None)

    def _answer(self, effect: it.Effect) -> None:
        name = self.course.dag.nodes
        dag = self.course.dag.file
        match effect:
            case it.Submit(node) if name[node].name in self.broken:
                self._open.append([it.SubmitFailed(node, "no such file", True)])
                return
            case it.Submit(node) if name[node].noop:  # its job is not there, so it notes nothing
                super()._answer(effect)
                self.ran.pop()
                return
            case it.WriteRescue():
                self.left[rescue_name(dag, 1, several=self.several)] = without_time(
                    "".join(rescue_lines(self.course, 0))
                )
            case it.WriteSave(node):
                self.left[f"save_files/{name[node].save_point}"] = without_time(
                    "".join(save_lines(self.course, node, 0))
                )
            case it.RunScript(node, kind, command):
                # The first words of its arguments say again which script this is.
                effect = it.RunScript(node, kind, (command[0], *command[3:]))
        super()._answer(effect)


def begins(course: Course) -> bool:
    """Whether condor_dagman lets it begin at all."""
    scripts = (script for node in course.dag.nodes for script in (node.pre, node.post, node.hold) if script)
    return course.dag.rejected is None and not any(unknown_macros(script) for script in scripts)


def settings(case: Recorded) -> Settings:
    words = case.head.get("options", "").split()
    limits = {word[4:]: int(number) for word, number in pairwise(words) if word.startswith("-max")}
    on = dict.fromkeys(case.head.get("settings", "").split(), True)
    return Settings(limits=Limits(**limits), always_run_post="-AlwaysRunPost" in words, **on)


def play(course: Course, case: Recorded) -> Told:
    codes = {name: [HANGS if one == "hang" else int(one) for one in some] for name, some in case.codes("JOB").items()}
    scripts = {
        f"{kind} {name}": [int(one) for one in some]
        for kind in ("PRE", "POST")
        for name, some in case.codes(kind).items()
    }
    broken = frozenset(case.head.get("broken", "").split())
    return Told(course, codes, scripts, several=len(case.dags) > 1, broken=broken).run()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_graph_goes_as_htcondors_condor_dagman_had_it_go(case: Recorded) -> None:
    try:
        course = Course(read(case.dags, reader(case.files), Options(joins=True)), settings(case))
    except DagError:
        assert (case.exit_code, case.ran, case.left) == (1, [], {})
        return
    if not begins(course):
        assert (case.exit_code, case.ran, case.left) == (1, [], {})
        return
    played = play(course, case)
    ran = played.ran if case.in_order else sorted(played.ran)
    assert (ran, played.code) == (case.ran, case.exit_code)
    assert played.left == case.left
