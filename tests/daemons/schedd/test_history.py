"""The history beside the queue: it is kept within its bounds while the queue is written to."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from daemons.schedd.queue import policy_timer
from daemons.schedd.queue.policy_timer import PolicyTimer
from pool.jobs.queue import store
from pool.jobs.queue.store import HistoryRow, WriteBatch

FINISHED, KEPT = 1_000, 100
SLOWLY = "CREATE TRIGGER slowly BEFORE DELETE ON history BEGIN SELECT length(hex(zeroblob(200000))); END"
"""To forget a job takes as long as if its row were large."""


class WritesMeanwhile:
    """Threads while which the queue's writer commits again and again, as it does on the loop."""

    def __init__(self, writers: Any) -> None:
        self._writers, self.commits = writers, 0

    async def run_sync(self, fn: Any, *args: Any) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(fn(*args)))
        thread.start()
        while thread.is_alive():
            thread.join(0.001)
            assert not self._writers.in_transaction, "somebody else uses the writer's connection"
            self.commits += 1
            store.commit(self._writers, WriteBatch(next_cluster=self.commits))
        await trio.sleep(0)
        return found[0]


async def test_commits_go_on_while_old_history_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_timer, "PRUNE_S", 0.01)
    monkeypatch.setattr(policy_timer, "PRUNE_PAUSE_S", 0.0, raising=False)
    connection = store.open_queue(tmp_path / "queue.sqlite")
    rows = [HistoryRow(1, proc, "ann", 4, 1.0, "{}") for proc in range(FINISHED)]
    store.commit(connection, WriteBatch(history=rows))
    connection.execute(SLOWLY)
    threads = WritesMeanwhile(connection)
    done = trio.CancelScope()
    core: Any = SimpleNamespace(
        start=SimpleNamespace(world=SimpleNamespace(threads=threads)),
        settings=SimpleNamespace(history_rows_max=KEPT),
        log=SimpleNamespace(full=lambda _: done.cancel()),
    )
    with done:
        await PolicyTimer(core).prune_history(str(tmp_path / "queue.sqlite"))
    assert connection.execute("SELECT count(*) FROM history").fetchone() == (KEPT,)
    assert store.read_counter(connection, "next_cluster", 0) == threads.commits
    connection.close()
