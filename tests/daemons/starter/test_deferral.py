"""Jobs that wait on their machine for the moment that they asked for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from daemons.starter.deferral import wait_for_moment
from pool.classad import ClassAd, expr
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobExecuting
from protocol.messages.starter import SuspendJob

from .bench import PATIENCE_S, bench


async def test_a_job_starts_at_its_moment_and_says_so_then() -> None:
    async with bench() as b:
        moment = int(time.time()) + 2
        activation = await b.run(b.job_ad("date +%s; sleep 1000", DeferralTime=moment, DeferralWindow=600))
        executing = await b.until(JobExecuting, activation)
        assert executing.at >= moment
        await b.stop(activation, StopHow.FAST)
        await b.ended(activation)
        said = (b.iwd / "out").read_text()
        assert not said or int(said) >= moment


async def test_an_expression_is_a_moment_too() -> None:
    job = ClassAd({"QDate": int(time.time()) - 60, "DeferralTime": expr("(QDate + 60)"), "DeferralWindow": 3600})
    assert await wait_for_moment(job, ClassAd()) is None


@pytest.mark.parametrize(("late_s", "window", "starts"), [(45, 3600, True), (500, 0, False), (500, 100, False)])
async def test_a_moment_that_has_passed_is_missed_beyond_the_window(late_s: int, window: int, starts: bool) -> None:
    async with bench() as b:
        job = b.job_ad(DeferralTime=int(time.time()) - late_s, DeferralWindow=window)
        end = await b.ended(await b.run(job))
        if starts:
            assert end.ending is Ending.EXITED
            return
        assert end.ending is Ending.HOLD
        assert end.ad.eval_int("HoldReasonCode") == 20
        assert end.ad.eval_str("HoldReason") == "Job missed deferred execution time"


async def test_what_is_no_moment_is_held() -> None:
    async with bench() as b:
        end = await b.ended(await b.run(b.job_ad(DeferralTime="noon")))
        assert (end.ending, end.ad.eval_int("HoldReasonCode")) == (Ending.HOLD, 20)


async def test_a_waiting_job_that_is_told_to_leave_leaves_without_having_run() -> None:
    async with bench() as b:
        activation = await b.run(b.job_ad("touch ran", DeferralTime=int(time.time()) + 3600))
        await b.stop(activation, StopHow.GRACEFUL, reason="held by its user", cause="hold")
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert not (b.iwd / "ran").exists()


async def test_a_waiting_job_that_is_suspended_waits_on_and_is_suspended_when_it_starts() -> None:
    # "exec": a shell that is stopped while it waits for its child to become a program looks as if it waited for a disk
    async with bench() as b:
        activation = await b.run(b.job_ad("exec sleep 1000", DeferralTime=int(time.time()) + 2, DeferralWindow=600))
        assert b.startd is not None
        await b.startd.call(SuspendJob(activation=activation))
        executing = await b.until(JobExecuting, activation)
        stat = Path(f"/proc/{executing.ad.eval_int('JobPid')}/stat")
        with trio.fail_after(PATIENCE_S):
            while stat.read_text().rpartition(")")[2].split()[0] != "T":
                await trio.sleep(0.01)
        await b.stop(activation, StopHow.FAST)
        assert (await b.ended(activation)).ending is Ending.EVICTED
