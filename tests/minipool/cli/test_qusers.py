"""condor_qusers: what it asks of the schedd, and its tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minipool.cli.queue_tools import qusers
from pool.classad import ClassAd
from protocol.messages.common import AdBatch
from protocol.messages.schedd import QueryUsers, SetUsers, UserAction
from protocol.wire.message import DONE
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

COUNTS = {"NumIdle": 0, "NumRunning": 2, "NumHeld": 0, "NumRemoved": 9, "NumCompleted": 0}
USER = ClassAd({"User": "peer@localhost", "OsUser": "peer", "Enabled": True, **COUNTS})
PROJECT = ClassAd({"Name": "sky", **COUNTS})


def ran(monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[tuple[int, str, str], list[Any]]:
    def query(asked: QueryUsers) -> AdBatch:
        return AdBatch(ads=[PROJECT if asked.projects else USER])

    session = FakeSession(FakePeer([], {QueryUsers: query, SetUsers: DONE}))
    monkeypatch.setattr(qusers, "open_session", lambda _: session)
    return run_tool(monkeypatch, "qusers", argv, session), session.peer.asked


def test_the_table_is_htcondors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch)[0][1] == (
        "USER           OS_USER ENABLED MAX_RUN JOBS:Idle Running    Held Removed Completed\n"
        "peer@localhost peer    yes     default         0       2       0       9         0\n"
    )
    assert ran(monkeypatch, "-aaf", "OsUser")[0][1].splitlines()[0].endswith("Completed OsUser")


def test_projects_have_a_table_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "-proj")[0][1].splitlines()[1].split() == ["sky", "0", "2", "0", "9", "0"]
    assert [line.split()[0] for line in ran(monkeypatch, "-projects:also")[0][1].splitlines()[1:]] == [
        "peer@localhost",
        "sky",
    ]


def test_ads_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(ran(monkeypatch, "-json", "-attr", "User")[0][1]) == [{"User": "peer@localhost"}]


ACTIONS: tuple[tuple[tuple[str, ...], SetUsers], ...] = (
    (("-add", "bob"), SetUsers(users=["bob"], action=UserAction.ADD)),
    (("-dis", "bob", "-reason", "why"), SetUsers(users=["bob"], action=UserAction.DISABLE, reason="why")),
    (("bob", "-edit", 'Group="x"', "A=1"),
     SetUsers(users=["bob"], action=UserAction.EDIT, attributes={"Group": '"x"', "A": "1"})),
    (("-projects", "-add", "sky"), SetUsers(users=["sky"], action=UserAction.ADD, projects=True)),
)  # fmt: skip


@pytest.mark.parametrize(("argv", "asked"), ACTIONS)
def test_an_action_is_asked_for_and_said(monkeypatch: pytest.MonkeyPatch, argv: Any, asked: SetUsers) -> None:
    result, requests = ran(monkeypatch, *argv)
    assert result == (0, f"{asked.action.value} succeeded: \n", "")
    assert requests == [asked]


WRONG = (
    (("-add",), "Error: add users - no names specified"),
    (("-projects", "-remove"), "Error: remove projects - no names specified"),
    (("bob", "A=1"), "<attr>=<expr> arguments only work with -edit"),
    (("-add", "-remove", "bob"), "cannot be used together"),
    (("-usage",), "condor_userprio -usage"),
    (("-long", "-af", "User"), "Error: -af and -long cannot be used together"),
    (("-format", "%s", "User", "-long"), "Error: -format and -long cannot be used together"),
)


@pytest.mark.parametrize(("argv", "said"), WRONG)
def test_what_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch, argv: Any, said: str) -> None:
    (code, out, err), requests = ran(monkeypatch, *argv)
    assert (code, out, requests) == (1, "", [])
    assert said in err
