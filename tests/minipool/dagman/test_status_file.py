"""The node status file of a graph that runs: when it is written, of what moment, and that it holds nobody up."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from minipool.dagman.status_file import NODES_A_PIECE, StatusFile
from pool.dag.course.course import Course, S
from pool.dag.language.reader import read
from tests.pool.dag.cases import reader

MANY = 20 * NODES_A_PIECE


def a_course(text: str) -> Course:
    return Course(read(["x.dag"], reader({"x.dag": text})))


def large(directory: Path) -> Course:
    return a_course(f"NODE_STATUS_FILE {directory}/status 60\n" + "".join(f"JOB n{n} a NOOP\n" for n in range(MANY)))


def states(status: Path) -> Counter[str]:
    return Counter(re.findall(r'"STATUS_(\w+)" \*/\n  StatusDetails', status.read_text()))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.mark.parametrize("always", [False, True])
async def test_the_file_is_written_when_its_time_has_come(
    tmp_path: Path, always: bool, said: list[str], autojump_clock: MockClock
) -> None:
    path = tmp_path / "status"
    course = a_course(f"JOB A a\nNODE_STATUS_FILE {path} 30{' ALWAYS-UPDATE' * always}\n")
    file = StatusFile(["x.dag", "y.dag"], said.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.keep, course)
        file.changed()
        await trio.sleep(1)
        assert '"x.dag",\n    "y.dag"' in path.read_text()
        path.unlink()
        file.changed()
        await trio.sleep(28)
        assert not path.exists()  # too soon
        await trio.sleep(2)
        path.unlink()
        await trio.sleep(31)
        assert path.exists() == always  # nothing has changed since
        nursery.cancel_scope.cancel()
    assert said == []


async def test_others_go_on_while_a_large_file_is_written_and_it_is_of_one_moment(
    tmp_path: Path, said: list[str]
) -> None:
    course = large(tmp_path)
    file, turns = StatusFile(["x.dag"], said.append), 0
    async with trio.open_nursery() as nursery:
        file.changed()
        nursery.start_soon(file.keep, course)
        while not (tmp_path / "status").exists():
            await trio.lowlevel.checkpoint()
            if (tmp_path / "status.tmp").exists():
                turns += 1
                course.states[-turns] = S.DONE
        nursery.cancel_scope.cancel()
    assert turns >= MANY // NODES_A_PIECE - 1
    assert states(tmp_path / "status") == {"READY": MANY}


async def test_the_last_file_stays_though_another_was_being_written(tmp_path: Path, said: list[str]) -> None:
    course = large(tmp_path)
    file = StatusFile(["x.dag"], said.append)
    async with trio.open_nursery() as nursery:
        file.changed()
        nursery.start_soon(file.keep, course)
        while not (tmp_path / "status.tmp").exists():
            await trio.lowlevel.checkpoint()
        course.states[:] = bytes([S.DONE]) * MANY
        file.finish(course, "success")
        last = (tmp_path / "status").read_text()
        await wait_all_tasks_blocked()
    assert (tmp_path / "status").read_text() == last
    assert states(tmp_path / "status") == {"DONE": MANY}


async def test_a_file_that_cannot_be_written_is_said_and_ends_nothing(tmp_path: Path, said: list[str]) -> None:
    course = a_course(f"JOB A a\nNODE_STATUS_FILE {tmp_path}/none/status\n")
    file = StatusFile(["x.dag"], said.append)
    async with trio.open_nursery() as nursery:
        file.changed()
        nursery.start_soon(file.keep, course)
        await wait_all_tasks_blocked()
        file.finish(course, "success")
    assert (
        said == [f"Warning: can't create node status file '{tmp_path}/none/status.tmp': No such file or directory"] * 2
    )
