"""condor_off, _on, _restart, _reconfig and _set_shutdown: whom they tell what, and what they say of it."""

from __future__ import annotations

from typing import Any

import pytest

from minipool.cli.admin_tools import admin
from minipool.client.session import NotFound
from pool.classad import ClassAd
from protocol.messages.common import Reconfigure, Stop, StopHow
from protocol.messages.master import DaemonsOff, DaemonsOn, DrainFirst, RestartDaemons, SetShutdown
from protocol.wire.message import DONE
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

MASTERS = [ClassAd({"MyType": "DaemonMaster", "Name": name, "Machine": name}) for name in ("n1", "n2")]


class Session(FakeSession):
    """Knows the masters n1 and n2; notes who was spoken to."""

    def __init__(self) -> None:
        requests = (DaemonsOff, DaemonsOn, DrainFirst, RestartDaemons, SetShutdown, Reconfigure, Stop)
        super().__init__(FakePeer([], dict.fromkeys(requests, DONE)), MASTERS)
        self.told: list[tuple[str, object]] = []

    def daemon(self, kind: str, **which: object) -> FakePeer:
        name, addr = which.get("name"), which.get("addr")
        if name == "localhost":
            raise NotFound("nobody")
        self.told.append((kind, addr or name))
        return self.peer


def ran(monkeypatch: pytest.MonkeyPatch, verb: str, *argv: str) -> tuple[tuple[int, str, str], Session]:
    session = Session()
    monkeypatch.setattr(admin, "open_session", lambda _: session)
    return run_tool(monkeypatch, verb, argv, session), session


ORDERS: tuple[tuple[str, tuple[str, ...], str, list[Any]], ...] = (
    ("off", (), 'Sent "Kill-All-Daemons" command to local master', [DaemonsOff(daemons=[])]),
    ("off", ("-fast", "-startd"), 'Sent "Kill-Daemon-Fast" command for "startd" to local master',
     [DaemonsOff(daemons=["startd"], how=StopHow.FAST)]),
    ("off", ("-drain", "-reason", "new disk", "-check", "true"), 'Sent "Shutdown-Daemons" command to local master',
     [DrainFirst(then="off", reason="new disk", check="true")]),
    ("restart", ("-dr", "-start", "false"), 'Sent "Restart" command to local master',
     [DrainFirst(then="restart", start="false")]),
    ("off", ("-master", "-exec", "next"), 'Sent "Kill-Daemon" command for "master" to local master',
     [SetShutdown(name="next"), Stop(how=StopHow.GRACEFUL)]),
    ("set_shutdown", ("-exec", "next"), 'Sent "Set-Shutdown-Program" command to local master',
     [SetShutdown(name="next")]),
    ("reconfig", ("<10.0.0.1:9618>",), 'Sent "Reconfig" command to daemon at <10.0.0.1:9618>', [Reconfigure()]),
)  # fmt: skip


@pytest.mark.parametrize(("verb", "argv", "said", "asked"), ORDERS)
def test_an_order_is_given_and_said(
    monkeypatch: pytest.MonkeyPatch, verb: str, argv: tuple[str, ...], said: str, asked: list[Any]
) -> None:
    result, session = ran(monkeypatch, verb, *argv)
    assert result == (0, f"{said}\n", "")
    assert session.peer.asked == asked


def test_a_constraint_chooses_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    result, session = ran(monkeypatch, "on", "-const", 'Name == "n2"')
    assert result == (0, 'Sent "Spawn-All-Daemons" command to master n2\n', "")
    assert session.told == [("master", "n2")]


def test_all_hosts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "reconfig", "-all")[1].told == [("master", "n1"), ("master", "n2")]


def test_one_host_that_is_not_there_does_not_keep_the_others_from_hearing(monkeypatch: pytest.MonkeyPatch) -> None:
    (code, out, err), session = ran(monkeypatch, "reconfig", "localhost", "n1")
    assert (code, out) == (1, 'Sent "Reconfig" command to master n1\n')
    assert err.startswith("Can't find address for master localhost\n")
    assert session.told == [("master", "n1")]


WRONG = (
    ("reconfig", ("-constraint", "false"), "Found no ClassAds when querying pool (local)"),
    ("off", ("-constraint", "true", "n1"), "use of -constraint conflicts"),
    ("off", ("-exec", "next"), '"-exec" is not valid with condor_off'),
    ("off", ("-reason", "x"), '"-reason" is not valid without -drain'),
    ("off", ("-drain", "-startd"), "-drain is about a whole host"),
    ("off", ("-startd", "-schedd"), "can only specify one daemon flag"),
    ("set_shutdown", (), '"-exec" required for condor_set_shutdown'),
    ("on", ("-annex", "x"), "there are no annexes"),
)


@pytest.mark.parametrize(("verb", "argv", "said"), WRONG)
def test_what_cannot_be_is_said_and_nobody_is_told(
    monkeypatch: pytest.MonkeyPatch, verb: str, argv: tuple[str, ...], said: str
) -> None:
    (code, out, err), session = ran(monkeypatch, verb, *argv)
    assert (code, out, session.told) == (1, "", [])
    assert said in err
