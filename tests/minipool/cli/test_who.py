"""condor_who: jobs of this host in HTCondor's layout, and what scripts wait for that start a pool."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import pytest

from minipool.cli.pool_tools import who, who_ready
from pool.base.errors import PeerError
from pool.classad import ClassAd
from protocol.messages.common import AdReply, GetAd
from protocol.messages.master import DaemonStates, GetDaemons
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

SLOT = {"MyType": "Machine", "MyCurrentTime": 100, "JobStart": 9, "ClientMachine": "ap", "RemoteUser": "ann@p"}
FREE = ClassAd({"MyType": "Machine", "Name": "slot1@x", "State": "Unclaimed"})
BUSY = ClassAd({**SLOT, "Name": "slot1_1@x", "State": "Claimed", "JobId": "7.0"})
JOB = ClassAd({"MyType": "Slot.Claim", "Name": "slot1_1@x", "Cmd": "/bin/sleep", "User": "ann@p"})
STARTD = ClassAd({"MyType": "StartD", "Name": "x", "MyAddress": "<10.0.0.1:1>", "LoopLagP99": 0.1})


def state(name: str, says: str) -> ClassAd:
    return ClassAd({"Name": name, "State": says, "Pid": 12, "StartTime": 1, "Restarts": 0, "LastExit": ""})


class Session(FakeSession):
    """A host whose schedd needs a few looks until it runs."""

    def __init__(self, ads: list[ClassAd], *, master: bool = True) -> None:
        looks = itertools.chain(["Starting", "Backoff"], itertools.repeat("Running"))

        def daemons(_: GetDaemons) -> DaemonStates:
            return DaemonStates(daemons=[state("startd", "Running"), state("schedd", next(looks))])

        super().__init__(FakePeer([], {GetAd: AdReply(ad=STARTD), GetDaemons: daemons}))
        self.found, self.master = ads, master

    def daemon(self, kind: str, **_: object) -> FakePeer:
        if not self.master:
            raise PeerError("nobody is there")
        return self.peer

    def local_socket(self, _: str) -> str:
        return "/run/startd.sock"

    def connect(self, _: object) -> FakePeer:
        return self.peer

    def query(self, ad_type: str, **how: Any) -> list[ClassAd]:
        assert how["snapshot"]
        return [ad.copy() for ad in self.found]


def ran(
    monkeypatch: pytest.MonkeyPatch, *argv: str, ads: Any = (FREE, BUSY, JOB), master: bool = True
) -> tuple[int, str, str]:
    session = Session(list(ads), master=master)
    monkeypatch.setattr(who, "open_session", lambda _: session)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/condor_who"])
    monkeypatch.setattr(who_ready, "POLL_S", 0.001)
    return run_tool(monkeypatch, "who", argv, session)


def test_jobs_are_listed_below_their_startd(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch)[1] == (
        "\n--Startd : x has 1 job(s) running:\n"
        "OWNER CLIENT SLOT JOB RUNTIME    PID PROGRAM   \n"
        "ann@p ap      1_1 7.0 0+00:01:31     /bin/sleep\n\n"
    )


def test_without_jobs_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, ads=[FREE]) == (0, "", "")
    assert ran(monkeypatch, "-const", "SlotID == 9") == (0, "", "")


def test_other_ads_are_shown_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "-startd")[1] == "\nNAME ADDRESS     \nx    <10.0.0.1:1>\n\n"
    assert ran(monkeypatch, "-startd", "-stat", "NONE", "-af", "Name", "LoopLagP99")[1] == "x undefined\n"
    assert ran(monkeypatch, "-jobs", "-af", "Name", "Cmd")[1] == "slot1_1@x /bin/sleep\n"
    assert ran(monkeypatch, "-snap", "-af", "MyType")[1] == "Machine\nMachine\nSlot.Claim\n"
    assert ran(monkeypatch, "-snap", "-limit", "1", "-af", "MyType")[1] == "Machine\n"
    assert [ad["Name"] for ad in json.loads(ran(monkeypatch, "-dae", "-json")[1])] == ["startd", "schedd"]
    assert ran(monkeypatch, "-startd", "-long", "-af", "Name")[1] == ran(monkeypatch, "-startd", "-long")[1]
    assert ran(monkeypatch, "-verbose")[1].startswith("Daemon       State    PID ")


def test_a_script_waits_until_the_daemons_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = ran(monkeypatch, "-wait:30", 'IsReady && SCHEDD_State =?= "Ready"', "-af", "NumAlive", "SCHEDD")
    assert (code, out, err) == (0, "3 Alive\n", "")


def test_without_a_time_what_is_true_now_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "-wait", "IsReady", "-af", "IsReady", "SCHEDD", "NumDaemons")[1] == "false Startup 3\n"
    assert 'STARTD_State = "Ready"\n' in ran(monkeypatch, "-quick")[1]


def test_without_a_master_nothing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "-quick", master=False) == (1, 'IsReady = false\nMASTER = "Dead"\n\n', "")


def test_what_is_wrong_with_a_wait_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "invalid expression: 1 +" in ran(monkeypatch, "-wait", "1 +")[2]
    assert "x is not a number of seconds" in ran(monkeypatch, "-wait:x", "true")[2]
