"""Claims on slots, from request to release; a startd over the network in memory, on a virtual clock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from daemons.startd import main as startd_main
from daemons.startd.owner import sleep_watch
from daemons.startd.starters.starters import IN_USE_S
from pool.base.ids import ClaimId
from pool.classad import expr
from protocol.messages.common import Reconfigure, StopHow
from protocol.messages.offers import ClaimChange
from protocol.messages.startd import ContinueClaim, KeepAlive, ReconnectClaim, SuspendClaim
from tests.daemons.startd.schedd import Bench, FakeSchedd, Held, a_bench, a_job
from tests.fakes.starters import FakeStarter
from tests.own_attributes import own


async def test_a_partitionable_slot_is_carved_and_made_whole_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RequestCpus=2, RequestMemory=1000))
        assert held.answer.granted, held.answer.reason
        assert held.slot.startswith("slot1_1@")
        assert held.answer.slot_ad is not None
        assert (held.answer.slot_ad["Cpus"], held.answer.slot_ad["Memory"]) == (2, 1024)
        ads = await bench.ads()
        assert (ads["slot1"]["Cpus"], ads["slot1"]["Memory"]) == (2, 3072)
        assert ads["slot1"].eval("ChildName") == [held.slot]
        assert ads["slot1_1"]["SlotType"] == "Dynamic"
        await schedd.release(held)
        ads = await bench.ads()
        assert list(ads) == ["slot1"]
        assert (ads["slot1"]["Cpus"], ads["slot1"]["Memory"]) == (4, 4096)
        assert (await schedd.until_told(ClaimChange.RELEASED)).claim in held.claim_id.rpartition("#")[0] + "#..."
        assert await schedd.alive(held) == [False]


async def test_an_offer_is_good_once_and_a_request_may_come_twice(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd, bench.schedd("other@pool.test") as other:
        offer = await bench.offer()
        first = await schedd.claim(offer)
        again = await schedd.claim(offer)
        assert again.answer == first.answer
        stolen = await other.claim(offer)
        assert not stolen.answer.granted
        assert list(await bench.ads()) == ["slot1", "slot1_1"]


async def test_dynamic_slots_end_together_for_a_larger_claim(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"NUM_CPUS": "2", "RANK": "TARGET.Loved ?: 0"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd, bench.schedd("b@pool.test") as better:
        small = [await schedd.claim(offer, a_job(LeavesIn=5)) for offer in (await bench.offers())[:2]]
        for held in small:
            assert (await schedd.run(held)).started
        room = [await bench.offer(held.slot.partition("@")[0]) for held in small]
        large = await better.claim(room[0], a_job(RequestCpus=2, **own(Loved=1)), room=room)
        assert large.answer.granted, large.answer.reason
        assert large.answer.slot_ad is not None
        assert large.answer.slot_ad["Cpus"] == 2
        assert sorted(await bench.ads()) == ["slot1", "slot1_1"]
        assert await schedd.alive(*small) == [False, False]
        again = await better.claim(room[0], a_job(RequestCpus=2, **own(Loved=1)), room=room)
        assert again.answer.slot_name == large.answer.slot_name


async def test_room_is_made_of_custom_resources_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"NUM_CPUS": "4", "RANK": "TARGET.Loved ?: 0", "MACHINE_RESOURCE_TOY": "2"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd, bench.schedd("b@pool.test") as better:
        small = [await schedd.claim(offer, a_job(**own(RequestToy=1))) for offer in (await bench.offers())[:2]]
        room = [await bench.offer(held.slot.partition("@")[0]) for held in small]
        large = await better.claim(room[0], a_job(**own(RequestToy=2, Loved=1)), room=room)
        assert large.answer.granted, large.answer.reason
        assert (large.answer.slot_ad or {})["Toy"] == 2


async def test_dynamic_slots_do_not_end_for_a_claim_that_they_rank_lower_or_while_they_retire(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {"NUM_CPUS": "2", "RANK": "TARGET.Loved ?: 0", "MAXJOBRETIREMENTTIME": "TARGET.Patience ?: 0"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd, bench.schedd("b@pool.test") as other:
        loved, patient = a_job(**own(Loved=5)), a_job(**own(Patience=1000))
        for job, reason in ((loved, "ranks its present job higher"), (patient, "retirement left")):
            held = await schedd.claim(await bench.offer(), job)
            assert (await schedd.run(held)).started
            room = [await bench.offer("slot1_1")]
            refused = await other.claim(room[0], a_job(RequestCpus=2), room=room)
            assert not refused.answer.granted
            assert reason in refused.answer.reason
            assert await schedd.alive(held) == [True]
            await schedd.release(held, StopHow.FAST)
            await bench.until("", "slot1_1")
        stolen = await other.claim("no such id", a_job(), room=["no such id"])
        assert not stolen.answer.granted


async def test_p7_no_more_is_promised_than_there_is(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        first, second = (await bench.offers())[:2]
        assert (await schedd.claim(first, a_job(RequestCpus=3))).answer.granted
        refused = await schedd.claim(second, a_job(RequestCpus=2))
        assert not refused.answer.granted
        assert "its resources" in refused.answer.reason
        assert (await schedd.claim(second, a_job(RequestCpus=1))).answer.granted


async def test_a_full_slot_offers_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        await schedd.claim(await bench.offer(), a_job(RequestCpus=4))
        while await bench.offers():
            await trio.sleep(0.05)
        assert (await bench.ads())["slot1"]["Cpus"] == 0


async def test_both_requirements_are_checked_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, START='Owner != "mallory"') as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        assert "START" in (await schedd.claim(offer, a_job(Owner="mallory"))).answer.reason
        picky = a_job(Requirements=expr("TARGET.Memory > 99999"))
        assert "job's Requirements" in (await schedd.claim(offer, picky)).answer.reason
        assert (await schedd.claim(offer)).answer.granted


async def test_an_unknown_claim_id_is_refused_and_no_secret_is_logged(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        head, _, secret = offer.rpartition("#")
        assert not (await schedd.claim(f"{head}#guess-of-a-secret")).answer.granted
        held = await schedd.claim(offer)
        await schedd.run(held)
        await schedd.release(held)
        log = (tmp_path / "log" / "StartLog").read_text()
        assert secret not in log
        assert "guess-of-a-secret" not in log


async def test_jobs_run_one_after_another_in_the_same_starter(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held, a_job(RunsFor=5))).started
        starter = await bench.until_running("1.0")
        assert await bench.where("slot1_1") == "Claimed/Busy"
        await bench.until("Claimed/Idle", "slot1_1")
        assert (await schedd.run(held, a_job(RunsFor=5))).started
        assert await bench.until_running("1.1") is starter
        assert starter.jobs[1].slot_ad["JobId"] == "1.1"
        assert starter.jobs[1].slot_ad["Name"] == held.slot
        assert len(starter.news[0]) > 50  # with the claim
        assert all(len(news) < 40 for news in starter.news[1:])  # with the jobs
        assert starter.met == ["<shadow>"]


async def test_activation_may_come_twice_but_only_one_job_runs(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held, activation="one")).started
        assert (await schedd.run(held, activation="one")).started
        second = await schedd.run(held, activation="two")
        assert not second.started
        assert second.claim_is_good
        assert sum(len(starter.jobs) for starter in bench.farm.starters) == 1


async def test_the_next_job_waits_while_the_last_one_is_cleared_away(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held, a_job(RunsFor=3))).started
        assert (await schedd.run(held, a_job(RunsFor=3), concluded=True)).started
        (starter,) = [one for one in bench.farm.starters if one.jobs]
        assert starter.heard[:2] == ["run 1.0", "run 1.1"]


async def test_the_log_says_that_a_job_started_before_it_says_that_it_is_over(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        for _ in range(40):
            assert (await schedd.run(held, a_job(RunsFor=0.0), concluded=True)).started
        await bench.until("Claimed/Idle", "slot1_1")
        said = re.findall(r"slot1_1: (started job|job) (1\.\d+)", (tmp_path / "log" / "StartLog").read_text())
        assert said == [(word, f"1.{number}") for number in range(40) for word in ("started job", "job")]


async def test_an_unclaimed_slot_cannot_be_activated(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim("<a>#1#1#x")
        answer = await schedd.run(held)
        assert not answer.started
        assert not answer.claim_is_good


async def test_spare_starters_wait_for_the_next_claims(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, SPARE_STARTERS="2") as bench, bench.schedd() as schedd:
        while len(bench.farm.starters) < 2:
            await trio.sleep(0.1)
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held)).started
        assert await bench.until_running() is bench.farm.starters[0]


async def test_a_spare_starter_serves_whichever_slot_comes_next(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = [await schedd.claim(offer) for offer in await bench.offers()]
        assert [one.slot.partition("@")[0] for one in held] == ["slot1_1", "slot1_2", "slot1_3", "slot1_4"]
        for one in held:
            assert (await schedd.run(one)).started
        for one in reversed(held):  # each time, another slot is the next that a claim would get
            await schedd.release(one, StopHow.FAST)
            await bench.until("", one.slot)
            await trio.sleep(1)
        assert sum(len(starter.jobs) for starter in bench.farm.starters) == 4
        assert len(bench.farm.starters) == 5  # one for each claim, and the spare one


async def test_a_starter_that_met_the_schedd_of_a_refused_claim_is_a_spare_one_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        offer = await bench.offer()
        assert not (await schedd.claim(offer, a_job(RequestMemory=1_000_000))).answer.granted
        held = await schedd.claim(offer)
        assert (await schedd.run(held)).started
        starter = await bench.until_running()
        assert starter is bench.farm.starters[0]
        assert starter.met == ["<shadow>", "", "<shadow>"]


async def test_spare_starters_rehearse_while_the_machine_is_in_use(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held)).started
        await trio.sleep(IN_USE_S - 1)
        first, second = bench.farm.starters
        assert [first.rehearses, second.rehearses, second.heard] == [False, True, []]
        await trio.sleep(2)
        third = bench.farm.starters[2]
        assert [second.heard, third.rehearses, third.heard] == [["leave"], False, []]


@pytest.mark.parametrize("spare", [0, 1])
async def test_a_starter_that_is_made_while_the_configuration_changes_runs_no_job_by_the_old_one(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    file = tmp_path / "settings"
    file.write_text("STARTER_RLIMIT_AS = 1000\n")
    made, changed = trio.Event(), trio.Event()
    async with a_bench(tmp_path, files=(str(file),), SPARE_STARTERS=str(spare)) as bench, bench.schedd() as schedd:
        fork = bench.farm.fork

        async def slowly(*arguments: Any) -> FakeStarter:
            starter = await fork(*arguments)
            made.set()
            await changed.wait()
            return starter

        monkeypatch.setattr(bench.farm, "fork", slowly)
        held = await schedd.claim(await bench.offer())
        if spare:  # another one takes its place
            await schedd.run(held)
        await made.wait()
        file.write_text("STARTER_RLIMIT_AS = 2000\n")
        await schedd.peer.call(Reconfigure())
        changed.set()
        if spare:
            await trio.sleep(1)
            held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held)).started
        starter = await bench.until_running(f"1.{spare}")
        assert starter.settings is not None
        assert starter.settings.address_space_mb == 2000


async def test_a_claims_next_job_runs_by_the_configuration_of_its_start(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    file = tmp_path / "settings"
    file.write_text("STARTER_RLIMIT_AS = 1000\n")
    async with a_bench(tmp_path, files=(str(file),)) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(RunsFor=100))
        assert (await schedd.run(held)).started
        first = await bench.until_running()
        file.write_text("STARTER_RLIMIT_AS = 2000\n")
        await schedd.peer.call(Reconfigure())
        await bench.until("Claimed/Idle", "slot1_1")
        assert first.heard == ["run 1.0"], "its job has gone on"
        assert (await schedd.run(held)).started
        second = await bench.until_running("1.1")
        assert second.settings is not None
        assert second.settings.address_space_mb == 2000
        await first.ended.wait()


async def test_however_often_the_configuration_changes_each_claim_has_one_more_starter_for_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    file = tmp_path / "settings"
    file.write_text("STARTER_RLIMIT_AS = 1000\n")
    async with a_bench(tmp_path, files=(str(file),), SPARE_STARTERS="0") as bench, bench.schedd() as schedd:
        held = [await schedd.claim(offer, a_job(RunsFor=100)) for offer in (await bench.offers())[:3]]
        for one in held:
            assert (await schedd.run(one)).started
        for limit in (2000, 3000, 4000):
            file.write_text(f"STARTER_RLIMIT_AS = {limit}\n")
            await schedd.peer.call(Reconfigure())
        for one in held:
            await bench.until("Claimed/Idle", one.slot)
            for _ in range(2):
                assert (await schedd.run(one, a_job(RunsFor=3), concluded=True)).started
        await bench.until("Claimed/Idle", held[-1].slot)
        olds, news = bench.farm.starters[:3], bench.farm.starters[3:]
        assert [len(starter.jobs) for starter in (*olds, *news)] == [1, 1, 1, 2, 2, 2]
        assert {starter.settings.address_space_mb for starter in news if starter.settings is not None} == {4000}
        for starter in olds:
            await starter.ended.wait()
        assert not any(starter.ended.is_set() for starter in news)


async def test_a_claim_that_is_asked_for_twice_gets_one_starter(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, SPARE_STARTERS="0") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held)).started
        assert (await schedd.claim(held.claim_id)).answer.granted
        assert (await schedd.run(held, activation=f"{schedd.name}-1")).started
        await bench.until("Claimed/Busy", "slot1_1")
        assert len(bench.farm.starters) == 1


async def test_a_static_slots_claim_without_a_job_leaves_no_starter_to_the_next(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, SLOT_TYPE_1="100%", NUM_SLOTS_TYPE_1="1") as bench, bench.schedd() as schedd:
        first = await schedd.claim(await bench.offer())
        await bench.until("Claimed/Idle", "slot1")
        await schedd.release(first)
        await bench.until("Unclaimed/Idle", "slot1")
        second = await schedd.claim(await bench.offer())
        assert (await schedd.run(second)).started
        left = [starter for starter in bench.farm.starters if "leave" in starter.heard]
        assert len(left) == 1
        assert left[0].jobs == []


async def test_the_host_is_searched_only_for_what_starters_that_died_left(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[bytes] = []

    def marked(mark: bytes) -> set[int]:
        searched.append(mark)
        return set()

    monkeypatch.setattr("daemons.host.tree.marked", marked)
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        first, second = (await bench.offers())[:2]
        held = await schedd.claim(first)
        assert (await schedd.run(held, a_job(RunsFor=3))).started
        tidy = await bench.until_running()
        await schedd.release(held)
        await tidy.ended.wait()
        await bench.until("", "slot1_1")
        assert searched == []
        assert (await schedd.run(await schedd.claim(second))).started
        died = await bench.until_running("1.1")
        died.kill()
        await schedd.until_told(ClaimChange.STARTER_GONE)
        assert [mark.endswith(b"/dir_%d" % died.pid) for mark in searched] == [True]


async def test_a_starter_that_dies_at_birth_is_replaced(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, SPARE_STARTERS="0") as bench, bench.schedd() as schedd:
        bench.farm.failures = 1
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held)).started


async def test_a_starter_that_dies_ends_its_job_and_the_schedd_hears_of_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held)
        (await bench.until_running()).kill()
        word = await schedd.until_told(ClaimChange.STARTER_GONE)
        assert word.activation
        await bench.until("Claimed/Idle", "slot1_1")
        assert (await schedd.run(held)).started
        await bench.until_running("1.1")


async def test_deactivation_ends_the_job_and_keeps_the_claim(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held, a_job(LeavesIn=30))
        starter = await bench.until_running()
        await schedd.stop(held)
        await bench.until("Claimed/Idle", "slot1_1")
        assert [stop.how for stop in starter.stops] == [StopHow.GRACEFUL]
        assert (await schedd.run(held)).started


async def test_a_stubborn_job_is_killed_with_its_starter(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, MachineMaxVacateTime="60", KILLING_TIMEOUT="30") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held, a_job(Stubborn=True))
        starter = await bench.until_running()
        before = trio.current_time()
        await schedd.release(held)
        await starter.ended.wait()
        assert 89 <= trio.current_time() - before <= 91
        assert starter.heard[1:] == ["stop graceful", "stop fast", "signal 9"]
        await bench.until("", "slot1_1")


async def test_a_released_busy_claim_evicts_its_job_without_retirement(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, MAXJOBRETIREMENTTIME="3600") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held)
        await bench.until_running()
        before = trio.current_time()
        await schedd.release(held)
        assert (await schedd.until_told(ClaimChange.VACATING)).reason == "the schedd released the claim"
        await schedd.until_told(ClaimChange.RELEASED)
        assert trio.current_time() - before < 60


async def test_a_slot_whose_job_has_reported_is_free_when_its_starter_is_done(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held, a_job(RunsFor=3))
        starter = await bench.until_running()
        await schedd.release(held, concluded=True)
        assert await bench.where(held.slot) == "Claimed/Busy"
        await schedd.until_told(ClaimChange.RELEASED)
        assert [word.change for word in schedd.told] == [ClaimChange.RELEASED]
        await starter.ended.wait()
        assert starter.heard == ["run 1.0", "leave"]


async def test_a_starter_that_is_not_done_in_time_after_its_job_is_killed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, KILLING_TIMEOUT="30", MachineMaxVacateTime="60") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held)
        starter = await bench.until_running()
        before = trio.current_time()
        await schedd.release(held, concluded=True)
        await starter.ended.wait()
        assert 89 <= trio.current_time() - before <= 91
        assert starter.heard == ["run 1.0", "signal 9"]
        await schedd.until_told(ClaimChange.RELEASED)


async def test_silence_for_a_whole_lease_evicts_the_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.schedd() as schedd:
            held = await schedd.claim(await bench.offer(), lease_s=2400)
            await schedd.run(held)
            starter = await bench.until_running()
        await trio.sleep(2300)
        assert starter.job is not None
        await trio.sleep(200)
        assert starter.job is None
        await bench.until("", "slot1_1")
        async with bench.schedd() as schedd:
            assert await schedd.alive(held) == [False]


@pytest.mark.parametrize(("own_s", "lease_s"), [(300, 300), (4000, 4000), (0, 2400)])
async def test_each_job_of_a_claim_has_its_own_lease(
    tmp_path: Path, autojump_clock: MockClock, own_s: float, lease_s: float
) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.schedd() as schedd:
            held = await schedd.claim(await bench.offer(), lease_s=2400)
            await schedd.run(held, a_job(RunsFor=3))
            answer = await schedd.run(held, a_job(JobLeaseDuration=own_s), concluded=True)
            assert answer.lease_s == lease_s
            starter = await bench.until_running("1.1")
        await trio.sleep(lease_s - 10)
        assert starter.job is not None
        await trio.sleep(20)
        assert starter.job is None
        await bench.until("", "slot1_1")


async def test_the_lease_of_a_job_is_a_day_at_most(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), lease_s=2400)
        await schedd.run(held, a_job(RunsFor=3))
        answer = await schedd.run(held, a_job(JobLeaseDuration=1e9), concluded=True)
        assert answer.lease_s == 86400


async def test_keep_alives_renew_the_lease_for_as_long_as_they_come(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), lease_s=600)
        await schedd.run(held)
        for _ in range(6):
            await trio.sleep(590)
            assert await schedd.alive(held) == [True]
        assert await bench.where("slot1_1") == "Claimed/Busy"


async def test_a_claim_of_after_the_machines_sleep_does_not_count_that_and_one_of_before_does(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = [0.0]
    monkeypatch.setattr(startd_main, "slept_s", lambda: asleep[0])
    monkeypatch.setattr(sleep_watch, "_is_held_here", lambda _slot: False)
    async with a_bench(tmp_path, NUM_CPUS="3") as bench, bench.schedd() as schedd:
        offers = await bench.offers()
        before, heard = [await schedd.claim(offer, lease_s=2400) for offer in offers[:2]]
        await trio.sleep(1)
        asleep[0] = 7200.0
        assert await schedd.alive(heard) == [True], "its schedd still has it, and is the first to say so"
        after = await schedd.claim(offers[2], lease_s=2400)
        await trio.sleep(60)
        assert await schedd.alive(before, heard, after) == [False, True, True]


async def test_p5_a_schedd_that_comes_back_within_the_lease_finds_its_job(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.schedd() as schedd:
            held = await schedd.claim(await bench.offer(), lease_s=600)
            await schedd.run(held, activation="act-1")
        await trio.sleep(500)
        async with bench.schedd() as schedd:
            digest = ClaimId(held.claim_id).digest()
            back = ReconnectClaim(digest=digest, needs_id=True, lease_s=600, alive_interval_s=200)
            answer = await schedd.peer.call(back)
            assert (answer.held, answer.activation, answer.slot_name) == (True, "act-1", held.slot)
            fresh = answer.claim_id
            assert ClaimId(fresh).public() == ClaimId(held.claim_id).public()
            assert (await schedd.peer.call(KeepAlive(claim_ids=[held.claim_id, fresh]))).held == [False, True]
            again = await schedd.peer.call(ReconnectClaim(digest=digest, lease_s=600, alive_interval_s=200))
            assert (again.held, again.claim_id) == (True, "")
            await trio.sleep(500)
            assert await bench.where("slot1_1") == "Claimed/Busy"
            (await bench.until_running("1.0")).kill()
            await schedd.until_told(ClaimChange.STARTER_GONE)


async def test_p4_a_claim_without_a_job_ends_with_its_schedds_connection(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.schedd() as schedd:
            assert (await schedd.claim(await bench.offer(), lease_s=2400)).answer.granted
            assert await bench.where("slot1_1") == "Claimed/Idle"
        lost_at = trio.current_time()
        while list(await bench.ads()) != ["slot1"]:
            await trio.sleep(1)
        assert trio.current_time() - lost_at < 60


async def test_p4_a_job_that_ends_while_its_schedd_is_away_leaves_no_claim(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.schedd() as schedd:
            held = await schedd.claim(await bench.offer(), lease_s=2400)
            await schedd.run(held, a_job(RunsFor=500))
            await bench.until_running()
        await trio.sleep(400)
        assert await bench.where("slot1_1") == "Claimed/Busy"
        while list(await bench.ads()) != ["slot1"]:
            await trio.sleep(1)
        assert trio.current_time() < 600


async def test_claim_worklife_ends_a_claim_after_its_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, CLAIM_WORKLIFE="0") as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert (await schedd.run(held, a_job(RunsFor=5))).started
        await schedd.until_told(ClaimChange.RELEASED)
        assert not (await schedd.run(held)).claim_is_good


async def test_a_job_is_frozen_and_thawed_at_its_schedds_word(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        await schedd.run(held)
        starter = await bench.until_running()
        await schedd.peer.call(SuspendClaim(claim_id=held.claim_id))
        await trio.sleep(60)
        assert await bench.where("slot1_1") == "Claimed/Suspended", "CONTINUE does not overrule the schedd"
        await schedd.peer.call(ContinueClaim(claim_id=held.claim_id))
        await bench.until("Claimed/Busy", "slot1_1")
        assert starter.heard[1:] == ["suspend", "continue"]


async def test_a_better_ranked_job_takes_a_static_slot(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1", "RANK": 'Owner == "coltrane"'}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd, bench.schedd("other@pool.test") as other:
        held = await schedd.claim(await bench.offer(), a_job(Owner="tyner"))
        await schedd.run(held, a_job(LeavesIn=20))
        starter = await bench.until_running()
        while (second := await bench.offer()) == held.claim_id:
            await trio.sleep(0.05)
        better = await other.claim(second, a_job(Owner="coltrane"))
        assert better.answer.granted, better.answer.reason
        assert starter.stops[0].reason == "Preempted for a higher Ranked job"
        assert {word.change for word in schedd.told} == {ClaimChange.VACATING, ClaimChange.RELEASED}
        assert (await other.run(better)).started
        while (third := await bench.offer()) in (second, held.claim_id):
            await trio.sleep(0.05)
        worse = await schedd.claim(third, a_job(Owner="tyner"))
        assert "higher" in worse.answer.reason


async def another_offer(bench: Bench, *used: str, slot: str = "slot1") -> str:
    """A claim id that the slot offers and that is none of these."""
    while (offer := await bench.offer(slot)) in used:
        await trio.sleep(0.05)
    return offer


async def test_a_claim_that_waits_for_a_job_to_retire_makes_way_for_a_better_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    layout = {"SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1"}
    knobs = {**layout, "RANK": "TARGET.Loved ?: 0", "MAXJOBRETIREMENTTIME": "3600"}
    answers: dict[str, Held] = {}

    async def ask(name: str, schedd: FakeSchedd, offer: str, loved: int) -> None:
        answers[name] = await schedd.claim(offer, a_job(**own(Loved=loved)), lease_s=100_000)

    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd, bench.schedd("b@pool.test") as other:
        held = await schedd.claim(await bench.offer(), lease_s=100_000)
        await schedd.run(held)
        starter = await bench.until_running()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "good", other, good := await another_offer(bench, held.claim_id), 2)
            await bench.until("Claimed/Retiring")
            bad = await schedd.claim(await another_offer(bench, held.claim_id, good), a_job(**own(Loved=1)))
            assert "ranks" in bad.answer.reason
            assert (await bench.ads())["slot1"]["PreemptingRank"] == 2.0
            nursery.start_soon(ask, "best", schedd, await another_offer(bench, held.claim_id, good), 3)
            while (await bench.ads())["slot1"]["PreemptingRank"] != 3.0:
                await trio.sleep(0.05)
            assert "better claim" in answers["good"].answer.reason
            assert await bench.where() == "Claimed/Retiring"
            assert starter.stops == []
        assert answers["best"].answer.granted, answers["best"].answer.reason


async def test_a_job_goes_on_when_the_better_claim_goes_away(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1", "MAXJOBRETIREMENTTIME": "3600"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), lease_s=100_000)
        await schedd.run(held)
        while (second := await bench.offer()) == held.claim_id:
            await trio.sleep(0.05)
        with trio.move_on_after(600):
            async with bench.schedd("other@pool.test") as other:
                await other.claim(second)
        await bench.until("Claimed/Busy")
        await trio.sleep(4000)
        assert await bench.where() == "Claimed/Busy"


async def test_a_schedd_that_stops_waiting_for_a_slot_does_not_get_it_later(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {"SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd, bench.schedd("other@pool.test") as other:
        held = await schedd.claim(await bench.offer(), lease_s=100_000)
        await schedd.run(held, a_job(LeavesIn=300))
        while (second := await bench.offer()) == held.claim_id:
            await trio.sleep(0.05)
        with trio.move_on_after(20):
            await other.claim(second)
        await bench.until("Unclaimed/Idle")
        assert (await schedd.claim(await bench.offer())).answer.granted
