"""What nodes' jobs get from condor_dagman beside their own descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.client.session import Session
from minipool.dagman.submitting import Around, Descriptions, inherited, lines_of
from pool.classad import ClassAd, expr
from pool.config import load_config
from tests.minipool.dagman.simulated import SCHEDD, World, in_world
from tests.pool.dag.course.played import course_of

AROUND = Around(nodes_log="/d/x.dag.nodes.log", dag_id=7)
PAIR = "JOB A n.sub\nJOB B n.sub\nPARENT A CHILD B\n"


def before(around: Around, text: str = PAIR, node: int = 0) -> list[str]:
    return lines_of(course_of(text), node, "", around, on_hold=False).before


def after(around: Around, text: str = PAIR) -> list[str]:
    return lines_of(course_of(text), 0, "", around, on_hold=False).after


def test_what_a_node_is_told_of_its_parents_is_no_line_that_nothing_asks_for(tmp_path: Path) -> None:
    (tmp_path / "n.sub").write_text("executable = /bin/true\nqueue\n")
    course = course_of(PAIR)
    lines = lines_of(course, 1, "A", AROUND, on_hold=False)
    descriptions = Descriptions(Session(load_config([], environ={})))
    plan = descriptions.plan(course.node(1), "n.sub", str(tmp_path), lines)
    assert plan.cluster_ad.eval_str("DAGParentNodeNames") == "A"
    assert plan.unused() == []


def test_what_a_description_includes_lies_in_its_nodes_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "n.sub").write_text(
        "executable = /bin/true\ninclude : more\ninclude command : cat there\nqueue 1 x matching *.dat\n"
    )
    (tmp_path / "sub" / "more").write_text("+More = 1\n")
    (tmp_path / "sub" / "there").write_text("+There = 2\n")
    (tmp_path / "sub" / "a.dat").touch()
    descriptions = Descriptions(Session(load_config([], environ={})))
    lines = lines_of(course_of(PAIR), 1, "A", AROUND, on_hold=False)
    plan = descriptions.plan(course_of(PAIR).node(1), "n.sub", str(tmp_path / "sub"), lines)
    assert plan.count == 1
    assert [plan.cluster_ad.eval_int(name) for name in ("More", "There")] == [1, 2]


def test_a_description_that_is_changed_holds_for_the_nodes_after_it(tmp_path: Path) -> None:
    descriptions = Descriptions(Session(load_config([], environ={})))
    found = []
    for number in range(2):
        (tmp_path / "n.sub").write_text(f"executable = /bin/true\narguments = {number} $(JOB)\nqueue\n")
        lines = lines_of(course_of(PAIR), number, "", AROUND, on_hold=False)
        found.append(descriptions.plan(course_of(PAIR).node(number), "n.sub", str(tmp_path), lines).cluster_ad["Args"])
    assert found == ["0 A", "1 B"]


def test_nodes_have_neither_logs_nor_mail_if_that_is_wanted() -> None:
    wanted = AROUND._replace(suppress_logs=True, suppress_notification=True)
    assert set(after(wanted)) - set(after(AROUND)) == {"log=", "notification=NEVER"}


def test_a_claim_is_kept_for_the_child_of_a_node() -> None:
    assert "keep_claim_idle=20" in before(AROUND)
    assert not [line for line in before(AROUND, node=1) if line.startswith("keep_claim_idle")]
    assert not [line for line in before(AROUND._replace(hold_claim_s=0)) if line.startswith("keep_claim_idle")]


def test_variables_come_behind_the_submit_file_where_they_or_the_configuration_say_so() -> None:
    text = 'JOB A n.sub\nVARS A a="1"\nVARS A APPEND b="2"\nVARS A PREPEND c="3"\n'
    appending = AROUND._replace(append_variables=True)
    assert {"a=1", "c=3"} <= set(before(AROUND, text))
    assert "b=2" in after(AROUND, text)
    assert "c=3" in before(appending, text)
    assert {"a=1", "b=2"} <= set(after(appending, text))


def test_attributes_of_the_graphs_own_job_are_handed_down_with_a_prefix_once() -> None:
    ad = ClassAd({"ClusterId": 4, "NumJobStarts": expr("1 + 2")})
    lines = inherited(ad, "ClusterId, NumJobStarts, JobStatus", "Orig_")
    assert lines == ("MY.Orig_ClusterId=4", "MY.Orig_NumJobStarts=1 + 2")
    nested = ClassAd({"ClusterId": 5, "Orig_ClusterId": 4})
    assert inherited(nested, "ClusterId", "Orig_") == ("MY.Orig_ClusterId=4",)
    assert set(before(AROUND._replace(inherited=lines))) - set(before(AROUND)) == set(lines)


def test_requests_leave_in_the_order_of_the_nodes_however_long_each_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"N{number}" for number in range(20)]
    world = World(tmp_path)
    # The connection has room for the last of them first.
    world.room_s = [0.001 * number for number in range(20)]
    with in_world(world, "\n".join(f"JOB {name} n.sub" for name in names), monkeypatch):
        assert world.run(load_config([], environ={}, subsystem="DAGMAN")) == 0
    sent = [step.split()[1].rstrip(",") for step in world.steps if step.endswith(": sent")]
    assert sent == names


class EachTimeSent:
    """The schedd dies when a request has reached it, so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self, step: str) -> str:
        if not step.endswith(": sent") or not self._left:
            return ""
        self._left -= 1
        return SCHEDD


def test_a_request_that_is_lost_with_the_schedd_is_no_try_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, chooses=EachTimeSent(20))
    with in_world(world, "JOB A n.sub\nJOB B n.sub\n", monkeypatch):
        assert world.run(load_config([], environ={}, subsystem="DAGMAN")) == 0
    assert (world.ran, world.deaths) == ({"A": 1, "B": 1}, 20)


def test_no_more_nodes_are_submitted_in_an_interval_than_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = {"DAGMAN_MAX_SUBMITS_PER_INTERVAL": "3", "DAGMAN_USER_LOG_SCAN_INTERVAL": "7"}
    world = World(tmp_path)
    with in_world(world, "\n".join(f"JOB N{number} n.sub" for number in range(8)), monkeypatch):
        assert world.run(load_config([], environ={}, overrides=knobs, subsystem="DAGMAN")) == 0
    assert 14 <= world.now < 15
    assert world.own.eval_int("DAGMan_MaxSubmitsPerInterval") == 3


def test_random_macros_differ_from_node_to_node(tmp_path: Path) -> None:
    (tmp_path / "n.sub").write_text("executable = /bin/true\n+Drawn = $RANDOM_INTEGER(1,1000000000000)\nqueue\n")
    descriptions, course = Descriptions(Session(load_config([], environ={}))), course_of(PAIR)
    plans = [
        descriptions.plan(course.node(node), "n.sub", str(tmp_path), lines_of(course, node, "", AROUND, on_hold=False))
        for node in (0, 1)
    ]
    assert len({plan.cluster_ad.eval_int("Drawn") for plan in plans}) == 2
