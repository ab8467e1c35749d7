"""Jobs' lives in a real schedd, with everything around it faked, on a virtual clock."""

from __future__ import annotations

import itertools
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing

from pool.classad import ClassAd, expr
from pool.jobs.queue.job_queue import JobQueue
from pool.jobs.queue.store import ClaimWork
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.offers import ClaimChange
from protocol.messages.schedd import Action, Outcome
from protocol.rpc.endpoints import RemoteError
from protocol.security.ticket import digest_of
from tests.daemons import one_host
from tests.daemons.schedd.bench import LOG, USER, a_bench, a_job

Clock = trio.testing.MockClock


async def test_a_job_runs_and_leaves_log_and_history(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=10, ExitWith=3))
        await bench.until_events("1.0", [0])
        assert await bench.match(startd) == 1
        await bench.until_status(running=1)
        ad = (await bench.ads())["1.0"]
        assert (ad["Owner"], ad["RemoteHost"], ad["NumShadowStarts"]) == (USER, "slot1@one", 1)
        await bench.until_status()
        (done,) = await bench.history()
        assert (done["JobStatus"], done["ExitCode"], done["NumJobStarts"]) == (4, 3, 1)
        await bench.until_events("1.0", [0, 1, 5])
        await bench.until(lambda: len(startd.released) == 1)
        assert bench.announced is not None


async def test_a_claim_takes_one_job_after_another(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1), *[{"Args": str(n)} for n in range(5)])
        await bench.match(startd)
        await bench.until_status()
        assert [str(order.job_id) for order in startd.orders] == [f"1.{n}" for n in range(5)]
        assert len({order.claim_id for order in startd.orders}) == 1
        assert len({order.activation for order in startd.orders}) == 5
        await bench.until(lambda: len(startd.released) == 1)


async def test_the_higher_priority_runs_first(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1), {"JobPrio": 0}, {"JobPrio": 5}, {"JobPrio": -5})
        await bench.match(startd)
        await bench.until_status()
        assert [str(order.job_id) for order in startd.orders] == ["1.1", "1.0", "1.2"]


async def test_matches_too_many_are_handed_back(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd(slots=4)
        await bench.submit(a_job(RunsFor=100), {}, {})
        assert await bench.match(startd) == 2
        await bench.until(lambda: len(bench.returned) == 2)


async def test_dollar_macros_are_expanded_for_the_slot(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=100), {"Args": "on $$(OpSys)"})
        await bench.match(startd)
        await bench.until(lambda: bool(startd.orders))
        assert startd.orders[0].job_ad["Args"] == "on LINUX"
        assert (await bench.ad("1.0"))["Args"] == "on $$(OpSys)"
        assert (await bench.ad("1.0"))["MATCH_EXP_Args"] == "on LINUX"


async def test_a_macro_that_cannot_be_expanded_holds_the_job_and_the_next_runs(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(), {"Args": "$$(NoSuch)"}, {"Args": "fine"})
        await bench.match(startd)
        await bench.until_status(held=1)
        assert (await bench.ad("1.0"))["HoldReason"] == "Cannot expand $$ expression (NoSuch)."
        await bench.until_events("1.1", [0, 1, 5])


# ---- what users do


