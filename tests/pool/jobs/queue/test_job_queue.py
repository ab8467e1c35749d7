"""The queue in memory, its batches, and what a restart finds on disk."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pool.base.errors import ConfigError
from pool.base.ids import JobId
from pool.classad import UNDEFINED, ClassAd, expr
from pool.jobs.queue import history, store
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.history import HistoryReader
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import pack, read_packed
from pool.jobs.queue.store import ClaimRow, ClaimWork
from pool.jobs.vocabulary.own_attributes import MADE_UP
from pool.jobs.vocabulary.priority import ORDINARY
from pool.jobs.vocabulary.states import IllegalJobMove, JobEvent, JobStatus

NOW = 1_700_000_000.0


def a_cluster(number: int = 1, **attributes: object) -> Cluster:
    ad = ClassAd(
        {"ClusterId": number, "Owner": "ann", "User": "ann@here", "QDate": int(NOW), "JobPrio": 0, **attributes}
    )
    return Cluster(number, ad, user="ann@here", owner="ann")


def a_queue(count: int = 2, *, name: str = "ap") -> JobQueue:
    queue = JobQueue(name)
    cluster = a_cluster(queue.new_id())
    queue.add(
        cluster, [Job(cluster, n, JobStatus.IDLE, ORDINARY, pack(ClassAd({"Args": str(n)}))) for n in range(count)]
    )
    return queue


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = store.open_queue(tmp_path / "queue.sqlite")
    yield connection
    connection.close()


def reloaded(connection: sqlite3.Connection) -> JobQueue:
    queue = JobQueue("ap", next_cluster=store.read_counter(connection, "next_cluster", 1))
    queue.load(store.read_clusters(connection), store.read_jobs(connection))
    return queue


def save(queue: JobQueue, connection: sqlite3.Connection) -> None:
    batch, _ = queue.take()
    store.commit(connection, batch)


def job(queue: JobQueue, text: str) -> Job:
    found = queue.get(JobId.parse(text))
    assert found is not None
    return found


def test_an_ad_is_its_clusters_with_what_differs_and_what_follows() -> None:
    queue = a_queue()
    ad = queue.ad(job(queue, "1.1"))
    assert (ad["ProcId"], ad["Args"], ad["Owner"], ad["JobStatus"]) == (1, "1", "ann", 1)
    assert ad["GlobalJobId"] == f"ap#1.1#{int(NOW)}"


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        True,
        "text \"'\\ é \udcff",
        UNDEFINED,
        [1, "a"],
        ClassAd({"a": 1}),
        expr("a + 1"),
        expr('strcat("x", Args)'),
    ],
)
def test_every_value_survives_its_packing(value: object) -> None:
    ad = ClassAd({"X": value})
    assert pack(ad).unpack() == ad


def test_a_restart_finds_what_was_committed_and_nothing_else(connection: sqlite3.Connection) -> None:
    queue = a_queue(3)
    queue.move(job(queue, "1.2"), JobEvent.HOLD, NOW)
    queue.change(job(queue, "1.1"), {"JobPrio": 7, "Note": expr("ProcId + 1")})
    save(queue, connection)
    queue.change(job(queue, "1.0"), {"Lost": True})
    again = reloaded(connection)
    assert [str(found.id) for found in again.jobs()] == ["1.0", "1.1", "1.2"]
    assert [again.ad(found) for found in again.jobs()][1:] == [queue.ad(found) for found in queue.jobs()][1:]
    assert "Lost" not in again.ad(job(again, "1.0"))
    assert (again.counts[JobStatus.IDLE], again.counts[JobStatus.HELD]) == (2, 1)
    assert job(again, "1.1").priority.prio == 7
    assert again.new_id() == 2


def test_cluster_ids_are_never_given_twice(connection: sqlite3.Connection) -> None:
    queue = a_queue(1)
    queue.move(job(queue, "1.0"), JobEvent.REMOVE, NOW)
    queue.leave(job(queue, "1.0"), NOW)
    save(queue, connection)
    again = reloaded(connection)
    assert len(again) == 0
    assert again.new_id() == 2


def test_a_batch_is_committed_whole_or_not_at_all(connection: sqlite3.Connection) -> None:
    queue = a_queue()
    batch, _ = queue.take()
    connection.execute("DROP TABLE history")
    bad = store.WriteBatch(
        clusters=batch.clusters, jobs=batch.jobs, history=[store.HistoryRow(1, 0, "ann", 4, NOW, "{}")]
    )
    with pytest.raises(sqlite3.Error):
        store.commit(connection, bad)
    assert list(store.read_jobs(connection)) == []
    store.commit(connection, batch)
    assert len(list(store.read_jobs(connection))) == 2


def test_a_jobs_end_is_one_batch_with_its_history_and_its_event(connection: sqlite3.Connection) -> None:
    queue = a_queue()
    done = job(queue, "1.0")
    queue.move(done, JobEvent.START, NOW)
    save(queue, connection)
    queue.move(done, JobEvent.COMPLETE, NOW)
    queue.log(done.cluster, "/log", "005 ...\n")
    queue.leave(done, NOW)
    batch, touched = queue.take()
    assert ([row.status for row in batch.history], len(batch.events), batch.jobs_gone) == ([4], 1, [(1, 0)])
    assert touched == {done: None}
    store.commit(connection, batch)
    assert [row.text for row in store.read_events(connection)] == ["005 ...\n"]
    queue.written([batch.events[0].seq])
    save(queue, connection)
    assert store.read_events(connection) == []
    assert not queue.dirty


def test_a_batch_names_what_changed() -> None:
    queue = a_queue()
    queue.take()
    one = job(queue, "1.0")
    queue.change(one, {"A": 1})
    queue.move(one, JobEvent.HOLD, NOW)
    _, touched = queue.take()
    assert touched == {one: {"A", "JobStatus", "LastJobStatus", "EnteredCurrentStatus"}}
    assert queue.take()[1] == {}


def test_dropping_an_attribute_uncovers_nothing() -> None:
    queue = a_queue()
    one = job(queue, "1.0")
    queue.change(one, {"A": 1}, drop=["Args", "NoSuch"])
    assert "Args" not in queue.ad(one)
    queue.change(one, {}, drop=["JobPrio"])
    assert queue.ad(one)["JobPrio"] is UNDEFINED


def test_events_for_names_that_are_no_utf_8_are_kept(connection: sqlite3.Connection) -> None:
    queue = a_queue()
    row = queue.log(queue.clusters[1], "/tmp/a\udc80", "é\udcff\n")
    store.commit(connection, queue.take()[0])
    assert store.read_events(connection) == [row]


def test_nobody_changes_whose_a_job_is() -> None:
    queue = a_queue()
    one = job(queue, "1.0")
    queue.change(one, {"oWner": "bob", "User": "bob@here", "OsUser": "bob", "JobStatus": 4, "A": 1}, drop=["ClusterId"])
    queue.change_cluster(one.cluster, {"Owner": "bob", "OsUser": "bob", "NTDomain": "x"})
    ad = queue.ad(one)
    assert (ad["Owner"], ad["User"], ad["JobStatus"], ad["A"], ad["ClusterId"]) == ("ann", "ann@here", 1, 1, 1)
    assert "OsUser" not in ad
    assert "NTDomain" not in ad


def test_what_an_older_version_let_jobs_say_is_taken_out_at_a_start() -> None:
    queue = JobQueue("ap")
    old = ClassAd({"ClusterId": 1, "Owner": "bob", "User": "ann@here", "OsUser": "bob", "Cmd": "/x", "QDate": 7})
    row = store.ClusterRow(1, 1, "ann@here", "ann", 2, pack(old).text)
    mine = [pack(ClassAd({"owner": "bob", "osuser": "bob", "Args": "1"})).text, pack(ClassAd({"Args": "2"})).text]
    queue.load([row], [(1, proc, 1, 0, packed) for proc, packed in enumerate(mine)])
    for proc, ad in enumerate(map(queue.ad, queue.jobs())):
        assert (ad["Owner"], ad["User"], ad["Args"]) == ("ann", "ann@here", str(proc + 1))
        assert "OsUser" not in ad


def test_a_move_that_cannot_be_changes_nothing() -> None:
    queue = a_queue()
    with pytest.raises(IllegalJobMove):
        queue.move(job(queue, "1.0"), JobEvent.RELEASE, NOW)
    assert queue.counts[JobStatus.IDLE] == 2


def test_claims_are_kept_with_what_they_run(connection: sqlite3.Connection) -> None:
    queue = a_queue()
    row = ClaimRow(
        "<a>#1#2#...", "digest", "<a>", "ann@here", "ann", "{}", "its", "files", 2400.0, 300.0, NOW, None, None, ""
    )
    queue.put_claim(row)
    queue.claim_works(ClaimWork(1, 0, "act", NOW + 5, 600.0, row.claim))
    save(queue, connection)
    (found,) = store.read_claims(connection)
    assert (found.cluster, found.proc, found.activation, found.renewed_at, found.lease_s) == (
        1,
        0,
        "act",
        NOW + 5,
        600.0,
    )
    queue.drop_claim(row.claim)
    save(queue, connection)
    assert store.read_claims(connection) == []


def test_a_newer_schema_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    connection = store.open_queue(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="newer minipool"):
        store.open_queue(path)


def test_p1_what_was_committed_survives_a_copy_of_the_files_at_that_moment(tmp_path: Path) -> None:
    """What a power cut leaves: the files as they were synced, with no word from the process that had them open."""
    connection = store.open_queue(tmp_path / "queue.sqlite")
    save(a_queue(5), connection)
    other = tmp_path / "after"
    other.mkdir()
    for file in tmp_path.glob("queue.sqlite*"):
        if not file.name.endswith("-shm"):
            (other / file.name).write_bytes(file.read_bytes())
    survivor = store.open_queue(other / "queue.sqlite")
    assert len(reloaded(survivor)) == 5
    survivor.close()
    connection.close()


def test_ten_thousand_idle_jobs_take_less_than_eight_megabytes() -> None:
    queue = JobQueue("ap")
    cluster = a_cluster()
    tracemalloc.start()
    try:
        own = [ClassAd({"Args": f"--seed {n} in.{n}.dat", "Out": f"out.{n}", "Err": f"err.{n}"}) for n in range(10_000)]
        jobs = [Job(cluster, n, JobStatus.IDLE, ORDINARY, pack(ad, MADE_UP)) for n, ad in enumerate(own)]
        queue.add(cluster, jobs)
        queue.take()
        del own, jobs
        assert tracemalloc.get_traced_memory()[0] < 8_000_000
    finally:
        tracemalloc.stop()


def finished(connection: sqlite3.Connection, count: int) -> JobQueue:
    queue = a_queue(count)
    for one in list(queue.jobs()):
        queue.move(one, JobEvent.REMOVE, NOW)
        queue.leave(one, NOW)
        save(queue, connection)
    return queue


def test_history_is_read_in_pages_newest_first(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ROWS_PER_PAGE", 2)
    finished(connection, 5)
    reader = HistoryReader(connection, "ap")
    procs, after = [], None
    while True:
        page = reader.page(after)
        procs += [ad["ProcId"] for ad in page.ads]
        after = page.next_seq
        if after is None:
            break
    assert procs == [4, 3, 2, 1, 0]
    assert [ad["ProcId"] for ad in reader.page(forwards=True).ads] == [0, 1]
    (ad,) = reader.page(cluster=1, proc=3).ads
    assert (ad["Args"], ad["Owner"], ad["JobStatus"], ad["GlobalJobId"]) == ("3", "ann", 3, f"ap#1.3#{int(NOW)}")
    assert reader.page(owner="bob").ads == []


def test_a_clusters_history_is_read_in_pages_in_both_directions(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "ROWS_PER_PAGE", 2)
    finished(connection, 5)
    reader = HistoryReader(connection, "ap")
    for forwards, expected in ((False, [4, 3, 2, 1, 0]), (True, [0, 1, 2, 3, 4])):
        page = reader.page(cluster=1, forwards=forwards)
        procs = [ad["ProcId"] for ad in page.ads]
        while page.next_seq is not None:
            page = reader.page(page.next_seq, cluster=1, forwards=forwards)
            procs += [ad["ProcId"] for ad in page.ads]
        assert procs == expected


@pytest.mark.parametrize("wanted", [{"cluster": 1}, {"cluster": 1, "proc": 3}, {"owner": "bob"}])
@pytest.mark.parametrize("after", [None, 3])
def test_the_history_of_one_job_cluster_or_owner_is_found_by_an_index(
    connection: sqlite3.Connection, wanted: dict[str, Any], after: int | None
) -> None:
    finished(connection, 5)
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    HistoryReader(connection, "ap").page(after, **wanted)
    connection.set_trace_callback(None)
    (query,) = (text for text in asked if "FROM history" in text)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()]
    assert any("history_by_" in step for step in plan), plan
    assert not any("SCAN history" in step for step in plan), plan


def test_old_history_is_forgotten_with_its_clusters(connection: sqlite3.Connection) -> None:
    finished(connection, 5)
    assert sum(history.prune(connection, 2)) == 3
    assert sum(history.prune(connection, 0)) == 2
    assert connection.execute("SELECT count(*) FROM clusters").fetchone() == (0,)
    assert sum(history.prune(connection, 0)) == 0


def test_history_is_forgotten_in_steps_between_which_others_commit(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "ROWS_PER_STEP", 2)
    finished(connection, 5)
    beside = store.open_beside(store.file_of(connection))
    forgot = []
    for number, gone in enumerate(history.prune(beside, 0)):
        store.commit(connection, store.WriteBatch(next_cluster=number))
        forgot.append(gone)
    assert forgot == [2, 2, 1, 0]
    assert connection.execute("SELECT count(*) FROM clusters").fetchone() == (0,)
    beside.close()


@pytest.mark.parametrize(
    "text",
    ['f("tail\\\\", 2)', '"a\\\\" <= "b"', "5 .X", 'relTime("24855+03:14:08") + 0', "'a b' + 1", '{ "x\\ny", A }'],
)
def test_every_expression_that_is_packed_can_be_unpacked(text: str) -> None:
    ad = ClassAd({"Foo": expr(text)})
    assert pack(ad).unpack().new() == ad.new()


def test_expressions_of_older_queues_are_read_in_the_long_form() -> None:
    assert read_packed('{"Foo":{"x":"strcat(\\"a\\\\b\\")"}}').unpack().new() == '[ Foo = strcat("a\\\\b") ]'


def test_what_an_owner_has_is_counted_as_it_comes_grows_and_goes() -> None:
    queue = JobQueue("here")
    cluster = Cluster(1, ClassAd({"Cmd": "/bin/true"}), user="alice@p", owner="alice")
    jobs = [Job(cluster, proc, JobStatus.IDLE, ORDINARY, pack(ClassAd({"Args": "x" * 1000}))) for proc in range(3)]
    queue.add(cluster, jobs)
    begun = queue.bytes_of["alice"]
    assert begun > 3000
    queue.change(jobs[0], {"Fat": "y" * 5000})
    assert queue.bytes_of["alice"] == begun + 5000
    queue.take()
    assert begun + 5000 < queue.bytes_of["alice"] < begun + 5500
    queue.change(jobs[1], {"Fat": "y" * 5000})
    for job in jobs:
        queue.leave(job, 1.0)
    queue.take()
    assert queue.bytes_of["alice"] == 0


ROW = ClaimRow("c", "d", "startd", "ann", "ann", "{}", "t", "f", 1.0, 1.0, 0.0, None, None, "")
CHANGES: dict[str, Callable[[JobQueue], object]] = {
    "add": lambda queue: queue.add(a_cluster(queue.new_id()), []),
    "change": lambda queue: queue.change(job(queue, "1.0"), {"A": 1}),
    "move": lambda queue: queue.move(job(queue, "1.0"), JobEvent.HOLD, NOW),
    "leave": lambda queue: queue.leave(job(queue, "1.0"), NOW),
    "change_cluster": lambda queue: queue.change_cluster(queue.clusters[1], {"A": 1}),
    "add_factory": lambda queue: queue.add_factory(queue.clusters[1], "recipe"),
    "end_factory": lambda queue: queue.end_factory(queue.clusters[1]),
    "log": lambda queue: queue.log(queue.clusters[1], "/log", "text"),
    "log_overall": lambda queue: queue.log_overall("/log", "text"),
    "put_claim": lambda queue: queue.put_claim(ROW),
    "claim_works": lambda queue: queue.claim_works(ClaimWork(1, 0, "a", 0.0, 0.0, "c")),
}
NOTES: dict[str, Callable[[JobQueue], object]] = {
    "written": lambda queue: queue.written([1]),
    "drop_claim": lambda queue: queue.drop_claim("c"),
    "note": lambda queue: queue.note(job(queue, "1.0"), {"B": 2}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_its_first_change_after_each_batch_is_told(change: str) -> None:
    queue = a_queue()
    queue.take()
    told: list[bool] = []
    queue.on_change(lambda: told.append(True))
    CHANGES[change](queue)
    queue.log(queue.clusters.get(1) or a_cluster(), "/log", "one more")
    assert (told, queue.dirty) == ([True], True)
    queue.take()
    assert not queue.dirty
    queue.log(queue.clusters.get(1) or a_cluster(), "/log", "another")
    assert told == [True, True]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_told_and_waits_for_the_next_change(note: str) -> None:
    queue = a_queue()
    queue.take()
    told: list[bool] = []
    queue.on_change(lambda: told.append(True), lambda: told.append(False))
    NOTES[note](queue)
    queue.written([2])
    assert (told, queue.dirty, queue.has_notes) == ([False], False, True)
    queue.change(job(queue, "1.0"), {"A": 1})
    assert (told, queue.dirty) == ([False, True], True)
    batch, _ = queue.take()
    assert batch.jobs
    assert (2,) in batch.events_written
    assert not queue.dirty
    assert not queue.has_notes


def test_history_that_cannot_be_forgotten_leaves_no_transaction_open(connection: sqlite3.Connection) -> None:
    finished(connection, 5)
    connection.execute("CREATE TRIGGER full BEFORE DELETE ON clusters BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(sqlite3.IntegrityError, match="disk full"):
        list(history.prune(connection, 0))
    store.commit(connection, store.WriteBatch(next_cluster=9))
    assert store.read_counter(connection, "next_cluster", 1) == 9
