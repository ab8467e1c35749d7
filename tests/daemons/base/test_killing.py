"""Killing processes until none is left, with real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

from daemons.base.killing import kill, kill_until_gone


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    started = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
    yield started
    for one in started:
        one.kill()
        one.wait()


def test_who_appears_meanwhile_is_killed_too(sleepers: list[subprocess.Popen[bytes]]) -> None:
    pids = [one.pid for one in sleepers]
    asked = []

    def who() -> set[int]:
        asked.append(True)
        return set(pids[: len(asked)])

    assert kill_until_gone(who) == set()
    assert sleepers[0].wait(10) == -9
    assert kill_until_gone(lambda: set(pids)) == set()  # those that wait to be collected count as gone
    assert [one.wait(10) for one in sleepers] == [-9, -9, -9]


def test_who_cannot_be_killed_is_named(sleepers: list[subprocess.Popen[bytes]]) -> None:
    pid = sleepers[0].pid
    rounds: list[Set[int]] = []
    assert kill_until_gone(lambda: {pid}, kill=rounds.append, rounds_max=3) == {pid}
    assert rounds == [{pid}] * 3
    assert sleepers[0].poll() is None


def test_this_process_is_never_among_them_and_one_that_is_gone_is_no_trouble() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    kill({gone.pid})
    assert kill_until_gone(lambda: {os.getpid(), gone.pid}) == set()


def test_nobody_goes_on_when_another_is_killed_first(tmp_path: Path) -> None:
    went_on = tmp_path / "went_on"
    for _ in range(5):
        shell = subprocess.Popen(
            ["sh", "-c", f"sleep 1000 & echo $!; wait; echo > {went_on}"], stdout=subprocess.PIPE, text=True
        )
        assert shell.stdout is not None
        first = int(shell.stdout.readline())
        kill([*[first] * 3000, shell.pid])  # as long as many take
        assert shell.wait(10) == -9
        shell.stdout.close()
    assert not went_on.exists()
