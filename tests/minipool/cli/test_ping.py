"""condor_ping: one line for each level, in HTCondor's words, and the exit status that scripts ask for."""

from __future__ import annotations

import json

import pytest

from minipool.cli.pool_tools import ping
from minipool.client.session import NotFound
from protocol.messages.common import Ping, Pong
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

USUAL = Pong(daemon="schedd", version="v1", identity="alice@pool.test", method="FS", levels=["READ", "WRITE"])


def ran(monkeypatch: pytest.MonkeyPatch, *argv: str, address: str = "/run/schedd.sock") -> tuple[int, str, str]:
    peer = FakePeer([], {Ping: USUAL})
    peer.address = address
    session = FakeSession(peer)
    monkeypatch.setattr(ping, "open_session", lambda _, **__: session)
    return run_tool(monkeypatch, "ping", argv, session)


def test_a_level_that_is_had_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "WRITE command using (no encryption, no integrity, and FS) succeeded as alice@pool.test to local schedd.\n"
    assert ran(monkeypatch) == (0, said, "")


def test_over_the_network_the_cipher_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    out = ran(monkeypatch, "-type", "startd", "-name", "n1", "read", address="<10.0.0.1:9618>")[1]
    assert out == "READ command using (AES, AES, and FS) succeeded as alice@pool.test to startd n1.\n"


def test_a_level_that_is_not_had_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "DAEMON") == (1, "DAEMON failed!  Use -verbose for more information.\n", "")
    assert ran(monkeypatch, "-quiet", "DAEMON") == (1, "", "")
    assert ran(monkeypatch, "-quiet", "READ") == (0, "", "")


def test_the_table_has_a_line_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = ran(monkeypatch, "-table", "ALL")
    assert (code, err) == (1, "WARNING: Missing daemon argument, defaulting to SCHEDD.\n")
    lines = out.splitlines()
    assert lines[0] == "         Instruction Authentication Encryption Integrity Decision Identity"
    assert lines[2] == "                READ             FS       none      none    ALLOW alice@pool.test"
    assert lines[4] == (
        "          NEGOTIATOR           FAIL       FAIL      FAIL     FAIL FAIL  (use -verbose for more info)"
    )
    assert [line.split()[0] for line in lines[1:]] == [
        "ALLOW", "READ", "WRITE", "NEGOTIATOR", "ADMINISTRATOR", "OWNER", "CONFIG", "DAEMON",
        "ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER",
    ]  # fmt: skip


def test_verbose_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = ran(monkeypatch, "-verb", "WRITE")
    assert code == 0
    for line in (
        "Instruction:                 WRITE",
        "Authenticated using:         FS",
        "Remote Version:              v1",
    ):
        assert f"{line}\n" in out
    assert out.endswith("\n\n")


def test_ads_are_long_json_and_of_chosen_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "-long", "READ")[1].startswith(
        "# READ command to local schedd is ALLOWED\nAuthentication = "
    )
    (ad,) = json.loads(ran(monkeypatch, "-json", "READ")[1])
    assert (ad["Instruction"], ad["MyRemoteUserName"], ad["AuthorizationSucceeded"]) == (
        "READ",
        "alice@pool.test",
        True,
    )
    assert ran(monkeypatch, "-af", "AuthMethods", "Encryption")[1] == "FS NO\n"


def test_what_is_wrong_with_the_words_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, "NOSUCH") == (1, "", 'ERROR: Could not understand TOKEN "NOSUCH".\n')
    assert ran(monkeypatch, "-long", "-table")[2] == "ERROR: only one output mode may be specified.\n"


def test_a_daemon_that_nobody_knows_is_not_located(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere(FakeSession):
        def daemon(self, kind: str, **_: object) -> FakePeer:
            raise NotFound("the collector knows no schedd x")

    monkeypatch.setattr(ping, "open_session", lambda _, **__: Nowhere(FakePeer([], {})))
    code, out, err = run_tool(monkeypatch, "ping", ["-name", "x"], FakeSession(FakePeer([], {})))
    assert (code, out) == (1, "")
    assert err.startswith("ERROR: couldn't locate x!\n")
    assert run_tool(monkeypatch, "ping", ["-name", "x", "-quiet"], FakeSession(FakePeer([], {}))) == (1, "", "")
