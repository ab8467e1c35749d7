"""Where many jobs run, the ads of those that changed last are at hand, and the others' are made again."""

from __future__ import annotations

from pool.classad import ClassAd
from pool.jobs.queue.at_hand import AdsAtHand
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.pack import EMPTY
from pool.jobs.vocabulary.priority import with_prio
from pool.jobs.vocabulary.states import JobStatus


def a_queue(count: int, most: int) -> tuple[JobQueue, list[Job]]:
    """So many jobs that run, of which so many have their ads at hand."""
    queue = JobQueue("schedd")
    queue._at_hand = AdsAtHand(most)
    cluster = Cluster(1, ClassAd({"Cmd": "/bin/true"}), user="ann@x", owner="ann")
    jobs = [Job(cluster, proc, JobStatus.IDLE, with_prio(0), EMPTY) for proc in range(count)]
    queue.add(cluster, jobs)
    queue.take()
    for job in jobs:
        queue.set_busy(job, True)
    return queue, jobs


def at_hand(jobs: list[Job]) -> list[int]:
    return [job.proc for job in jobs if job.has_ad]


def test_of_many_that_run_those_are_at_hand_that_changed_last() -> None:
    queue, jobs = a_queue(5, most=2)
    queue.take()
    assert at_hand(jobs) == [3, 4]
    queue.change(jobs[0], {"ImageSize": 7})
    queue.take()
    assert at_hand(jobs) == [0, 4]


def test_an_ad_that_is_made_again_says_all_that_was_changed() -> None:
    queue, jobs = a_queue(3, most=1)
    queue.change(jobs[0], {"ImageSize": 7, "RemoteHost": "slot1@host"})
    queue.take()
    queue.change(jobs[1], {"ImageSize": 8})
    queue.take()
    assert at_hand(jobs) == [1]
    ad = queue.ad(jobs[0])
    assert (ad.eval_int("ImageSize"), ad.eval_str("RemoteHost"), ad.eval_int("ProcId")) == (7, "slot1@host", 0)
    assert ad.eval_int("JobStatus") == 1


def test_what_is_not_written_yet_is_not_given_up() -> None:
    queue, jobs = a_queue(2, most=1)
    queue.take()
    queue.change(jobs[0], {"ImageSize": 7})
    queue.change(jobs[1], {"ImageSize": 8})
    _, touched = queue.take()
    assert set(touched) == set(jobs)
    assert '"ImageSize":7' in jobs[0].text


def test_a_job_that_has_left_keeps_its_ad_for_those_who_are_told() -> None:
    queue, jobs = a_queue(3, most=1)
    queue.leave(jobs[0], now=100.0)
    _, touched = queue.take()
    assert jobs[0] in touched
    assert jobs[0].has_ad


def test_an_execution_that_is_over_gives_its_ad_up() -> None:
    queue, jobs = a_queue(1, most=5)
    queue.take()
    assert at_hand(jobs) == [0]
    queue.set_busy(jobs[0], False)
    assert at_hand(jobs) == []
