"""The lines of chirp, and who may say which."""

from __future__ import annotations

import errno

import pytest

from pool.classad import ClassAd
from pool.execute.chirp import (
    ChirpCall,
    ChirpError,
    Right,
    error_of,
    may_be_delayed,
    quote,
    read_call,
    rights_of,
    split,
)

ALL = frozenset(Right)


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("open a.txt rw 438", ChirpCall("open", ("a.txt", "rw"), (438,))),
        (r"open with\ blank\\ r 0", ChirpCall("open", ("with blank\\", "r"), (0,))),
        ("  read   3\t100 ", ChirpCall("read", (), (3, 100))),
        ("ulog several words", ChirpCall("ulog", ("several",), ())),  # what is too much is ignored, as HTCondor does
        ("version", ChirpCall("version", (), ())),
        ("read 3", None),
        ("read three 100", None),
        ("", None),
        ("format_disk now", None),
    ],
)
def test_a_line_is_a_call_or_it_is_refused(line: str, call: ChirpCall | None) -> None:
    assert read_call(line, ALL) == call


@pytest.mark.parametrize("word", ["plain", "two words", "tab\there", "back\\slash", "line\nend", "\\"])
def test_a_quoted_word_is_one_word_again(word: str) -> None:
    assert split(f"ulog {quote(word)}") == ["ulog", word]


@pytest.mark.parametrize("word", ["a\u00a0b", "a\u2003b", "a\x85b"])
def test_only_blanks_of_a_keyboard_part_words(word: str) -> None:
    assert split(f"set_job_attr Note {quote(word)}") == ["set_job_attr", "Note", word]


def test_a_call_needs_its_right() -> None:
    lines = {Right.FILES: "unlink x", Right.UPDATES: "get_job_attr X", Right.DELAYED: "set_job_attr_delayed X 1"}
    lines[Right.NODES] = "run_on_node 1 4"
    for right, line in lines.items():
        assert read_call(line, frozenset({right})) is not None
        assert read_call(line, ALL - {right}) is None


@pytest.mark.parametrize(
    ("job", "machine", "rights"),
    [
        ({}, {}, {Right.DELAYED}),
        ({"WantIOProxy": True}, {}, ALL - {Right.NODES}),
        ({"WantIOProxy": True, "JobUniverse": 11}, {}, ALL),
        ({"WantIOProxy": True}, {"files": False}, {Right.DELAYED}),
        ({"WantIOProxy": True}, {"updates": False}, {Right.FILES, Right.DELAYED}),
        ({"WantIOProxy": True, "WantRemoteUpdates": False}, {}, {Right.FILES, Right.DELAYED}),
        ({"WantRemoteUpdates": True}, {}, {Right.UPDATES, Right.DELAYED}),
        ({"WantDelayedUpdates": False}, {}, set()),
        ({}, {"delayed": False}, set()),
    ],
)
def test_the_job_asks_and_the_machine_allows(
    job: dict[str, object], machine: dict[str, bool], rights: set[Right]
) -> None:
    allowed = {"files": True, "updates": True, "delayed": True, **machine}
    assert rights_of(ClassAd(job), **allowed) == rights


def test_attributes_that_can_wait_begin_as_the_machine_says() -> None:
    assert may_be_delayed("ChirpStage", ("Chirp*",))
    assert may_be_delayed("chirpstage", ("Chirp*",))
    assert not may_be_delayed("Stage", ("Chirp*",))
    assert may_be_delayed("Stage", ("Chirp*", "Sta*"))


def test_faults_of_the_system_have_numbers_of_their_own() -> None:
    assert (error_of(errno.ENOENT), error_of(errno.EACCES), error_of(12345)) == (-3, -2, ChirpError.UNKNOWN)
