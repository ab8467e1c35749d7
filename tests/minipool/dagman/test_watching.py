"""What the schedd tells of nodes' jobs, as events of the course."""

from __future__ import annotations

from minipool.dagman.watching import NodeJobs
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.dag.course import happenings as it
from pool.dag.course.states import LIMIT_LOWERED
from protocol.messages.schedd import JobDelta

IDLE, RUNNING, COMPLETED, HELD = 1, 2, 4, 5
JOB = JobId(7, 0)


def delta(left: bool = False, **attributes: object) -> JobDelta:
    return JobDelta(job_id=JOB, ad=ClassAd(dict(attributes)), left=left)


def of(jobs: NodeJobs, change: JobDelta) -> list[it.Event]:
    return [told.event for told in jobs.take(change)]


def known() -> NodeJobs:
    jobs = NodeJobs()
    jobs.belongs(7, 3, {0: IDLE})
    return jobs


def test_a_job_runs_is_held_is_released_and_ends() -> None:
    jobs = known()
    told = [
        *of(jobs, delta(JobStatus=RUNNING)),
        *of(jobs, delta(JobStatus=HELD, HoldReason="why")),
        *of(jobs, delta(JobStatus=IDLE)),
        *of(jobs, delta(left=True, JobStatus=COMPLETED, ExitCode=4)),
    ]
    kinds = [it.JobRuns, it.JobHeld, it.JobReleased, it.JobEnded]
    assert ([type(one) for one in told], told[-1]) == (kinds, it.JobEnded(3, 7, 0, 4))


def test_a_job_whose_run_nobody_saw_has_run_before_it_ended() -> None:
    told = of(known(), delta(left=True, JobStatus=COMPLETED, ExitBySignal=True, ExitSignal=9, NumJobStarts=1))
    assert ([type(one) for one in told], told[-1]) == ([it.JobRuns, it.JobEnded], it.JobEnded(3, 7, 0, None, 9))


def test_a_job_that_left_in_any_other_state_was_removed() -> None:
    assert of(known(), delta(left=True, JobStatus=3)) == [it.JobEnded(3, 7, 0)]


def test_a_job_that_a_lowered_limit_removed_is_known_for_that() -> None:
    told = of(known(), delta(left=True, JobStatus=3, RemoveReason=f"{LIMIT_LOWERED} (by user ann)"))
    assert told == [it.JobEnded(3, 7, 0, beyond_limit=True)]


def test_what_comes_before_the_answer_to_a_submission_waits_for_it() -> None:
    jobs = NodeJobs()
    assert of(jobs, delta(JobStatus=IDLE, DAGNodeName="A", TotalSubmitProcs=1)) == []
    assert of(jobs, delta(left=True, JobStatus=COMPLETED, ExitCode=0, DAGNodeName="A")) == []
    assert jobs.strange("A") == [7]
    assert [told.event for told in jobs.belongs(7, 3, {0: IDLE})] == [it.JobEnded(3, 7, 0, 0)]


def test_jobs_that_left_while_nobody_listened_are_missed_once_all_has_been_told() -> None:
    jobs = known()
    jobs.begin()
    assert jobs.gone() == [JOB]
    assert [told.event for told in jobs.leave([JOB], [])] == [it.JobEnded(3, 7, 0)]


def test_jobs_that_are_still_there_are_not_missed() -> None:
    jobs = known()
    jobs.begin()
    assert of(jobs, delta(JobStatus=IDLE)) == []
    assert jobs.gone() == []


def test_a_job_that_has_left_has_left_whatever_is_told_of_it_later() -> None:
    jobs = known()
    ended = delta(left=True, JobStatus=COMPLETED, ExitCode=1, NumJobStarts=1)
    assert it.JobEnded(3, 7, 0, 1) in of(jobs, ended)
    assert of(jobs, delta(JobStatus=COMPLETED, NumJobStarts=1)) == []
    assert of(jobs, ended) == []
