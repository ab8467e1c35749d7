"""The register of hosts: who is let in, what is remembered, who is out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.base.errors import UserError
from pool.hosts.register import REMEMBERED_S, Issued, Register, Word, as_serial, renewal_due, transaction

WORD = Word(id="w1", duty="execute", ends_at=1000.0)
OWN = ("cm.lab",)


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Register]:
    with transaction(tmp_path / "hosts.sqlite") as register:
        yield register


def admit(register: Register, word: Word, name: str, key: str, now: float = 0.0) -> None:
    register.admit(word, name, key, reserved=OWN, now=now)


def issued(serial: str, name: str = "ex1.lab", **changes: object) -> Issued:
    return Issued(serial, name, "execute", "key1", 0.0, 90.0)._replace(**changes)


def test_what_fails_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "hosts.sqlite"

    def fail_half_way() -> None:
        with transaction(path) as register:
            admit(register, WORD, "ex1.lab", "key1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    with transaction(path) as register:
        admit(register, WORD, "ex2.lab", "key2")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_word_is_for_one_host_which_may_ask_again(register: Register) -> None:
    admit(register, WORD, "ex1.lab", "key1")
    admit(register, WORD, "EX1.lab", "key1")
    for name, key in (("ex2.lab", "key1"), ("ex1.lab", "key2"), ("ex2.lab", "key2")):
        with pytest.raises(UserError, match="has been used"):
            admit(register, WORD, name, key)


def test_a_word_is_remembered_until_it_has_ended_for_long(register: Register) -> None:
    admit(register, WORD, "ex1.lab", "key1")
    with pytest.raises(UserError, match="has been used"):
        admit(register, WORD, "ex2.lab", "key2", now=WORD.ends_at + REMEMBERED_S)
    admit(register, WORD, "ex2.lab", "key2", now=WORD.ends_at + REMEMBERED_S + 1)


def test_a_word_may_be_for_several_hosts_or_for_a_named_one(register: Register) -> None:
    two = Word(id="w2", duty="execute", ends_at=1000.0, uses=2)
    admit(register, two, "ex1.lab", "key1")
    admit(register, two, "ex2.lab", "key2")
    with pytest.raises(UserError, match="has been used"):
        admit(register, two, "ex3.lab", "key3")
    named = Word(id="w3", duty="execute", ends_at=1000.0, host="ex4.lab")
    with pytest.raises(UserError, match=r"is for ex4\.lab, and not for ex5\.lab"):
        admit(register, named, "ex5.lab", "key5")
    admit(register, named, "Ex4.lab", "key4")


@pytest.mark.parametrize("name", ["cm.lab", "CM.LAB", "cm"])
def test_the_central_managers_names_are_its_own(register: Register, name: str) -> None:
    with pytest.raises(UserError, match="the central manager's own name"):
        admit(register, WORD, name, "key1")


def test_a_name_that_another_has_is_refused_until_it_is_revoked(register: Register) -> None:
    other = Word(id="w2", duty="submit", ends_at=1000.0)
    admit(register, WORD, "ex1.lab", "key1")
    with pytest.raises(UserError, match="has joined before, with another key"):
        admit(register, other, "ex1.lab", "key2")
    with pytest.raises(UserError, match=r"ex1 is taken by ex1\.lab"):
        admit(register, other, "ex1", "key2")
    register.record(issued("A1"))
    assert [row.serial for row in register.revoke_host("ex1.lab", reserved=OWN, now=5.0)] == ["A1"]
    admit(register, other, "ex1.lab", "key2")


def test_a_revoked_key_is_never_certified_again(register: Register) -> None:
    admit(register, WORD, "ex1.lab", "key1")
    register.record(issued("A1"))
    register.check_renewal("EX1.lab", "key1", reserved=OWN)
    register.revoke_host("00:a1", reserved=OWN, now=5.0)  # as openssl prints it
    with pytest.raises(UserError, match="is not known as a host"):
        register.check_renewal("ex1.lab", "key1", reserved=OWN)
    with pytest.raises(UserError, match="was revoked"):
        admit(register, Word(id="w2", duty="execute", ends_at=1000.0), "ex9.lab", "key1")


def test_the_list_has_what_was_revoked_and_a_number_that_grows(register: Register) -> None:
    assert register.revoked() == (0, [])
    register.record(issued("A1"))
    register.record(issued("B2", "ex2.lab", key="key2"))
    register.revoke_host("ex1.lab", reserved=OWN, now=5.0)
    assert register.revoked() == (1, [issued("A1", revoked_at=5.0)])
    register.revoke_host("b2", reserved=OWN, now=6.0)
    assert [row.serial for row in register.revoked()[1]] == ["A1", "B2"]
    assert register.revoked()[0] == 2
    with pytest.raises(UserError, match="is no host of this pool"):
        register.revoke_host("ex3.lab", reserved=OWN, now=7.0)


def test_the_central_manager_cannot_be_put_out(register: Register) -> None:
    register.record(issued("A1", "cm.lab", duties="central"))
    for what in ("CM.lab", "a1"):
        with pytest.raises(UserError, match=r"cm\.lab is the central manager itself"):
            register.revoke_host(what, reserved=OWN, now=7.0)


@pytest.mark.parametrize("name", ["10.0.0.1", "localhost", "cm"])
def test_what_an_earlier_version_let_in_is_not_renewed(tmp_path: Path, name: str) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts" / name).write_text("key1\n")
    with transaction(tmp_path / "hosts.sqlite") as register, pytest.raises(UserError, match=r"is not a name|own name"):
        register.check_renewal(name, "key1", reserved=OWN)


def test_a_certificate_is_renewed_at_two_thirds_of_its_life_or_when_it_was_made_for_too_long() -> None:
    assert renewal_due(issued("A1"), 90.0) == 60.0
    assert renewal_due(issued("A1", made_at=1000.0, ends_at=1090.0), 90.0) == 1060.0
    assert renewal_due(issued("A1", ends_at=3650.0), 90.0) == 0.0


def test_a_certificate_of_an_earlier_version_is_revoked_by_its_number_alone(register: Register) -> None:
    register.revoke_host("0123456789ABCDEF0123", reserved=OWN, now=5.0)
    assert [row.serial for row in register.revoked()[1]] == ["123456789ABCDEF0123"]


def test_a_newer_certificate_puts_out_what_let_its_host_do_more_or_live_longer(register: Register) -> None:
    for row in (issued("A1"), issued("B2", ends_at=3650.0), issued("C3", duties="submit"), issued("D4", "ex2.lab")):
        register.record(row)
    newest = issued("E5", made_at=60.0, ends_at=150.0)
    register.record(newest)
    assert {row.serial for row in register.revoke_replaced(newest, now=60.0)} == {"B2", "C3"}


def test_the_hosts_are_shown_with_their_newest_certificates(register: Register) -> None:
    admit(register, WORD, "ex1.lab", "key1")
    register.record(issued("A1"))
    register.record(issued("B2", made_at=60.0, ends_at=150.0))
    assert register.hosts() == [issued("B2", made_at=60.0, ends_at=150.0)]
    register.revoke_host("ex1.lab", reserved=OWN, now=70.0)
    assert {(row.serial, row.revoked_at) for row in register.hosts()} == {("A1", 70.0), ("B2", 70.0)}


def test_the_records_of_an_earlier_version_are_taken_over(tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts" / "ex1.lab").write_text("key1\n")
    with transaction(tmp_path / "hosts.sqlite") as register:
        assert register.hosts() == [Issued("", "ex1.lab", "", "key1", 0.0, 0.0)]
        register.check_renewal("ex1.lab", "key1", reserved=OWN)


@pytest.mark.parametrize(
    ("text", "serial"), [("0a1B", "A1B"), ("0x00ff", "FF"), ("A1:B2", "A1B2"), ("ex1.lab", ""), ("", ""), ("0", "")]
)
def test_a_serial_number_is_read(text: str, serial: str) -> None:
    assert as_serial(text) == serial
