"""The table of a job's states."""

from __future__ import annotations

import pytest

from pool.jobs.vocabulary.states import EXECUTING, MOVES, OVER, IllegalJobMove, JobEvent, JobStatus, allowed, step


def test_the_numbers_are_htcondors() -> None:
    names = ("IDLE", "RUNNING", "REMOVED", "COMPLETED", "HELD", "TRANSFERRING_OUTPUT", "SUSPENDED")
    assert [JobStatus[name].value for name in names] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(("status", "event"), MOVES)
def test_every_move_of_the_table_leads_elsewhere(status: JobStatus, event: JobEvent) -> None:
    assert step(status, event) is not status


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_that_is_over_only_leaves(status: JobStatus) -> None:
    if status in OVER:
        assert {event for event in JobEvent if allowed(status, event)} <= {JobEvent.REMOVE}


@pytest.mark.parametrize("status", EXECUTING)
def test_whatever_executes_can_be_held_removed_requeued_and_completed(status: JobStatus) -> None:
    for event in (JobEvent.HOLD, JobEvent.REMOVE, JobEvent.REQUEUE, JobEvent.COMPLETE):
        assert allowed(status, event)


def test_a_move_that_is_not_in_the_table_is_refused_by_name() -> None:
    with pytest.raises(IllegalJobMove, match="idle cannot release"):
        step(JobStatus.IDLE, JobEvent.RELEASE)