async def test_hold_and_release_of_an_idle_job(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job())
        assert await bench.act(Action.HOLD, "1.0", reason="wait", subcode=42) == [Outcome.DONE]
        ad = await bench.ad("1.0")
        assert (ad["HoldReason"], ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == (f"wait (by user {USER})", 1, 42)
        assert await bench.act(Action.HOLD, "1.0") == [Outcome.ALREADY_DONE]
        await bench.until(lambda: bench.announced is None or not bench.announced.requests)
        assert await bench.act(Action.RELEASE, "1.0") == [Outcome.DONE]
        assert await bench.act(Action.RELEASE, "1.0") == [Outcome.BAD_STATUS]
        await bench.until_events("1.0", [0, 12, 13])


async def test_a_running_job_leaves_its_slot_to_be_held(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        assert await bench.act(Action.HOLD, "1") == [Outcome.DONE]
        assert (await bench.statuses()) == {JobStatus.HELD: 1}
        await bench.until_events("1.0", [0, 1, 4, 12])
        assert await bench.act(Action.RELEASE, "1.0") == [Outcome.DONE]
        await bench.match(startd)
        await bench.until_status(running=1)
        assert (await bench.ad("1.0"))["NumShadowStarts"] == 2


async def test_p2_a_job_released_at_once_starts_again_only_when_it_has_left(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd(slots=2)
        await bench.submit(a_job(RunsFor=1e6, Stubborn=True))
        await bench.match(startd, 1)
        await bench.until_events("1.0", [0, 1])
        (running,) = startd.running.values()
        await bench.act(Action.HOLD, "1.0")
        await bench.act(Action.RELEASE, "1.0")
        assert (await bench.statuses()) == {JobStatus.IDLE: 1}
        await trio.sleep(100)
        assert bench.announced is not None
        assert bench.announced.requests == []  # it still has a slot, and wants no other
        running.stopped.set()
        await bench.until(lambda: bench.events("1.0")[:5] == [0, 1, 12, 13, 4])
        await bench.until(lambda: len(startd.orders) == 2)  # the same claim takes it again


async def test_removal(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6), {}, {})
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        assert await bench.act(Action.REMOVE, "1", "7", "7.7") == [Outcome.DONE, Outcome.DONE, Outcome.NOT_FOUND]
        await bench.until_status()
        await bench.until_events("1.0", [0, 1, 4, 9])
        await bench.until_events("1.1", [0, 9])
        assert {ad["JobStatus"] for ad in await bench.history()} == {3}
        assert await bench.act(Action.REMOVE, "1.0") == [Outcome.NOT_FOUND]


async def test_a_removed_job_whose_slot_is_silent_can_be_forgotten_by_force(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6, JobLeaseDuration=100_000))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        await startd.vanish()
        assert await bench.act(Action.REMOVE_X, "1.0") == [Outcome.BAD_STATUS]
        await bench.act(Action.REMOVE, "1.0")
        assert (await bench.statuses()) == {JobStatus.REMOVED: 1}
        assert await bench.act(Action.REMOVE_X, "1.0") == [Outcome.DONE]
        await bench.until_status()
        await bench.until(lambda: bench.events("1.0")[-1] == 9)


async def test_vacated_jobs_run_again(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6))
        assert await bench.act(Action.VACATE, "1.0") == [Outcome.BAD_STATUS]
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        assert await bench.act(Action.VACATE, "1.0") == [Outcome.DONE]
        await bench.until_events("1.0", [0, 1, 4, 1])
        assert (await bench.ad("1.0"))["VacateReasonCode"] == 1004


async def test_p10_only_the_owner_and_administrators_change_a_job(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job())
        for action in (Action.HOLD, Action.REMOVE):
            assert await bench.act(action, "1.0", user="bin") == [Outcome.PERMISSION_DENIED]
        assert (await bench.statuses()) == {JobStatus.IDLE: 1}
        assert await bench.act(Action.REMOVE, "1.0", user="root") == [Outcome.DONE]


# ---- policy


async def test_periodic_policy_acts_on_idle_and_running_jobs(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6, PeriodicHold=expr("time() - JobCurrentStartDate > 100")))
        await bench.match(startd)
        await bench.submit(a_job(PeriodicRemove=expr("time() - QDate > 100")))
        await bench.until_status(held=1)
        await bench.until_events("1.0", [0, 1, 4, 12])
        assert (await bench.ad("1.0"))["HoldReasonCode"] == 3
        await bench.until_events("2.0", [0, 9])


@pytest.mark.parametrize(
    ("policy", "held"),
    [
        ({"PeriodicHold": expr("Bad =?= true")}, {3, 20}),
        ({"PeriodicHold": expr("Threshold < Size"), "Size": 4, "Threshold": 9}, {7}),
        ({"PeriodicHold": expr("ProcId >= 35")}, {35, 36, 37, 38, 39, 40}),
        ({"PeriodicHold": expr("time() - QDate > 100")}, set(range(41))),
        ({"PeriodicHold": expr("random(2) == 5")}, set()),
        ({"CronHour": "3"}, {30}),
        ({}, {30}),
    ],
)
async def test_policy_is_asked_for_each_job_that_may_differ(
    tmp_path: Path, autojump_clock: Clock, policy: dict[str, object], held: set[int]
) -> None:
    async with a_bench(tmp_path) as bench:
        rows: list[dict[str, object]] = [{"Args": f"{n}"} for n in range(41)]
        rows[3]["Bad"] = rows[20]["Bad"] = True
        rows[7]["Threshold"] = 1
        if held == {30}:
            rows[30]["PeriodicHold"] = expr("QDate > 0")
        await bench.submit(a_job(**policy), *rows)
        await trio.sleep(200)
        found = {ad["ProcId"] for ad in (await bench.ads()).values() if ad["JobStatus"] == JobStatus.HELD}
        assert found == held


