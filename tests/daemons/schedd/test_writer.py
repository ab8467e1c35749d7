"""The writer of the queue: what makes a commit, and its end when the disk hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.schedd.core import writer as module
from daemons.schedd.core.writer import LAST_COMMIT_S, LAZY_S, NOTES_S, Writer
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.jobs.queue import store
from pool.jobs.queue.cluster import Cluster
from pool.jobs.queue.job_queue import JobQueue


class HangingDisk:
    """Its threads never come back; one that may be left behind is, when its caller is cancelled."""

    async def run_sync(self, fn: Any, *args: Any) -> Any:
        if fn is module._commit_timed:
            with trio.CancelScope(shield=True):
                await trio.sleep(10 * LAST_COMMIT_S)
        return fn(*args)

    async def leave_behind(self, fn: Any, *args: Any) -> Any:
        await trio.sleep_forever()


async def test_the_end_waits_for_a_commit_that_hangs_no_longer_than_a_while(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    connection = store.open_queue(str(tmp_path / "queue"))
    queue = JobQueue("ap")
    writer = Writer(queue, connection, HangingDisk())

    async def end_while_it_hangs() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            cluster = Cluster(queue.new_id(), ClassAd({"JobUniverse": 5, "JobStatus": 1}), user="a@b", owner="a")
            queue.add(cluster, [])
            nursery.start_soon(writer.durable)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()

    with pytest.raises(BaseExceptionGroup) as raised:
        await end_while_it_hangs()
    assert raised.group_contains(PoolError, match="did not take the last changes")
    assert trio.current_time() == pytest.approx(1 + LAST_COMMIT_S)
    connection.close()


async def test_only_the_loop_executes_statements_of_the_writers_connection(tmp_path: Path) -> None:
    """Two threads that execute one statement of a connection at once get each other's rows, or none."""
    connection = store.open_queue(str(tmp_path / "queue"))
    opened = trio.Event()
    beside: list[int] = []

    class Watched:
        async def run_sync(self, fn: Any, *args: Any) -> Any:
            connection.set_trace_callback(lambda _statement: beside.append(1))
            found = await trio.to_thread.run_sync(fn, *args)
            opened.set()
            return found

        async def leave_behind(self, fn: Any, *args: Any) -> Any:
            await trio.sleep_forever()

    writer = Writer(JobQueue("ap"), connection, Watched())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await opened.wait()
        nursery.cancel_scope.cancel()
    assert beside == []
    connection.close()


class AtOnce:
    """Threads that are none."""

    async def run_sync(self, fn: Any, *args: Any) -> Any:
        return fn(*args)

    leave_behind = run_sync


async def test_an_event_and_the_note_that_it_is_written_make_one_commit_and_a_late_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    connection = store.open_queue(str(tmp_path / "queue"))
    queue = JobQueue("ap")
    writer = Writer(queue, connection, AtOnce())
    cluster = Cluster(queue.new_id(), ClassAd({"JobUniverse": 5, "JobStatus": 1}), user="a@b", owner="a")
    queue.add(cluster, [])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for number in range(5):
            row = queue.log(cluster, "/log", f"{number}")
            await writer.durable()
            queue.written([row.seq])
            await writer.durable()  # has nothing to wait for
            assert [row.text for row in store.read_events(connection)] == [f"{number}"]
        assert writer.commits == 5
        await trio.sleep(NOTES_S - LAZY_S)
        assert writer.commits == 5
        await trio.sleep(2 * LAZY_S)
        assert (writer.commits, store.read_events(connection)) == (6, [])
        await trio.sleep(10 * NOTES_S)
        assert writer.commits == 6
        queue.written([row.seq])
        await writer.noted()
        assert writer.commits == 7
        nursery.cancel_scope.cancel()
    connection.close()


async def test_notes_are_kept_at_an_ordinary_end(tmp_path: Path, autojump_clock: MockClock) -> None:
    connection = store.open_queue(str(tmp_path / "queue"))
    queue = JobQueue("ap")
    writer = Writer(queue, connection, AtOnce())
    cluster = Cluster(queue.new_id(), ClassAd({"JobUniverse": 5, "JobStatus": 1}), user="a@b", owner="a")
    queue.add(cluster, [])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        row = queue.log(cluster, "/log", "event")
        await writer.durable()
        queue.written([row.seq])
        nursery.cancel_scope.cancel()
    assert store.read_events(connection) == []
    connection.close()
