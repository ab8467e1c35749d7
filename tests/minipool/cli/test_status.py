"""condor_status: what it asks, of whom, and what it says of that; the tables are in the cases of other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minipool.cli.pool_tools import status
from pool.classad import ClassAd
from protocol.messages.common import AdReply, GetAd
from protocol.messages.negotiator import GetPriorities, Priorities
from tests.minipool.cli.fake_pool import CASES, FakePeer, FakeSession, run_tool

GPUS = str(CASES / "files" / "gpu.ads")
OWN = ClassAd({"MyType": "Scheduler", "Name": "ap1", "JobsStarted": 3, "RecentJobsStarted": 0, "TotalRunningJobs": 1})


class Session(FakeSession):
    """Notes which daemons are spoken to."""

    def __init__(self) -> None:
        peer = FakePeer([], {GetAd: AdReply(ad=OWN), GetPriorities: Priorities(submitters=[ClassAd({"Name": "a@p"})])})
        super().__init__(peer, [ClassAd({"MyType": "Machine", "Name": "slot1@x", "Machine": "x"})])
        self.spoken_to: list[str] = []
        self.queries: list[dict[str, Any]] = []

    def address(self, kind: str, **how: object) -> Any:
        self.spoken_to.append(f"{kind} {how['name']}")
        return f"<{kind}>"

    def daemon(self, kind: str, **how: object) -> FakePeer:
        self.spoken_to.append(f"{kind} {how['name']}")
        return self.peer

    def query(self, ad_type: str, **how: Any) -> list[ClassAd]:
        self.queries.append({"ad_type": ad_type, **how})
        return super().query(ad_type, **how)


def ran(monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[tuple[int, str, str], Session]:
    session = Session()
    monkeypatch.setattr(status, "open_session", lambda _: session)
    return run_tool(monkeypatch, "status", argv, session), session


def test_expressions_are_evaluated_against_the_ad_of_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "job").write_text("RequestCpus = 4\nRequestMemory = 12000\n")
    job = str(tmp_path / "job")
    result, _ = ran(monkeypatch, "-ads", GPUS, "-target", job, "-af", "Name", "TARGET.RequestCpus <= Cpus")
    assert result[1].splitlines()[1:] == ["slot1@gpu1.pool.test true", "slot1_1@gpu1.pool.test false",
                                          "slot1@nogpu.pool.test true"]  # fmt: skip
    result, _ = ran(monkeypatch, "-ads", GPUS, "-targ", job, "-format", "%d\n", "Memory - TARGET.RequestMemory")
    assert result[1] == "0\n-8000\n0\n"


def test_a_target_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (code, out, err), _ = ran(monkeypatch, "-ads", GPUS, "-target", str(tmp_path / "none"), "-af", "Name")
    assert (code, out) == (1, "")
    assert f"Cannot open file {tmp_path / 'none'}" in err


def test_diagnose_says_what_would_be_asked_and_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (code, out, err), session = ran(
        monkeypatch, "-diagnose", "-schedd", "-const", "TotalRunningJobs > 1", "-limit", "3"
    )
    assert (code, out) == (1, "Result of making query ad was:  0\n")
    assert "Mode: schedd\n" in err
    assert "LimitResults = 3\n" in err
    assert "Requirements = ((TotalRunningJobs > 1))\n" in err or "Requirements = (TotalRunningJobs > 1)\n" in err
    assert 'TargetType = "Scheduler"\n' in err
    assert "\n  TotalRunningJobs\n" in err
    assert session.queries == []


def test_diagnose_with_a_file_writes_the_ads_as_they_came(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (code, out, _), _ = ran(monkeypatch, f"-diag:{tmp_path / 'raw'}", "-af", "Name")
    assert code == 0
    assert out.endswith("slot1@x\n")
    assert (tmp_path / "raw").read_text().startswith("#Key: / slot1@x\n")


DIRECT = (
    ((), "startd host"),
    (("-startd",), "startd host"),
    (("-schedd",), "schedd host"),
    (("-submitters",), "schedd host"),
    (("-master",), "master host"),
    (("-negotiator",), "negotiator host"),
    (("-subsystem", "accounting"), "negotiator host"),
)


@pytest.mark.parametrize(("argv", "asked"), DIRECT)
def test_direct_asks_the_daemon_that_has_such_ads(monkeypatch: pytest.MonkeyPatch, argv: Any, asked: str) -> None:
    (code, _, err), session = ran(monkeypatch, *argv, "-direct", "host", "-af", "Name")
    assert (code, err) == (0, "")
    assert session.spoken_to == [asked]


def test_what_no_daemon_has_alone_is_asked_of_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    (code, _, _), session = ran(monkeypatch, "-collector", "-direct", "host")
    assert (code, session.spoken_to) == (0, [])
    assert [one["ad_type"] for one in session.queries] == ["Collector"]


def test_a_snapshot_is_asked_of_the_startd_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    _, session = ran(monkeypatch, "-direct", "host", "-snap", "-af", "Name")
    assert [one["snapshot"] for one in session.queries] == [True]


def test_statistics_chooses_what_the_daemons_ad_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("-af", "JobsStarted", "RecentJobsStarted", "TotalRunningJobs")
    shown = {what: ran(monkeypatch, "-schedd", "-direct", "h", "-statistics", what, *names)[0][1]
             for what in ("SCHEDD:2", "SCHEDD:1", "NONE")}  # fmt: skip
    assert shown == {"SCHEDD:2": "3 0 1\n", "SCHEDD:1": "3 undefined 1\n", "NONE": "undefined undefined 1\n"}
