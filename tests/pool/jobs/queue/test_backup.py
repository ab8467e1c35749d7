"""A queue written to a text and made anew of it; queues that are not sound; files of older versions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.jobs.queue import backup, store
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import EMPTY
from pool.jobs.vocabulary.priority import ORDINARY
from pool.jobs.vocabulary.states import JobStatus


def a_queue(path: Path) -> sqlite3.Connection:
    """A file with two clusters, one of them a factory, and a job that has left."""
    connection = store.open_queue(path)
    queue = JobQueue("ap")
    for _ in range(2):
        cluster = Cluster(queue.new_id(), ClassAd({"Cmd": "/x", "Note": 'a\n"b" ü'}), user="ann@here", owner="ann")
        queue.add(cluster, [Job(cluster, proc, JobStatus.IDLE, ORDINARY, EMPTY) for proc in range(3)])
    queue.add_factory(cluster, '{"lines":[]}')
    queue.log(cluster, "/log", "000 ...\n")
    queue.leave(cluster.jobs[0], 1.5)
    batch, _ = queue.take()
    store.commit(connection, batch)
    return connection


def test_a_dump_makes_the_same_queue_again(tmp_path: Path) -> None:
    with closing(a_queue(tmp_path / "a")) as before:
        lines = list(backup.dump(before))
    assert backup.load(lines, tmp_path / "b") == json.loads(lines[-1])["rows"]
    with closing(store.open_queue(tmp_path / "b")) as after:
        assert list(backup.dump(after)) == lines
        assert backup.check(after) == []
        queue = JobQueue("ap", next_cluster=store.read_counter(after, "next_cluster", 1))
        queue.load(store.read_clusters(after), store.read_jobs(after), store.read_factories(after))
    assert (len(queue), queue.next_cluster) == (5, 3)
    assert queue.clusters[2].factory is not None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda lines: lines[:-1], "ends too early"),
        (lambda lines: lines[:5], "ends too early"),
        (lambda lines: [*lines[:4], *lines[5:]], "rows, and"),
        (lambda lines: [*lines, "{}\n"], "more after its end"),
        (lambda lines: ["{}\n", *lines[1:]], "line 1"),
        (lambda lines: [lines[0].replace("minipool-queue", "other"), *lines[1:]], "no dump"),
        (lambda lines: [lines[0].replace(f": {store.VERSION}", ": 99"), *lines[1:]], "newer minipool"),
        (lambda lines: [*lines[:3], "not json\n", *lines[3:]], "line 4"),
        (lambda lines: [lines[0], '{"table": "sqlite_master", "columns": ["name"]}\n'], "no table"),
        (lambda lines: [lines[0], '{"table": "jobs", "columns": ["x"]}\n'], "has no x"),
        (lambda lines: [*lines[:2], lines[2].replace("3", str(2**70)), *lines[3:]], "cannot be read: line"),
        (lambda lines: [], "ends too early"),
    ],
)
def test_a_dump_that_is_not_whole_makes_no_queue(tmp_path: Path, spoil: object, said: str) -> None:
    with closing(a_queue(tmp_path / "a")) as before:
        lines = list(backup.dump(before))
    with pytest.raises(UserError, match=said):
        backup.load(spoil(lines), tmp_path / "b")  # type: ignore[operator]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("b")) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("DELETE FROM clusters WHERE cluster = 1", "job 1.0 is of no cluster"),
        ("UPDATE clusters SET procs = 1 WHERE cluster = 1", "job 1.1 has an id"),
        ("UPDATE jobs SET status = 9 WHERE cluster = 1 AND proc = 2", "job 1.2 is in state 9"),
        ("UPDATE counters SET value = 2", "cluster 2 exists"),
        ("UPDATE clusters SET ad = 'x' WHERE cluster = 2", "the ad of cluster 2 cannot be read"),
        ('UPDATE jobs SET ad = \'{"A":{"x":"(("}}\' WHERE proc = 1', "the ad of job 1.1 cannot be read"),
    ],
)
def test_a_check_says_what_is_wrong(tmp_path: Path, spoil: str, said: str) -> None:
    with closing(a_queue(tmp_path / "a")) as connection:
        connection.execute(spoil)
        assert any(said in one for one in backup.check(connection))


def test_a_file_of_the_first_version_gets_what_came_later(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "a")
    first = files("pool.jobs.queue").joinpath("schema.sql").read_text()
    old.executescript(first + "PRAGMA user_version = 1;")
    old.execute("INSERT INTO counters VALUES ('next_cluster', 7)")
    old.commit()
    old.close()
    with closing(store.open_queue(tmp_path / "a")) as new:
        assert store.read_counter(new, "next_cluster", 1) == 7
        assert store.read_factories(new) == {}
        assert new.execute("PRAGMA user_version").fetchone() == (store.VERSION,)


def test_an_event_in_a_log_whose_name_is_no_text_is_dumped_too(tmp_path: Path) -> None:
    log, text = "/logs/\udcff", "000 (1.0.0) \udcfe\n"
    with closing(a_queue(tmp_path / "a")) as before:
        store.commit(before, store.WriteBatch(events=[store.EventRow(7, "ann", log, text)]))
        lines = list(backup.dump(before))
        stored = list(before.execute("SELECT * FROM events"))
    backup.load(lines, tmp_path / "b")
    with closing(store.open_queue(tmp_path / "b")) as after:
        assert store.EventRow(7, "ann", log, text) in store.read_events(after)
        assert list(after.execute("SELECT * FROM events")) == stored