async def test_on_exit_policy_runs_a_job_again(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1, ExitWith=1, OnExitRemove=expr("NumJobStarts >= 3")))
        await bench.match(startd)
        await bench.until_status()
        await bench.until_events("1.0", [0, 1, 4, 1, 4, 1, 5])


async def test_leave_in_queue_keeps_the_job_until_it_says_otherwise(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(LeaveJobInQueue=expr("time() - CompletionDate < 1000")))
        await bench.match(startd)
        await bench.until_status(completed=1)
        assert await bench.history() == []
        await bench.until_status()
        assert len(await bench.history()) == 1


async def test_leave_in_queue_keeps_removed_jobs_until_they_are_removed_by_force(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(
            a_job(RunsFor=1000, LeaveJobInQueue=True, Requirements=expr("Runs")), {"Runs": True}, {"Runs": False}
        )
        await bench.match(startd, 1)
        await bench.until_status(running=1, idle=1)
        await bench.act(Action.REMOVE, "1")
        await bench.until_status(removed=2)
        await bench.restart()
        assert set((await bench.statuses()).elements()) == {JobStatus.REMOVED}
        await bench.act(Action.REMOVE_X, "1")
        await bench.until_status()
        for ad in await bench.history():
            assert (ad["JobStatus"], ad["LeaveJobInQueue"]) == (3, False)
            assert str(ad["RemoveReason"]).startswith("via condor_rm -forcex")
        await bench.until_events("1.0", [0, 1, 4, 9])
        await bench.until_events("1.1", [0, 9])


async def test_a_removed_job_leaves_when_its_leave_in_queue_says_so(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(LeaveJobInQueue=expr("time() - EnteredCurrentStatus < 1000")))
        await bench.act(Action.REMOVE, "1")
        await bench.until_status(removed=1)
        await bench.until_status()
        await bench.until_events("1.0", [0, 9])


async def test_a_noop_job_ends_without_a_slot(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(IsNoopJob=True, NoopJobExitCode=4))
        await bench.until_status()
        (ad,) = await bench.history()
        assert ad["ExitCode"] == 4
        await bench.until_events("1.0", [0, 5])


async def test_a_crontab_sets_the_next_run_again_and_again(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        soon = expr("time() >= DeferralTime - 60")
        on_a_clock = a_job(CronMinute="*/10", OnExitRemove=False, Requirements=soon, RunsFor=70)
        await bench.submit(on_a_clock)
        first = (await bench.ad("1.0"))["DeferralTime"]
        assert isinstance(first, int)
        assert (first % 600, first > bench.host.world.wall()) == (0, True)
        await trio.sleep(700)  # nobody offered a slot in time
        missed = (await bench.ad("1.0"))["DeferralTime"]
        assert isinstance(missed, int)
        assert missed == first + 600
        await trio.sleep(missed - bench.host.world.wall() - 10)
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1, 4])
        await bench.until(lambda: len(startd.released) == 1)  # its next run is far away
        assert (await bench.ad("1.0"))["DeferralTime"] == missed + 600


