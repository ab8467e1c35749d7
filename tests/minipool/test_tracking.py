"""What a watch makes of connections that come and go, and when a wait is over."""

from __future__ import annotations

import pytest

from minipool.client.model import JobHeldWarning, Status, UnknownJob
from minipool.client.patience import RECONNECT_S, Attempts
from minipool.client.tracking import AwaitedJobs, Following
from pool.base.errors import PeerError
from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.schedd import JobDelta, JobsChanged
from protocol.rpc.remote import TimedOut


def delta(proc: int, status: Status, *, left: bool = False, **more: object) -> JobDelta:
    ad = ClassAd({"ClusterId": 1, "ProcId": proc, "JobStatus": status.value, **more})
    return JobDelta(job_id=JobId(1, proc), ad=ad, left=left)


def told(*deltas: JobDelta) -> JobsChanged:
    return JobsChanged(deltas=list(deltas), synced=True)


def test_a_new_connection_tells_only_what_is_news() -> None:
    following = Following()
    following.begin()
    following.take(told(delta(0, Status.RUNNING), delta(1, Status.RUNNING), delta(2, Status.IDLE)))
    following.begin()
    states = following.take(told(delta(0, Status.RUNNING), delta(2, Status.RUNNING)))
    assert [(state.id.proc, state.status) for state in states] == [(2, Status.RUNNING)]


def test_who_left_while_nobody_listened_is_told_by_the_history() -> None:
    following = Following()
    following.begin()
    following.take(told(delta(0, Status.RUNNING), delta(1, Status.RUNNING)))
    following.begin()
    assert following.gone == []  # nothing is known before all has been told
    following.take(told(delta(1, Status.RUNNING)))
    assert following.gone == [JobId(1, 0)]
    [state] = following.leave([delta(0, Status.COMPLETED, ExitCode=3).ad])
    assert (state.id, state.status, state.left, state.ad["ExitCode"]) == ((1, 0), Status.COMPLETED, True, 3)
    assert following.gone == []
    assert not following.over
    following.take(told(delta(1, Status.COMPLETED, left=True)))
    assert following.over


def test_a_job_that_even_the_history_has_lost_has_no_result() -> None:
    following, waiting = Following(), AwaitedJobs(["1.0"])
    following.begin()
    following.take(told(delta(0, Status.RUNNING)))
    following.begin()
    following.take(told())
    for state in following.leave([]):
        waiting.take(state)
    assert waiting.missing == [JobId(1, 0)]
    with pytest.raises(UnknownJob, match=r"job 1\.0"):
        waiting.settle([], [], [])


def test_a_cluster_is_waited_for_until_it_makes_no_more_jobs() -> None:
    waiting = AwaitedJobs([1])
    waiting.take_history([delta(0, Status.COMPLETED, ExitCode=0).ad])
    waiting.settle([ClassAd({"ClusterId": 1})], [], [])
    assert waiting.missing == [1]
    waiting.settle([], [delta(1, Status.RUNNING).ad], [])
    assert waiting.missing == [1]
    waiting.settle([], [], [delta(1, Status.REMOVED).ad])
    assert waiting.missing == []
    assert [result.id.proc for result in waiting.results] == [0, 1]


def test_a_job_on_hold_is_told_once_for_each_time() -> None:
    waiting, following = AwaitedJobs("1.0"), Following()

    def take(*statuses: Status) -> None:
        for status in statuses:
            for state in following.take(told(delta(0, status, HoldReason="no disk"))):
                waiting.take(state)

    with pytest.warns(JobHeldWarning, match=r"1\.0 is on hold: no disk") as warned:
        take(Status.HELD, Status.HELD, Status.IDLE, Status.HELD)
    assert len(warned) == 2
    assert waiting.unfinished(5) == "after 5 s these have not ended: 1.0; 1.0 is on hold: no disk"


def test_patience_ends_with_the_timeout_or_when_the_daemon_stays_away() -> None:
    error = PeerError("nobody answers")
    forever = Attempts(0, None)
    assert forever.pause(10, error) < forever.pause(11, error)
    with pytest.raises(PeerError, match="nobody answers"):
        forever.pause(10 + RECONNECT_S, error)
    forever.heard()
    assert forever.pause(10 + RECONNECT_S, error) == Attempts(0, None).pause(0, error)
    short = Attempts(0, 5)
    assert short.pause(4.95, error) == pytest.approx(0.05)
    with pytest.raises(TimedOut, match="within 5 s: nobody answers"):
        short.pause(5, error)
