"""The client's core by hand: the test is the shell, so that each step and each loss is where it wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minipool.client.core import JobCore, PoolCore
from minipool.client.model import JobState, Status
from minipool.client.patience import RECONNECT_S
from minipool.client.steps import (
    END,
    All,
    Begin,
    BeginOfCollector,
    Call,
    Connect,
    Next,
    Now,
    PoolClosed,
    Run,
    Sleep,
    Steps,
    Tell,
)
from minipool.client.submission import Queued, queue, queue_over
from pool.ads.seen import AdChange, SeenAds
from pool.base.errors import PeerError, PoolError
from pool.base.ids import JobId
from pool.classad import ClassAd
from protocol.messages.collector import AdDelta
from protocol.messages.common import AdBatch
from protocol.messages.schedd import Action, JobDelta, JobsChanged, QueryHistory, QueryJobs
from protocol.rpc.remote import ConnectionLost, RemoteError, TimedOut

POOL = PoolCore(None)  # type: ignore[arg-type]  # nothing here looks for a daemon
LOST = ConnectionLost("the line is cut")


def an_ad(**attributes: object) -> AdDelta:
    return AdDelta(change=AdChange.UPDATE, ad_type="Machine", name="a", ad=ClassAd(attributes))


SYNCED = AdDelta(change=AdChange.SYNCED, generation="one", at=1, settled=False)


class Shell:
    """Performs steps: `answers` are taken in turn for all but the clock and connecting; errors are raised."""

    def __init__(self, *answers: Any, connect: Callable[[], None] = lambda: None) -> None:
        self.answers, self.connect = list(answers), connect
        self.now = 0.0
        self.done: list[type] = []
        self.requests: list[Any] = []
        self.told: list[Any] = []

    def perform(self, steps: Steps[Any]) -> Any:
        """The result, or what the core raises."""
        run = Run(steps)
        while run.step is not None:
            try:
                answer = self._do(run.step)
            except PoolError as error:
                run.fail(error)
            else:
                run.answer(answer)
        return run.result

    def _do(self, step: Any) -> Any:
        match step:
            case Now():
                return self.now
            case Sleep(seconds=seconds):
                self.now += seconds
                return None
            case Connect():
                return self.connect()
            case Tell(value=value):
                return self.told.append(value)  # type: ignore[func-returns-value]
        self.done.append(type(step))
        if isinstance(step, Call | All | Begin | BeginOfCollector):
            self.requests.append(step.request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def changed(*states: int, synced: bool = True, left: bool = False) -> JobsChanged:
    deltas = [JobDelta(job_id=JobId(7, proc), ad=ClassAd({"JobStatus": s}), left=left) for proc, s in enumerate(states)]
    return JobsChanged(deltas=deltas, synced=synced)


def test_a_query_is_asked_again_when_its_connection_is_lost() -> None:
    shell = Shell(LOST, [AdBatch(ads=[ClassAd({"A": 1})])])
    assert [ad["A"] for ad in shell.perform(POOL.jobs())] == [1]
    assert shell.done == [All, All]
    assert shell.now > 0


def test_what_changes_something_is_sent_once() -> None:
    shell = Shell(LOST)
    with pytest.raises(ConnectionLost, match="the line is cut"):
        shell.perform(POOL.act(Action.REMOVE, "7.0"))
    assert shell.done == [Call]


def test_a_schedd_that_is_gone_is_looked_for_as_long_as_there_is_patience() -> None:
    def gone() -> None:
        raise PeerError("nobody is there")

    for_long, in_time = Shell(connect=gone), Shell(connect=gone)
    with pytest.raises(PeerError, match="nobody is there"):
        for_long.perform(POOL.jobs())
    assert RECONNECT_S <= for_long.now < RECONNECT_S + 5
    with pytest.raises(TimedOut, match="nothing was answered within 3 s"):
        in_time.perform(POOL.jobs(timeout=3))
    assert in_time.now == 3


def test_a_schedd_that_ends_each_answer_at_once_is_not_asked_for_ever() -> None:
    shell = Shell(*["begun", END] * 500)
    with pytest.raises(ConnectionLost, match="has ended its answer"):
        shell.perform(POOL.watch(7))
    assert RECONNECT_S <= shell.now < RECONNECT_S + 5


def test_a_pool_that_was_closed_is_not_looked_for() -> None:
    def closed() -> None:
        raise PoolClosed

    shell = Shell(connect=closed)
    with pytest.raises(PoolClosed):
        shell.perform(POOL.jobs())
    assert shell.now == 0


def test_a_watch_goes_on_and_tells_what_left_meanwhile() -> None:
    ended = ClassAd({"ClusterId": 7, "ProcId": 1, "JobStatus": Status.COMPLETED.value})
    shell = Shell(
        "first", changed(2, 2), LOST, "second", changed(2), [AdBatch(ads=[ended])], changed(4, left=True), END
    )
    shell.perform(POOL.watch(7, forever=False))
    steps: list[type] = [Begin, Next, Next, Begin, Next, All, Next]
    assert shell.done == steps
    assert [type(one) for one in shell.requests[1:]] == [type(shell.requests[0]), QueryHistory]
    assert shell.requests[2].select.ids == ["7.1"]
    running, done = Status.RUNNING, Status.COMPLETED
    seen = [(state.id.proc, state.status, state.left) for state in shell.told if isinstance(state, JobState)]
    assert seen == [(0, running, False), (1, running, False), (1, done, True), (0, done, True)]


def test_a_job_is_looked_for_in_the_queue_and_then_in_the_history() -> None:
    shell = Shell([], [AdBatch(ads=[ClassAd({"JobStatus": 4})])])
    assert shell.perform(JobCore(POOL, JobId(7, 0)).status()) is Status.COMPLETED
    assert [type(one) for one in shell.requests] == [QueryJobs, QueryHistory]


def test_a_plan_without_jobs_asks_the_schedd_nothing() -> None:
    class Nothing:
        count = 0
        warnings = ("odd",)

        def unused(self) -> list[str]:
            return ["unused"]

    class Peer:
        def call(self, *_: object, **__: object) -> None:
            raise AssertionError("the schedd was asked")

    queued: Queued = queue_over(Peer(), queue(Nothing()))  # type: ignore[arg-type]
    assert (queued.jobs, queued.warnings) == (0, ["odd", "unused"])


def test_a_watch_of_ads_goes_on_where_it_was_and_tells_nothing_twice() -> None:
    refused = RemoteError("no such attribute", code="UserError")
    shell = Shell(
        "stream", an_ad(Memory=1), SYNCED, LOST,
        PeerError("nobody answers"),
        "stream", an_ad(Memory=1), SYNCED, END,
        "stream", AdDelta(change=AdChange.CHANGE, ad_type="Machine", name="b"),
        "stream", an_ad(Memory=2), SYNCED, refused,
    )  # fmt: skip
    seen = SeenAds()
    with pytest.raises(RemoteError, match="no such attribute"):
        shell.perform(POOL.watch_ads("Machine", seen=seen))
    assert [(news.ad["Memory"], news.before is None) for news in shell.told] == [(1, True), (2, False)]
    assert [request.resume for request in shell.requests] == ["", "one.1", "one.1", "one.1", "-"]
    assert seen.get("Machine", "a") == ClassAd({"Memory": 2})


def test_a_collector_that_does_not_come_back_ends_a_watch_of_ads() -> None:
    shell = Shell(*[PeerError("nobody answers")] * 1000)
    with pytest.raises(PeerError, match="nobody answers"):
        shell.perform(POOL.watch_ads())
    assert RECONNECT_S <= shell.now < RECONNECT_S + 10
