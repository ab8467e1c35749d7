"""condor_qedit and condor_prio."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.schedd import ActResult, ActResults, EditJobs, Outcome
from tests.minipool.cli.fake_pool import FakeSession, a_peer, run_tool

QUEUE = [ClassAd({"ClusterId": 105, "ProcId": proc, "Owner": "alice", "JobPrio": proc}) for proc in range(3)]


def answered(outcome: Outcome, count: int = 1) -> ActResults:
    return ActResults(results=[ActResult(job_id=JobId(105, proc), outcome=outcome) for proc in range(count)])


@pytest.mark.parametrize(
    ("argv", "count", "out"),
    [
        (["105.0", "MyAttr", "17"], 1, 'Set attribute "MyAttr" for 1 matching jobs.\n'),
        (["105", "MyAttr", '"text"'], 3, 'Set attribute "MyAttr" for 3 matching jobs.\n'),
        (
            ["105.0", "A=1", 'B="x"'],
            1,
            'Set attribute "A" for 1 matching jobs.\nSet attribute "B" for 1 matching jobs.\n',
        ),
        (["-constraint", "JobStatus==5", "N", "1"], 3, 'Set attribute "N" for 3 matching jobs.\n'),
        (["105.0", "RequestCpus", "-1.5"], 1, 'Set attribute "RequestCpus" for 1 matching jobs.\n'),
        (["alice", "N", "-name"], 3, 'Set attribute "N" for 3 matching jobs.\n'),
    ],
)
def test_an_edit_says_how_many_jobs_it_changed(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], count: int, out: str
) -> None:
    session = FakeSession(a_peer(QUEUE, edit=answered(Outcome.DONE, count)))
    assert run_tool(monkeypatch, "qedit", argv, session) == (0, out, "")


@pytest.mark.parametrize(
    ("argv", "err"),
    [
        (
            ["999.0", "A", "1"],
            'Failed to set attribute "A" for job 999.0.\nQueue transaction failed.  No attributes were set.\n',
        ),
        (
            ["999.0", "98.0", "Foo=1", "Bar=2"],
            'Failed to set attribute "Bar" for job 98.0.\nQueue transaction failed.  No attributes were set.\n',
        ),
        (
            ["999", "A", "1"],
            'Failed to set attribute "A" by constraint: ( (ClusterId == 999 ) )\n'
            "Queue transaction failed.  No attributes were set.\n",
        ),
        (
            ["nosuch", "A", "1"],
            'Failed to set attribute "A" by constraint: ( (Owner=="nosuch") )\n'
            "Queue transaction failed.  No attributes were set.\n",
        ),
        (
            ["-constraint", "false", "A", "1"],
            'Failed to set attribute "A" by constraint: ( (false) )\n'
            "Queue transaction failed.  No attributes were set.\n",
        ),
        (
            ["105.0", "Owner", '"bob"'],
            'Update of immutable attribute "Owner" is not allowed.\nTransaction failed.  No attributes were set.\n',
        ),
        (
            ["105.0", "bad-name", "1"],
            'Update aborted, illegal attribute-name specified for attribute "bad-name".\n'
            "Transaction failed.  No attributes were set.\n",
        ),
        (
            ["-constraint", "true", "105.0", "A=1"],
            'Update aborted, illegal attribute-name specified for attribute "105.0".\n'
            "Transaction failed.  No attributes were set.\n",
        ),
        (["105.0", "-constraint", "((", "A", "1"], "condor_qedit: invalid constraint: ((\n"),
        (["105.0", "X", "(("], "Update aborted, illegal value for : X\nTransaction failed.  No attributes were set.\n"),
    ],
)
def test_an_edit_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch, argv: list[str], err: str) -> None:
    assert run_tool(monkeypatch, "qedit", argv, FakeSession(a_peer(QUEUE))) == (1, "", err)


def test_restrictions_narrow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = a_peer(QUEUE, edit=answered(Outcome.DONE))
    argv = ["-owner", "alice", "-jobids", "105.0,106", "-constraint", "A == 1", "B", "2"]
    assert run_tool(monkeypatch, "qedit", argv, FakeSession(peer))[0] == 0
    (asked,) = [one for one in peer.asked if isinstance(one, EditJobs)]
    assert (asked.select.ids, asked.select.constraint) == (["105.0", "106"], 'Owner == "alice" && (A == 1)')


@pytest.mark.parametrize(
    ("argv", "ids", "users", "constraint"),
    [
        (["105.0", "-constraint", "X == 1", "A", "1"], ["105.0"], [], "(X == 1)"),
        (["105.0", "A", "-1", "-constraint", "X == 1"], ["105.0"], [], "(X == 1)"),
        (["105.0", "106", "-debug", "A", "1"], ["105.0", "106"], [], None),
        (["105.0", "-jobids", "106.1", "A", "1"], ["105.0", "106.1"], [], None),
        (["alice", "-constraint", "X == 1", "A", "1"], [], ["alice"], "X == 1"),
        (["-constraint", "X || Y", "-constraint", "Z", "A", "1"], [], [], "(X || Y) && (Z)"),
    ],
)
def test_jobs_named_by_words_before_an_option_are_meant_too(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], ids: list[str], users: list[str], constraint: str | None
) -> None:
    peer = a_peer(QUEUE, edit=answered(Outcome.DONE))
    assert run_tool(monkeypatch, "qedit", argv, FakeSession(peer))[0] == 0
    (asked,) = [one for one in peer.asked if isinstance(one, EditJobs)]
    assert (asked.select.ids, asked.select.users, asked.select.constraint) == (ids, users, constraint)
    assert list(asked.assignments) == ["A"]


def test_a_constraint_alone_leaves_jobs_of_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [*answered(Outcome.DONE).results, *answered(Outcome.PERMISSION_DENIED).results]
    session = FakeSession(a_peer(QUEUE, edit=ActResults(results=results)))
    said = run_tool(monkeypatch, "qedit", ["-constraint", "true", "A", "1"], session)
    assert said == (0, 'Set attribute "A" for 1 matching jobs.\n', "")


@pytest.mark.parametrize(
    "text",
    [
        'A = 1\n# no\n\nB = "x"\n',
        '{"A": 1, "B": "x"}',
        '[ A = 1; B = "x" ]',
        '<c><a n="A"><i>1</i></a><a n="B"><s>x</s></a></c>',
    ],
)
def test_edits_are_read_in_any_form_of_ads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    (tmp_path / "edits").write_text(text)
    peer = a_peer(QUEUE, edit=answered(Outcome.DONE))
    assert run_tool(monkeypatch, "qedit", ["105.0", "-edits", str(tmp_path / "edits")], FakeSession(peer))[0] == 0
    (asked,) = [one for one in peer.asked if isinstance(one, EditJobs)]
    assert asked.assignments == {"A": "1", "B": '"x"'}


def test_a_cluster_that_is_not_there_is_no_word_to_condor_prio(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_tool(monkeypatch, "prio", ["-p", "1", "999999"], FakeSession(a_peer(QUEUE))) == (0, "", "")


def test_a_priority_may_be_raised_from_what_each_job_has(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = a_peer(QUEUE, edit=answered(Outcome.DONE))
    assert run_tool(monkeypatch, "prio", ["+3", "105"], FakeSession(peer)) == (0, "", "")
    edits = [one for one in peer.asked if isinstance(one, EditJobs)]
    assert [(one.select.ids, one.assignments) for one in edits] == [
        ([f"105.{proc}"], {"JobPrio": str(proc + 3)}) for proc in range(3)
    ]


def test_a_priority_of_an_unknown_job_is_told_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_tool(monkeypatch, "prio", ["-p", "1", "999999.0"], FakeSession(a_peer(QUEUE)))
    assert said == (0, "", "Couldn't retrieve current priority for 999999.0.\n")


def test_a_priority_that_may_not_be_set_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(a_peer(QUEUE, edit=answered(Outcome.PERMISSION_DENIED)))
    said = run_tool(monkeypatch, "prio", ["-p", "1", "105.0"], session)
    assert said == (0, "", "Couldn't set new priority for 105.0.\n")
