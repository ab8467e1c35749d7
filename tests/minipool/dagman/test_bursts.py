"""However much happens at once, what else condor_dagman has to do goes on between."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from minipool.dagman.files import Files
from minipool.dagman.nodes_log import NodesLog, Replay
from minipool.dagman.recovering import EVENTS_A_PIECE, _replay_log
from minipool.dagman.submitter import PRETENDED_AT_ONCE
from pool.config import load_config
from pool.dag.course import happenings as it
from pool.dag.course.course import S
from tests.minipool.dagman.simulated import World, in_world
from tests.minipool.dagman.test_status_file import a_course

MANY = 10 * EVENTS_A_PIECE


@pytest.fixture
def turns() -> list[int]:
    """How often somebody else had a turn."""
    return [0]


async def taking_turns(turns: list[int]) -> None:
    while True:
        turns[0] += 1
        await trio.lowlevel.checkpoint()


async def test_a_long_log_is_gone_through_piece_by_piece(tmp_path: Path, turns: list[int]) -> None:
    course = a_course("".join(f"JOB n{n} a NOOP\n" for n in range(MANY)))
    log = NodesLog(str(tmp_path / "log"))
    log.noop(node.name for node in course.dag.nodes)
    told: list[it.Event] = []
    manager: Any = SimpleNamespace(nodes_log=log, replay=told.append, out=SimpleNamespace(in_one_piece=nullcontext))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(taking_turns, turns)
        await _replay_log(manager, Replay(course.dag))
        nursery.cancel_scope.cancel()
    assert len(told) == 2 * MANY
    assert turns[0] >= MANY // EVENTS_A_PIECE


def test_nodes_without_jobs_are_done_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noop = NodesLog.noop

    def counted(log: NodesLog, names: list[str]) -> None:
        assert len(names) <= PRETENDED_AT_ONCE
        noop(log, names)

    monkeypatch.setattr(NodesLog, "noop", counted)
    world = World(tmp_path)
    with in_world(world, "".join(f"JOB n{n} a NOOP\n" for n in range(350)), monkeypatch):
        assert world.run(load_config([], environ={}, subsystem="DAGMAN")) == 0
    assert (tmp_path / "x.dag.nodes.log").read_text().count("DAG Node: ") == 350


async def test_a_picture_is_drawn_piece_by_piece_and_stands_whole(
    tmp_path: Path, turns: list[int], autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    course = a_course("DOT x.dot UPDATE OVERWRITE\n" + "".join(f"JOB n{n} a\n" for n in range(20_000)))
    said: list[str] = []
    files = Files(["x.dag"], "m", said.append, graph_metrics=False, rescue_max=1, reset_retries=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.keep_drawing, course)
        files.changed()
        while not Path("x.dot").exists():
            turns[0] += 1
            await trio.lowlevel.checkpoint()
        assert Path("x.dot").read_text().count("label=") == 20_001
        assert turns[0] >= 10
        Path("x.dot").unlink()
        Path("x.dot").mkdir()
        files.changed()
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert said == ["Warning: can't create dot file x.dot: Is a directory"]


def test_a_rescue_file_and_a_save_file_are_written_piece_by_piece_and_stand_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    many = 20_000
    course = a_course("SAVE_POINT_FILE n0\n" + "".join(f"JOB n{n} a\n" for n in range(many)))
    course.states[:] = bytes([S.DONE]) * many
    files = Files(["x.dag"], "m", print, graph_metrics=False, rescue_max=1, reset_retries=True)
    for pieces in (files.writing_rescue(course), files.writing_save(course, 0)):
        there = [Path(name).exists() for name in pieces]
        assert (there[-1], sum(there), len(there) > 10) == (True, 1, True)
    for name in ("x.dag.rescue001", "save_files/n0-x.dag.save"):
        assert Path(name).read_text().count("DONE n") == many