async def test_a_host_that_has_slept_runs_no_job_for_moments_that_it_slept_through(
    tmp_path: Path, autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock has gone on for eight hours; nothing of the schedd has."""
    async with a_bench(tmp_path) as bench:
        now = int(bench.host.world.wall())
        await bench.submit(a_job(CronMinute="0"))
        await bench.submit(a_job(DeferralTime=now + 3600))
        await bench.submit(a_job(DeferralTime=now + 3600, DeferralWindow=86400))
        assert (await bench.ad("1.0"))["DeferralTime"] <= now + 3600
        monkeypatch.setattr(one_host, "EPOCH", one_host.EPOCH + 8 * 3600)
        await trio.sleep(700)
        now = int(bench.host.world.wall())
        crontab, missed, late = [await bench.ad(f"{cluster}.0") for cluster in (1, 2, 3)]
        assert now < crontab["DeferralTime"] <= now + 3600
        assert [ad["JobStatus"] for ad in (crontab, missed, late)] == [1, 5, 1]
        assert missed["HoldReason"] == "Job missed deferred execution time"


async def test_a_job_of_a_slot_may_run_more_often_than_the_schedd_looks(tmp_path: Path, autojump_clock: Clock) -> None:
    """SCHEDD_INTERVAL is 300; where it limits how often, a job with `cron_minute = *` runs every fifth minute."""
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        in_time = expr("time() >= DeferralTime")
        await bench.submit(a_job(CronMinute="*", OnExitRemove=False, Requirements=in_time, RunsFor=5))
        moments = []
        for _ in range(3):
            moments.append((await bench.ad("1.0")).eval_int("DeferralTime", 0))
            await trio.sleep(moments[-1] - bench.host.world.wall())
            await bench.match(startd)
            await bench.until_status(running=1)
            await bench.until_status(idle=1)
        assert [later - sooner for sooner, later in itertools.pairwise(moments)] == [60, 60]


async def test_a_wrong_crontab_holds_the_job(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(CronMinute="never"))
        assert (await bench.ad("1.0"))["HoldReasonCode"] == 25


# ---- what goes wrong


async def test_a_job_that_cannot_run_is_held(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(HoldWith=6))
        await bench.match(startd)
        await bench.until_status(held=1)
        await bench.until(lambda: bench.events("1.0")[-1] == 12)
        assert (await bench.ad("1.0"))["HoldReasonSubCode"] == 2


async def test_a_refused_claim_leaves_the_job_waiting(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        startd.refuses = "go away"
        await bench.submit(a_job())
        await bench.match(startd)
        await bench.until(lambda: bench.announced is not None and not bench.announced.requests)
        assert "refused the job: go away" in (await bench.ad("1.0"))["LastRejMatchReason"]
        startd.refuses = ""
        await bench.match(startd)
        await bench.until_status()
        await bench.until_events("1.0", [0, 1, 5])


async def test_a_refused_activation_leaves_the_job_waiting(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(Refused=True))
        await bench.match(startd)
        await bench.until(lambda: bool(startd.released))
        await bench.until_status(idle=1)
        await bench.until_events("1.0", [0])
        assert "RemoteHost" not in await bench.ad("1.0")


async def test_p4_a_job_runs_elsewhere_when_its_machine_vanishes(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        one = await bench.startd("one")
        await bench.submit(a_job(RunsFor=1e6, JobLeaseDuration=600))
        await bench.match(one)
        await bench.until_events("1.0", [0, 1])
        await one.vanish()
        began = trio.current_time()
        await bench.until_status(idle=1)
        assert 500 <= trio.current_time() - began <= 1300
        await bench.until_events("1.0", [0, 1, 22, 24])
        two = await bench.startd("two")
        await bench.match(two)
        await bench.until_status(running=1)
        await bench.until(lambda: bench.events("1.0")[-1] == 1)
        assert (await bench.ad("1.0"))["NumJobStarts"] == 2


async def test_a_broken_connection_costs_nothing(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=300))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        startd.lose_connections()
        await bench.until_status()
        await bench.until_events("1.0", [0, 1, 5])
        assert (await bench.history())[0]["NumJobStarts"] == 1


async def test_leases_are_renewed(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=2000, JobLeaseDuration=600))
        await bench.match(startd)
        await bench.until_status()
        gaps = [late - early for early, late in zip(startd.alive, startd.alive[1:], strict=False)]
        assert len(gaps) >= 7
        assert max(gaps) <= 201


async def test_leases_are_renewed_in_time_while_other_claims_come_and_go(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd(slots=2)
        await bench.submit(a_job(RunsFor=1500, JobLeaseDuration=600))
        await bench.match(startd, 1)
        began = trio.current_time()
        for number in range(12):
            await bench.until(lambda: len(startd.claims) == 1)
            await bench.submit(a_job(RunsFor=90, RequestMemory=number + 1, JobLeaseDuration=600))
            while not await bench.match(startd, 1):
                await trio.sleep(1)
            await bench.until(lambda: len(startd.claims) == 2)
        beats = [began, *startd.alive, trio.current_time()]
        assert beats[-1] - began >= 990
        assert max(late - early for early, late in pairwise(beats)) <= 201


async def test_a_claim_goes_by_the_lease_of_the_job_that_it_has(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=100, JobLeaseDuration=2400))
        await bench.match(startd)
        await bench.submit(a_job(RunsFor=1000, JobLeaseDuration=90))
        await bench.until_events("2.0", [0, 1])
        began = trio.current_time()
        await trio.sleep(300)
        (early, *_, late) = beats = [at for at in startd.alive if at > began]
        assert len(beats) >= 9
        assert late - early <= 300
        await startd.vanish()
        gone = trio.current_time()
        await bench.until_status(idle=1)
        assert trio.current_time() - gone <= 200, "not the 2400 s of the claim's first job"


async def test_a_lease_is_stored_with_each_job_and_again_only_when_the_startd_goes_by_another(
    tmp_path: Path, autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[tuple[int, float]] = []
    claim_works = JobQueue.claim_works

    def noting(queue: JobQueue, work: ClaimWork) -> None:
        if work.cluster is not None:
            stored.append((work.cluster, work.lease_s))
        claim_works(queue, work)

    monkeypatch.setattr(JobQueue, "claim_works", noting)
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        for lease_s in (600, 600, 90, 2400):
            await bench.submit(a_job(RunsFor=5, JobLeaseDuration=lease_s))
        await bench.match(startd)
        await bench.until_events("4.0", [0, 1, 5])
        assert stored == [(1, 600), (2, 600), (3, 600), (3, 90), (4, 2400)]


async def test_a_claim_that_the_startd_gives_up_evicts_the_job(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        (claim_id,) = startd.claims
        startd.running[claim_id].scope.cancel()
        await startd.tell(claim_id, ClaimChange.VACATING, "Startd was draining")
        await startd.tell(claim_id, ClaimChange.RELEASED, "Startd was draining")
        await bench.until_status(idle=1)
        await bench.until_events("1.0", [0, 1, 4])
        assert (await bench.ad("1.0"))["VacateReasonCode"] == 1014


async def test_a_starter_that_dies_costs_the_job_only_time(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        (claim_id,) = startd.claims
        startd.running[claim_id].scope.cancel()
        await startd.tell(claim_id, ClaimChange.STARTER_GONE, "the starter was killed")
        await bench.until_status(idle=1)
        await bench.until_events("1.0", [0, 1, 7])
        assert (await bench.ad("1.0"))["LastShadowException"] == "the starter was killed"


async def test_want_hold_of_the_startd_holds_the_job(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        (claim_id,) = startd.claims
        await startd.tell(claim_id, ClaimChange.VACATING, "too big", hold_code=34, hold_subcode=102)
        await startd.tell(claim_id, ClaimChange.RELEASED, "too big")
        await bench.until_status(held=1)
        ad = await bench.ad("1.0")
        assert (ad["HoldReason"], ad["HoldReasonCode"], ad["HoldReasonSubCode"]) == ("too big", 34, 102)


async def test_a_log_that_cannot_be_written_holds_its_jobs_only(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        bench.agents.unwritable.add("/nowhere/log")
        await bench.submit(a_job(UserLog="/nowhere/log"))
        await bench.submit(a_job())
        await bench.until_status(held=1, idle=1)
        assert (await bench.ad("1.0"))["HoldReasonCode"] == 22
        await bench.until_events("2.0", [0])


async def test_a_dead_file_agent_is_replaced_and_no_event_is_lost(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job())
        bench.agents.living[-1].kill()
        await bench.act(Action.HOLD, "1.0")
        await bench.until_events("1.0", [0, 12])
        assert len(bench.agents.living) == 2


async def test_p9_a_bad_submission_costs_an_error_and_nothing_else(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, MAX_JOBS_PER_OWNER="3") as bench:
        for bad in (a_job(JobUniverse=9),):
            with pytest.raises(RemoteError, match="universe"):
                await bench.submit(bad)
        await bench.submit(a_job(), {}, {})
        with pytest.raises(RemoteError, match="MAX_JOBS_PER_OWNER"):
            await bench.submit(a_job(), {}, {})
        await bench.submit(ClassAd({"Requirements": expr("error")}))
        assert len(await bench.ads()) == 3


async def test_jobs_submitted_on_hold(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(JobStatus=5))
        await bench.submit(a_job(), hold_for_spool=True)
        one, two = await bench.ad("1.0"), await bench.ad("2.0")
        assert (one["HoldReasonCode"], one["HoldReason"]) == (15, "submitted on hold at user's request")
        assert (two["HoldReasonCode"], two["HoldReason"]) == (16, "Spooling input data files")
        assert await bench.act(Action.RELEASE, "1.0", "2.0") == [Outcome.DONE, Outcome.BAD_STATUS]


# ---- restarts


@pytest.mark.parametrize("kill", [True, False])
async def test_p5_a_restarted_schedd_keeps_its_running_jobs(tmp_path: Path, autojump_clock: Clock, kill: bool) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=300), {}, {}, {})
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        await bench.restart(kill=kill)
        assert (await bench.statuses()) == {JobStatus.RUNNING: 1, JobStatus.IDLE: 2}
        await bench.until_status()
        for n in range(3):
            await bench.until_events(f"1.{n}", [0, 1, 5])
        assert [ad["NumJobStarts"] for ad in await bench.history()] == [1, 1, 1]
        assert len(startd.orders) == 3


async def test_p5_a_job_that_ended_while_the_schedd_was_away_is_done(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=100, ExitWith=7))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        await bench.host.kill("schedd")
        await trio.sleep(200)
        await bench.host.start("schedd")
        await bench.until_status()
        (ad,) = await bench.history()
        assert (ad["ExitCode"], ad["NumJobStarts"]) == (7, 1)
        await bench.until_events("1.0", [0, 1, 5])


async def test_a_schedd_that_was_away_for_a_whole_lease_starts_its_jobs_anew(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6, JobLeaseDuration=600))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        await bench.host.kill("schedd")
        startd.claims.clear()
        for running in startd.running.values():
            running.scope.cancel()
        await trio.sleep(1000)
        await bench.host.start("schedd")
        await bench.until_status(idle=1)
        await bench.until(lambda: 24 in bench.events("1.0"))


async def test_p3_an_event_that_was_not_written_before_a_crash_is_written_once_after_it(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=10))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        bench.agents.stuck = True
        await bench.until_status()  # ended and durable; its log does not know yet
        await bench.until_events("1.0", [0, 1])
        (running,) = startd.running.values()
        assert not running.acknowledged
        await bench.host.kill("schedd")
        bench.agents.stuck = False
        await bench.host.start("schedd")
        await bench.until_events("1.0", [0, 1, 5])
        await bench.until(lambda: not startd.running)  # its starter learnt that nobody waits for it any more
        await bench.restart()
        await bench.until_events("1.0", [0, 1, 5])
        assert len(await bench.history()) == 1


async def test_a_hold_survives_a_crash_before_the_job_has_left(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=1e6))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1])
        (running,) = startd.running.values()
        await bench.act(Action.HOLD, "1.0")
        await bench.restart()
        await bench.until_status(held=1)
        await bench.until(lambda: running.stopped.is_set())
        await bench.until_events("1.0", [0, 1, 4, 12])


async def test_files_may_move_again_after_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(RunsFor=300, ShouldTransferFiles="YES"))
        await bench.match(startd)
        await bench.until(lambda: bool(startd.orders))
        (order,) = startd.orders
        assert order.agent_address
        files = {order.activation: digest_of(order.agent_ticket)}
        assert bench.agents.transfers == files
        await bench.restart()
        await bench.until(lambda: bench.agents.transfers == files)
        await bench.until_status()
        await bench.until(lambda: bench.agents.transfers == {})
        assert LOG in bench.agents.logs


async def test_a_job_that_runs_costs_the_schedd_no_task(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd(slots=5)
        await bench.submit(a_job(RunsFor=1000))
        await bench.match(startd)
        await bench.until_status(running=1)
        await bench.until(lambda: len(startd.running) == 1)
        await trio.testing.wait_all_tasks_blocked()
        tasks = _tasks_of_jobs()
        await bench.submit(a_job(RunsFor=1000), {}, {}, {}, {})
        await bench.match(startd)
        await bench.until_status(running=5)
        await trio.testing.wait_all_tasks_blocked()
        assert _tasks_of_jobs() == tasks


def _tasks_of_jobs() -> int:
    """How many tasks the schedd has for jobs, claims and startds."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    count, tasks = 0, [root]
    while tasks:
        task = tasks.pop()
        count += task.name.endswith("JobTasks._guarded")
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return count
