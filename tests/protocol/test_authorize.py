"""Access levels and the lists that grant and deny them."""

from __future__ import annotations

import pytest

from protocol.security.authorize import AccessEntry, AccessLists, Caller, Level, access_lists, implied

ALICE = Caller(user="alice@pool.test", hosts=("10.1.2.3", "ap.pool.test"))


@pytest.mark.parametrize(
    ("level", "brings"),
    [
        ("READ", "READ"),
        ("WRITE", "READ WRITE"),
        ("DAEMON", "DAEMON READ"),
        ("NEGOTIATOR", "NEGOTIATOR READ"),
        ("ADMINISTRATOR", "ADMINISTRATOR READ WRITE"),
        ("CONFIG", "CONFIG READ"),
        ("ADVERTISE_STARTD", "ADVERTISE_STARTD READ"),
    ],
)
def test_a_level_brings_those_below_it(level: str, brings: str) -> None:
    assert implied([Level(level)]) == {Level(word) for word in brings.split()}


@pytest.mark.parametrize(
    ("entry", "matches"),
    [
        ("*", True),
        ("*/*", True),
        ("alice@pool.test", True),
        ("ALICE@POOL.TEST", True),
        ("alice@*", True),
        ("al*ice@*", True),  # a star may stand for nothing
        ("alice@pool*pool.test", False),  # no letter counts twice
        ("*ice*ice*", False),
        ("*@pool.test", True),
        ("a*e@p*.test", True),
        ("*@other.test", False),
        ("alice", False),  # a host of that name
        ("bob@pool.test", False),
        ("alice@pool.test/*", True),
        ("alice@pool.test/10.1.2.3", True),
        ("alice@pool.test/10.1.*", True),
        ("alice@pool.test/10.9.*", False),
        ("alice@pool.test/*.pool.test", True),
        ("*/10.1.2.3", True),
        ("10.1.2.3", True),
        ("10.1.*", True),
        ("*.pool.test", True),
        ("ap.pool.test", True),
        ("10.0.0.0/8", True),
        ("10.1.2.0/255.255.255.0", True),
        ("192.168.0.0/16", False),
        ("alice@pool.test/10.0.0.0/8", True),
        ("alice@pool.test/192.168.0.0/16", False),
        ("alic?@pool.test", False),  # only * stands for anything
        ("alic[e]@pool.test", False),
    ],
)
def test_an_entry_of_a_list(entry: str, matches: bool) -> None:
    assert AccessEntry.parse(entry).matches(ALICE) is matches


HOST = Caller(user="host/ex1.lab@pool.test", hosts=("10.1.2.3", "ex1.lab"))


@pytest.mark.parametrize(
    ("entry", "matches", "allows"),
    [
        ("host/ex1.lab@pool.test", True, True),
        ("HOST/EX1.LAB@pool.test", True, True),
        ("host/*@pool.test", True, True),
        ("host/*", True, True),
        ("host/ex1.lab@pool.test/10.1.2.3", True, True),
        ("host/ex1.lab@pool.test/10.9.9.9", False, False),
        ("host/ex2.lab@pool.test", False, False),
        ("host/ex1.lab@other.test", False, False),
        ("*/ex1.lab", True, False),  # speaks of users there: it can deny a host, and gives it nothing
        ("*@pool.test", True, False),
        ("*", True, False),
    ],
)
def test_an_entry_for_a_host(entry: str, matches: bool, allows: bool) -> None:
    pattern = AccessEntry.parse(entry)
    assert (pattern.matches(HOST), pattern.allows(HOST)) == (matches, allows)
    assert not AccessEntry.parse("host/*").matches(ALICE)


def test_without_a_list_nobody_has_a_level() -> None:
    assert AccessLists().levels(ALICE) == frozenset()


def test_proof_grants_what_no_list_does() -> None:
    assert AccessLists().levels(ALICE, frozenset({Level.DAEMON})) == {Level.DAEMON, Level.READ}


def test_an_allow_list_grants() -> None:
    lists = access_lists({"WRITE": ["*@pool.test"]}, {})
    assert lists.levels(ALICE) == {Level.WRITE, Level.READ}
    assert lists.levels(Caller(user="eve@other.test")) == frozenset()


def test_a_deny_list_always_wins() -> None:
    lists = access_lists({"WRITE": ["*"]}, {"WRITE": ["alice@*"], "DAEMON": ["*"]})
    assert lists.levels(ALICE, frozenset({Level.DAEMON})) == {Level.READ}


def test_advertising_falls_back_to_the_daemon_list() -> None:
    lists = access_lists({"DAEMON": ["alice@pool.test"]}, {})
    assert Level.ADVERTISE_STARTD in lists.levels(ALICE)
    narrow = access_lists({"DAEMON": ["alice@pool.test"], "ADVERTISE_STARTD": ["bob@pool.test"]}, {})
    assert Level.ADVERTISE_STARTD not in narrow.levels(ALICE)
    assert Level.ADVERTISE_SCHEDD in narrow.levels(ALICE)
