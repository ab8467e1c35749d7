"""condor_rm and its kin: one sentence for each request, on the right stream, with the right exit status."""

from __future__ import annotations

import json

import pytest

from pool.base.ids import JobId
from pool.classad import ClassAd, expr
from protocol.messages.schedd import ActOnJobs, ActResult, ActResults, Outcome
from tests.minipool.cli.fake_pool import FakeSession, a_peer, run_tool

D, N, P = Outcome.DONE, Outcome.NOT_FOUND, Outcome.PERMISSION_DENIED
B, A = Outcome.BAD_STATUS, Outcome.ALREADY_DONE
QUEUE = [ClassAd({"ClusterId": 1, "ProcId": 0, "Owner": "alice", "JobStatus": 1})]


def results(**outcomes: Outcome) -> ActResults:
    found = [ActResult(job_id=JobId.parse(name[1:].replace("_", ".")), outcome=one) for name, one in outcomes.items()]
    return ActResults(results=found)


CASES = [
    # program, arguments, what the schedd answers, exit status, standard output, standard error
    ("rm", "104.0", results(j104_0=D), 0, "Job 104.0 marked for removal\n", ""),
    ("rm", "105.0 106.0", results(j105_0=D, j106_0=N), 0, "Job 105.0 marked for removal\n", "Job 106.0 not found\n"),
    ("rm", "106.0 107.0", results(j106_0=N), 1, "", "\nJob 106.0 not found\nJob 107.0 not found\n"),
    (
        "hold", "-totals 105", results(j105_0=D, j105_1=A), 0,
        "1 Succeeded, 0 Failed, 0 Not Found, 0 Bad Status, 1 Already Done, 0 Permission Denied\n"
        "All jobs in cluster 105 have been held\n", "",
    ),
    (
        "rm", "-long 105.0 106.0", results(j105_0=D), 0,
        "ActionResult = 1\nActionResultType = 1\nJobAction = 3\njob_105_0 = 1\njob_106_0 = 2\n\n"
        "Job 105.0 marked for removal\n", "Job 106.0 not found\n",
    ),
    ("rm", "105", results(j105_0=D, j105_1=D), 0, "All jobs in cluster 105 have been marked for removal\n", ""),
    ("rm", "105", results(), 1, "", "\nCouldn't find/remove all jobs in cluster 105\n"),
    (
        "rm", "106.0 105", results(j105_0=D), 1,
        "All jobs in cluster 105 have been marked for removal\n", "\nJob 106.0 not found\n",
    ),
    ("rm", "134.0", results(j134_0=P), 1, "", "\nPermission denied to remove job 134.0\n"),
    ("rm", "134", results(j134_0=P), 1, "", "\nCouldn't find/remove all jobs in cluster 134\n"),
    (
        "rm", "104 999", results(j104_0=D), 0,
        "All jobs matching constraint (ClusterId == 104 || ClusterId == 999) have been marked for removal\n", "",
    ),
    (
        "rm", "-constraint JobStatus==5", results(j1_0=D), 0,
        "All jobs matching constraint (JobStatus==5) have been marked for removal\n", "",
    ),
    ("rm", "-constraint x==1", results(), 1, "", "\nCouldn't find/remove all jobs matching constraint (x==1)\n"),
    ("rm", "-all", results(j1_0=D), 0, "All jobs have been marked for removal\n", ""),
    ("rm", "nosuch", results(), 1, "", '\nCouldn\'t find/remove all jobs of user "nosuch"\n'),
    (
        "rm", "-forcex 108", results(j108_0=D), 0,
        "All jobs in cluster 108 have been removed locally (remote state unknown)\n", "",
    ),
    ("hold", "104.0", results(j104_0=D), 0, "Job 104.0 held\n", ""),
    ("hold", "104.0", results(j104_0=A), 1, "", "\nJob 104.0 already held\n"),
    ("release", "104.0", results(j104_0=B), 1, "", "\nJob 104.0 not held to be released\n"),
    ("release", "105", results(j105_0=D), 0, "All jobs in cluster 105 have been released\n", ""),
    ("suspend", "105.0", results(j105_0=B), 1, "", "\nJob 105.0 not running to be suspended\n"),
    ("continue", "105.0", results(j105_0=D), 0, "Job 105.0 continued\n", ""),
    ("vacate_job", "104.0", results(j104_0=D), 0, "Job 104.0 vacated\n", ""),
    ("vacate_job", "-fast 104.1", results(j104_1=D), 0, "Job 104.1 fast-vacated\n", ""),
    ("vacate_job", "105.0", results(j105_0=B), 1, "", "\nJob 105.0 not running to be vacated\n"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "argv", "answer", "status", "out", "err"), CASES)
def test_what_became_of_a_request(
    monkeypatch: pytest.MonkeyPatch, verb: str, argv: str, answer: ActResults, status: int, out: str, err: str
) -> None:
    session = FakeSession(a_peer(QUEUE, act=answer))
    assert run_tool(monkeypatch, verb, argv.split(), session) == (status, out, err)


def test_json_has_what_became_of_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(a_peer(QUEUE, act=results(j105_0=D, j106_0=A)))
    status, out, err = run_tool(monkeypatch, "hold", ["-json", "105.0", "106.0", "107.0"], session)
    assert (status, err) == (0, "")
    assert [(ad["ClusterId"], ad["ProcId"], ad["Outcome"]) for ad in json.loads(out)] == [
        (105, 0, "done"), (106, 0, "already_done"), (107, 0, "not_found"),
    ]  # fmt: skip


