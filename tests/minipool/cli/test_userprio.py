"""condor_userprio: what it asks the negotiator to change, what it says of it, and what it refuses before it asks."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from minipool.cli.pool_tools import userprio
from pool.classad import ClassAd
from protocol.messages.negotiator import (
    CancelLease,
    ForgetSubmitter,
    GetPriorities,
    Priorities,
    ResetUsage,
    SetPriority,
)
from protocol.rpc.remote import RemoteError
from protocol.wire.message import DONE
from tests.minipool.cli.fake_pool import FakePeer, FakeSession, run_tool

USERS = [
    ClassAd({"Name": name, "Priority": 500.0, "PriorityFactor": 1000.0, "LastUsageTime": 1000, "LastUpdate": 2000})
    for name in ("alice@pool.test", "bob@pool.test")
]


ANSWERS: dict[Any, Any] = {
    **dict.fromkeys((SetPriority, CancelLease, ForgetSubmitter, ResetUsage), DONE),
    GetPriorities: Priorities(submitters=USERS),
}


def ran(monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[tuple[int, str, str], list[Any]]:
    peer = FakePeer([], ANSWERS)
    slot = {"MyType": "Machine", "State": "Claimed", "EnteredCurrentState": int(time.time()) - 60}
    slots = [ClassAd({**slot, "Name": f"slot1_{n}@x", "RemoteUser": user}) for n, user in enumerate(("a@p", "b@p"))]
    session = FakeSession(peer, slots)
    monkeypatch.setattr(userprio, "open_session", lambda _: session)
    return run_tool(monkeypatch, "userprio", argv, session), peer.asked


EDITS = (
    (("-setfactor", "a@p", "100"), "The priority factor of a@p was set to 100.000000", "PriorityFactor", 100.0),
    (("-setfloor", "a@p", "3"), "The floor of a@p was set to 3", "Floor", 3.0),
    (("-setceiling", "a@p", "-1"), "The ceiling of a@p was set to -1", "Ceiling", -1.0),
    (("-setprio", "a@p", "10"), "The priority of a@p was set to 10.000000", "Priority", 10.0),
    (
        ("-setaccum", "a@p", "7200"),
        "The Accumulated Usage of a@p was set to 7200.000000",
        "WeightedAccumulatedUsage",
        7200.0,
    ),
    (("-setbegin", "a@p", "1795"), "The Begin Usage Time of a@p was set to 1795", "BeginUsageTime", 1795.0),
    (("-setlast", "a@p", "1795"), "The Last Usage Time of a@p was set to 1795", "LastUsageTime", 1795.0),
    (("-resetusage", "a@p"), "The accumulated usage of a@p was reset", "AccumulatedUsage", 0.0),
)


@pytest.mark.parametrize(("argv", "said", "attribute", "value"), EDITS)
def test_a_record_is_changed(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: str, attribute: str, value: float
) -> None:
    result, asked = ran(monkeypatch, *argv)
    assert result == (0, f"{said}\n", "")
    assert asked == [SetPriority(submitter="a@p", attribute=attribute, value=value)]


def test_a_ceiling_is_set_for_a_time_and_the_lease_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = ran(monkeypatch, "-setceil", "a@p", "5", "-duration", "60")
    assert result == (0, "Set ceiling lease on a@p to 5 for 60 seconds\n", "")
    assert asked == [SetPriority(submitter="a@p", attribute="Ceiling", value=5.0, lease_s=60.0)]
    result, asked = ran(monkeypatch, "-cancelfactorlease", "a@p")
    assert result == (0, "Cancelled priority-factor lease for a@p\n", "")
    assert asked == [CancelLease(submitter="a@p", attribute="PriorityFactor")]


def test_all_usage_is_reset_and_a_record_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = ran(monkeypatch, "-resetall", "-del", "a@p")
    said = "The accumulated usage was reset for all users\nThe accountant record named a@p was deleted\n"
    assert result == (0, said, "")
    assert asked == [ResetUsage(), ForgetSubmitter(submitter="a@p")]


REFUSED = (
    (("-setprio", "alice", "10"), "You must specify the full name of the submittor"),
    (("-setfloor", "alice", "1"), "to update the floor of (user@uid.domain or user@full.host.name) (not alice)"),
    (("-setlast", "alice", "1"), "to update the last usage time of (user@uid.domain or user@full.host.name)"),
    (("-delete", "alice"), "full name of the record you wish\n\tto delete (user@uid.domain or user@full.host.name)"),
    (("-cancelfloorlease", "alice"), "-cancelfloorlease requires a full submitter name (user@domain)"),
    (("-getreslist", "alice"), "You must specify the full name of the submittor"),
    (("-setceiling", "a@p", "3.7"), "'3.7' is not a whole number"),
    (("-setfactor", "a@p", "0.5"), "Priority factors must be greater than or equal to 1."),
    (("-setaccum", "a@p", "-1"), "Usage must be greater than 0 seconds"),
    (("-setbegin", "a@p", "-1"), "Time must be greater than 0 seconds"),
    (("-setlast", "a@p", "soon"), "'soon' is not a number"),
    (("-setprio", "a@p", "nan"), "'nan' is not a number"),
    (("-setfactor", "a@p", "inf"), "'inf' is not a number"),
    (("-resetall", "-setprio", "alice", "10"), "You must specify the full name of the submittor"),
    (("-setceiling", "a@p", "-2"), "ceiling must be greater than or equal to -1."),
    (("-setfloor", "a@p", "-1"), "floor must be greater than or equal to 0."),
    (("-setceiling", "a@p", "5", "-duration", "0"), "-duration requires a positive integer number of seconds"),
    (("-setceiling", "a@p", "5", "-duration", "1.5"), "-duration requires a positive integer number of seconds"),
    (("-setceiling", "a@p", "5", "-duration", "2147483647"), "-duration requires a positive integer"),
    (("-setprio", "a@p", "5", "-duration", "9"), "-duration is for -setceiling, -setfloor and -setfactor"),
    (("-activefrom", "13", "40", "x"), "is not a date"),
    (("-nosuch",), "unknown option -nosuch"),
)


@pytest.mark.parametrize(("argv", "said"), REFUSED)
def test_what_cannot_be_is_refused_before_anything_is_changed(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: str
) -> None:
    (status, out, err), asked = ran(monkeypatch, *argv)
    assert (status, out) == (1, "")
    assert said in err
    assert not [one for one in asked if not isinstance(one, GetPriorities)]


def test_a_user_may_be_named_without_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    (status, out, _), _ = ran(monkeypatch, "alice", "-json")
    assert status == 0
    assert [ad["Name"] for ad in json.loads(out)] == ["alice@pool.test"]


def test_who_used_nothing_for_a_day_is_shown_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "bob@pool.test" not in ran(monkeypatch)[0][1]
    assert "bob@pool.test" in ran(monkeypatch, "-allusers")[0][1]
    assert "bob@pool.test" in ran(monkeypatch, "-activefrom", "12", "31", "1969")[0][1]


def test_the_time_since_is_blank_where_nothing_was_ever_used(monkeypatch: pytest.MonkeyPatch) -> None:
    never = ClassAd({"Name": "eve@pool.test", "Priority": 500.0, "PriorityFactor": 1000.0, "LastUpdate": 2000})
    monkeypatch.setitem(ANSWERS, GetPriorities, Priorities(submitters=[*USERS, never]))
    (_, said, _), _ = ran(monkeypatch, "-allusers")
    (eve,) = (line.split() for line in said.splitlines() if line.startswith("eve@"))
    assert eve == ["eve@pool.test", "500.00", "1000.00"]


def test_a_year_of_two_digits_is_one_of_this_or_the_last_century(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "bob@pool.test" not in ran(monkeypatch, "-activefrom", "1", "1", "26")[0][1]
    assert "bob@pool.test" in ran(monkeypatch, "-activefrom", "12", "31", "69")[0][1]


def test_a_lease_that_is_refused_is_not_an_answer_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: object) -> None:
        raise RemoteError("no lease of Ceiling is in effect for a@p", code="UserError")

    monkeypatch.setitem(ANSWERS, CancelLease, refuses)
    status, _, err = ran(monkeypatch, "-cancelceilinglease", "a@p")[0]
    assert (status, err) == (1, "negotiator rejected cancel: no lease of Ceiling is in effect for a@p\n")
    monkeypatch.setitem(ANSWERS, SetPriority, refuses)
    assert "negotiator rejected floor lease: no" in ran(monkeypatch, "-setfloor", "a@p", "1", "-duration", "9")[0][2]
    assert "Error: the negotiator refuses: no" in ran(monkeypatch, "-setfloor", "a@p", "1")[0][2]


def test_groups_are_shown_with_those_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(name: str, held: int, began: int, last: int) -> ClassAd:
        times = {"BeginUsageTime": began, "LastUsageTime": last, "LastUpdate": 2000}
        used = {"ResourcesUsed": held, "WeightedResourcesUsed": 2.0 * held, "WeightedAccumulatedUsage": 3600.0 * held}
        return ClassAd({"Name": name, "IsAccountingGroup": True, "Priority": 5.0, **used, **times})

    ads = [row("<none>", 1, 0, 0), row("phys", 2, 900, 1000), row("phys.hep", 4, 500, 1500), row("physics", 8, 0, 0)]
    monkeypatch.setitem(ANSWERS, GetPriorities, Priorities(submitters=ads))
    asked = ("-allusers", "-af", "Name", "ResourcesUsed", "WeightedResourcesUsed", "BeginUsageTime", "LastUsageTime")
    assert ran(monkeypatch, *asked)[0][1].splitlines()[1] == "phys 2 4.0 900 1000"
    assert ran(monkeypatch, "-grouprollup", *asked)[0][1].splitlines() == [
        "<none> 15 30.0 500 1500",
        "phys 6 12.0 500 1500",
        "phys.hep 4 8.0 500 1500",
        "physics 8 16.0 0 0",
    ]


def test_the_slots_of_a_user_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    (status, out, _), _ = ran(monkeypatch, "-getreslist", "b@p")
    lines = out.splitlines()
    assert status == 0
    assert lines[:2] == [
        "Resource Name                    Start Time   Match Time",
        "-------------                    ----------   ----------",
    ]
    assert lines[2].startswith("slot1_1@x ")
    assert lines[-1] == "Number of Resources Used: 1"
    assert [ad["Name"] for ad in json.loads(ran(monkeypatch, "-getreslist", "b@p", "-json")[0][1])] == ["slot1_1@x"]
    assert ran(monkeypatch, "-getreslist", "b@p", "-long")[0][1].splitlines()[0] == 'Name1 = "slot1_1@x"'
