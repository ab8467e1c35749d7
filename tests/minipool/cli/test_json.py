"""`-json` of the tools whose HTCondor counterparts have none: a list of ads, or one object, and the same exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minipool.cli.admin_tools import drain
from minipool.cli.entry.machines import Machine
from minipool.cli.entry.main import dispatch
from minipool.cli.pool_tools import findhost
from pool.classad import ClassAd
from protocol.messages.startd import CancelDrain, DrainMachine, DrainStarted
from protocol.wire.message import DONE
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

LOGS = Path(__file__).parents[2] / "cases" / "eventlog"


def said(capsys: pytest.CaptureFixture[str], verb: str, *argv: str, status: int = 0) -> Any:
    assert dispatch(verb, ["-json", *argv]) == status
    return json.loads(capsys.readouterr().out)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "version")["CondorVersion"].startswith("$CondorVersion: ")


def test_config_val(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("LOCAL_DIR = /x\nMY_KNOB = $(LOCAL_DIR)/y\n")
    monkeypatch.setenv("CONDOR_CONFIG", str(file))
    mine = {"Name": "MY_KNOB", "Value": "/x/y", "Raw": "$(LOCAL_DIR)/y"}
    (one,) = said(capsys, "config_val", "MY_KNOB", "NOSUCH", status=1)
    assert {name: one[name] for name in mine} == mine
    assert str(file) in one["Where"]
    assert [ad["Name"] for ad in said(capsys, "config_val", "-dump", "^my_knob")] == ["MY_KNOB"]


def test_userlog(capsys: pytest.CaptureFixture[str]) -> None:
    ads = said(capsys, "userlog", str(LOGS / "exitcode.log"))
    assert ads
    assert all(ad["WallTime"] == ad["EndTime"] - ad["StartTime"] for ad in ads)


def test_check_userlogs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert said(capsys, "check_userlogs", str(LOGS / "exitcode.log"))["Okay"] is True
    (tmp_path / "bad").write_text((LOGS / "exitcode.log").read_text() * 2)
    wrong = said(capsys, "check_userlogs", str(tmp_path / "bad"), status=1)
    assert not wrong["Okay"]
    assert "submit count != 1" in wrong["Errors"][0]


def test_wait(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "wait", str(LOGS / "exitcode.log"))["Done"] is True


def test_top(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, jobs in (("old", 3), ("new", 5)):
        ad = ClassAd({"DaemonStartTime": 1, "MyCurrentTime": 100 + jobs, "JobsStarted": jobs})
        (tmp_path / name).write_text(ad.long())
    (row,) = said(capsys, "top", str(tmp_path / "old"), str(tmp_path / "new"))
    assert (row["Item"], row["InstCt"], row["InstRate"]) == ("JobsStarted", 2.0, 1.0)


def test_findhost(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [ClassAd({"MyType": "Machine", "Name": f"slot1@{name}", "Machine": name}) for name in ("a", "b")]
    session = FakeSession(FakePeer([], {}), slots)
    monkeypatch.setattr(findhost, "open_session", lambda _, **__: session)
    status, out, _ = run_tool(monkeypatch, "findhost", ["-n", "3", "-json"], session)
    assert (status, json.loads(out)) == (3, [{"Machine": "a"}, {"Machine": "b"}])


def test_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = FakePeer([], {DrainMachine: DrainStarted(request_id="7.1"), CancelDrain: DONE})

    class Session(FakeSession):
        def connect(self, _: object) -> FakePeer:
            return self.peer

    session: Any = Session(peer)
    here = Machine(None, "startd n1", "n1", "<10.0.0.1:1>")  # type: ignore[arg-type]  # nobody connects to it
    monkeypatch.setattr(drain, "open_session", lambda _: session)
    monkeypatch.setattr(drain, "named", lambda *_: here)
    done = json.loads(run_tool(monkeypatch, "drain", ["n1", "-json"], session)[1])
    assert done == {"Machine": "n1", "MyAddress": "<10.0.0.1:1>", "RequestId": "7.1"}
    assert json.loads(run_tool(monkeypatch, "drain", ["n1", "-json", "-cancel"], session)[1])["Cancelled"] is True