@pytest.mark.parametrize("argv", ["-all", "alice", "999999"])
def test_an_empty_queue_is_no_failure(monkeypatch: pytest.MonkeyPatch, argv: str) -> None:
    said = run_tool(monkeypatch, "rm", [argv], FakeSession(a_peer([])))
    assert said == (0, "", "condor_rm:0:There are no jobs in the queue\n")


def test_a_job_that_is_not_there_fails_in_an_empty_queue_too(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_tool(monkeypatch, "rm", ["999999.0"], FakeSession(a_peer([])))
    assert said == (1, "", "\nJob 999999.0 not found\n")


@pytest.mark.parametrize(
    ("argv", "begins"),
    [([], "You did not specify any jobs\nUsage: "), (["-nosuch"], "Unrecognized option: -nosuch\nUsage: ")],
)
def test_a_wrong_command_line_shows_the_usage(monkeypatch: pytest.MonkeyPatch, argv: list[str], begins: str) -> None:
    status, out, err = run_tool(monkeypatch, "rm", argv, FakeSession(a_peer(QUEUE)))
    assert (status, out) == (1, "")
    assert err.startswith(begins)


def test_the_reason_reaches_the_schedd(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = a_peer(QUEUE, act=results(j1_0=D))
    run_tool(monkeypatch, "hold", ["-reason", "please wait", "-subcode", "42", "1.0"], FakeSession(peer))
    [request] = [one for one in peer.asked if isinstance(one, ActOnJobs)]
    assert (request.reason, request.subcode) == ("please wait", 42)


@pytest.mark.parametrize(
    ("argv", "ids", "users", "constraint", "about"),
    [
        ("-held", [], [], "JobStatus == 5", "held jobs"),
        ("-hold 104", ["104"], [], "JobStatus == 5", "held jobs in cluster 104"),
        ("-hold 104.1", ["104.1"], [], "JobStatus == 5", "held jobs matching constraint ((ClusterId == 104 && ProcId == 1))"),
        ("-held bob", [], ["bob"], "JobStatus == 5", 'held jobs of user "bob"'),
        (
            "-held 104 bob", ["104"], ["bob"], "JobStatus == 5",
            'held jobs matching constraint (ClusterId == 104 || Owner == "bob")',
        ),
        ("-held -constraint x==1", [], [], "(x==1) && (JobStatus == 5)", "held jobs matching constraint (x==1)"),
        ("-held -all", [], [], "JobStatus == 5", "held jobs"),
        ("104 -constraint x==1", ["104"], [], "x==1", "jobs matching constraint ((x==1) && (ClusterId == 104))"),
        ("-constraint x==1 -constraint y", [], [], "(x==1) && (y)", "jobs matching constraint ((x==1) && (y))"),
    ],
)  # fmt: skip
def test_clusters_and_users_are_narrowed_by_constraints_and_held(
    monkeypatch: pytest.MonkeyPatch, argv: str, ids: list[str], users: list[str], constraint: str, about: str
) -> None:
    peer = a_peer(QUEUE, act=results(j1_0=D))
    said = run_tool(monkeypatch, "rm", argv.split(), FakeSession(peer))
    assert said == (0, f"All {about} have been marked for removal\n", "")
    [asked] = [one.select for one in peer.asked if isinstance(one, ActOnJobs)]
    assert (asked.ids, asked.users, asked.constraint) == (ids, users, constraint)


def test_single_jobs_are_one_request_and_the_rest_another(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = a_peer(QUEUE, act=results(j104_1=D))
    status, out, err = run_tool(monkeypatch, "rm", ["104.1", "105", "-constraint", "x==1"], FakeSession(peer))
    assert (status, err) == (0, "Warning, -constraint is ignored for fully qualified job ids\n")
    assert out.startswith("Job 104.1 marked for removal\nAll jobs matching constraint ((x==1) && (ClusterId == 105))")
    asked = [one.select for one in peer.asked if isinstance(one, ActOnJobs)]
    assert [(one.ids, one.constraint) for one in asked] == [(["104.1"], None), (["105"], "x==1")]


@pytest.mark.parametrize(
    ("name", "clause"), [('na"me', r'Owner == "na\"me"'), ("back\\slash", r'Owner == "back\\slash"')]
)
def test_a_user_name_is_quoted_in_the_expression(monkeypatch: pytest.MonkeyPatch, name: str, clause: str) -> None:
    peer = a_peer(QUEUE, act=results(j1_0=D))
    status, out, err = run_tool(monkeypatch, "rm", [name, "105"], FakeSession(peer))
    shown = f"({clause} || ClusterId == 105)"
    assert (status, out, err) == (0, f"All jobs matching constraint {shown} have been marked for removal\n", "")
    assert expr(shown).eval(ClassAd({"Owner": name, "ClusterId": 1})) is True
    [asked] = [one.select for one in peer.asked if isinstance(one, ActOnJobs)]
    assert asked.users == [name]


@pytest.mark.parametrize("argv", ["-all 104", "-all -constraint x==1", "-all bob"])
def test_all_jobs_are_not_narrowed(monkeypatch: pytest.MonkeyPatch, argv: str) -> None:
    peer = a_peer(QUEUE, act=results(j1_0=D))
    said = run_tool(monkeypatch, "rm", argv.split(), FakeSession(peer))
    assert said == (1, "", "Error: can't mix -all with other constraints\n")
    assert not [one for one in peer.asked if isinstance(one, ActOnJobs)]
