"""Whatever comes first: graphs of chance, whose jobs, scripts and answers end in any order."""

from __future__ import annotations

import random

import pytest

from pool.dag.course import happenings as it
from pool.dag.course.course import Course, S
from pool.dag.course.states import Limits, Settings
from pool.dag.course.step import step
from tests.pool.dag.course.played import Played, course_of, shuffled


def some_graph(dice: random.Random) -> str:
    count = dice.randrange(1, 14)
    lines = [f"JOB N{number} n.sub{dice.choice(['', '', '', ' NOOP', ' DONE'])}" for number in range(count)]
    for child in range(1, count):
        for parent in dice.sample(range(child), min(child, dice.randrange(3))):
            lines.append(f"PARENT N{parent} CHILD N{child}")
    for number in range(count):
        lines += [f"RETRY N{number} {dice.randrange(3)}"] if dice.random() < 0.4 else []
        lines += [f"SCRIPT PRE N{number} pre"] if dice.random() < 0.3 else []
        lines += [f"SCRIPT POST N{number} post"] if dice.random() < 0.3 else []
        lines += [f"CATEGORY N{number} some"] if dice.random() < 0.3 else []
        lines += [f"PRIORITY N{number} {dice.randrange(9)}"] if dice.random() < 0.3 else []
    lines += ["MAXJOBS some 2"] if any("CATEGORY" in line for line in lines) else []
    lines += ["FINAL F n.sub"] if dice.random() < 0.3 else []
    return "\n".join(lines) + "\n"


def played_by_chance(seed: int) -> Played:
    dice = random.Random(seed)
    limits = Limits(*(dice.randrange(4) for _ in range(5)))
    course = course_of(some_graph(dice), Settings(limits=limits))
    codes: dict[str, list[int | None]] = {}
    scripts: dict[str, list[int]] = {}
    for node in course.dag.nodes:
        codes[node.name] = [dice.choice([0, 0, 1, None]) for _ in range(3)]
        for kind in ("PRE", "POST"):
            scripts[f"{kind} {node.name}"] = [dice.choice([0, 0, 0, 2]) for _ in range(3)]
    return Played(course, codes, scripts, shuffled(seed)).run()


@pytest.mark.parametrize("seed", range(150))
def test_every_graph_comes_to_an_end_in_which_its_nodes_agree(seed: int) -> None:
    played = played_by_chance(seed)
    course = played.course
    assert played.finished is not None, "something waits that nothing will wake"
    assert course.submitted == course.idle_jobs == course.held_jobs == course.jobs_queued == 0
    assert (course.pre, course.post, len(course.ready)) == (0, 0, 0)
    for kind, queue in course.scripts.items():
        assert (queue.running, len(queue.waiting)) == (0, 0), kind
    _check_nodes(course)
    _check_attempts(played)


def _check_nodes(course: Course) -> None:
    states = [S(state) for state in course.states]
    assert states.count(S.DONE) == course.done
    assert states.count(S.ERROR) == course.failed
    assert states.count(S.FUTILE) == course.futile
    for node, children in enumerate(course.dag.children):
        for child in children:
            ran = states[child] in (S.DONE, S.ERROR) and not course.node(child).done
            assert not ran or states[node] is S.DONE, "a node ran before one that it waits for"


def _check_attempts(played: Played) -> None:
    course = played.course
    for number, node in enumerate(course.dag.nodes):
        assert played.ran.count(node.name) <= course.retries.get(number, 0) + 1
        if course.states[number] == S.DONE and not node.done and node.pre is None:
            assert played.ran.count(node.name) == course.retries.get(number, 0) + 1


@pytest.mark.parametrize("seed", range(60))
def test_what_is_told_twice_changes_nothing(seed: int) -> None:
    dice = random.Random(seed)
    played = Played(course_of(some_graph(dice)), {}, {}, shuffled(seed))
    once = played.happens

    def twice(event: it.Event) -> list[it.Effect]:
        effects = once(event)
        if not isinstance(event, it.Begin | it.ScriptEnded):
            again = step(played.course, event)
            assert [one for one in again if not isinstance(one, it.Say)] == []
        return effects

    played.happens = twice  # type: ignore[method-assign]
    played.run()
    assert played.code in (0, 1)
