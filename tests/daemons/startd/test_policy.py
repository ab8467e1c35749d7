"""The owner's policy at work: a startd on a virtual clock, fake jobs that stay as long as they may."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pool.base.errors import ConfigError
from pool.classad import ClassAd, expr
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.slots.provision import detect
from pool.slots.provision.detect import Look
from protocol.messages.common import Reconfigure, StopHow
from protocol.messages.offers import ClaimChange
from protocol.messages.startd import CancelDrain, DrainMachine, VacateSlots
from protocol.rpc.endpoints import RemoteError
from tests.daemons.startd.schedd import Bench, FakeSchedd, Held, a_bench, a_job
from tests.own_attributes import own

STATIC = {"SLOT_TYPE_1": "100%", "NUM_SLOTS_TYPE_1": "1"}
LONG_S = 1_000_000.0
DEAR = " || ".join(f"member({-i - 1}, L)" for i in range(200))
"""Takes more steps than an evaluation may, where L has a thousand members."""


async def a_running_job(bench: Bench, schedd: FakeSchedd, **job: object) -> Held:
    """A claim whose job runs."""
    ad = a_job(**job)
    held = await schedd.claim(await bench.offer(), ad, lease_s=LONG_S)
    assert held.answer.granted, held.answer.reason
    assert (await schedd.run(held, ad)).started
    await bench.until_running()
    return held


async def test_p8_no_job_starts_while_start_is_false(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, START="ClockMin < 0") as bench, bench.schedd() as schedd:
        refused = await schedd.claim(await bench.offer())
        assert not refused.answer.granted
        assert "START" in refused.answer.reason
        assert await bench.where() == "Unclaimed/Idle"


async def test_p8_a_claimed_slot_starts_no_job_once_start_is_false(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {**STATIC, "START": "time() < DaemonStartTime + 100", "POLLING_INTERVAL": "3600"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer())
        assert held.answer.granted
        await trio.sleep(200)
        answer = await schedd.run(held)
        assert not answer.started
        assert not answer.claim_is_good
        assert not any(starter.jobs for starter in bench.farm.starters)


@pytest.mark.parametrize(
    ("asks", "soft_s", "hard_s"),
    [({}, 3000, 3600), ({"JobMaxVacateTime": 60}, 3540, 3600), ({"JobMaxVacateTime": 1200}, 2400, 3600)],
)
async def test_p8_preempt_true_ends_the_job_within_retirement_and_vacate_time(
    tmp_path: Path, autojump_clock: MockClock, asks: dict[str, object], soft_s: float, hard_s: float
) -> None:
    knobs = {**STATIC, "PREEMPT": "time() >= JobStart + 600", "MAXJOBRETIREMENTTIME": "3600"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        began = trio.current_time()
        await a_running_job(bench, schedd, LeavesIn=LONG_S, **asks)
        starter = await bench.until_running()
        await bench.until("Preempting/Vacating")
        assert trio.current_time() - began == pytest.approx(soft_s, abs=10)
        assert starter.stops[0].vacate_s == pytest.approx(hard_s - soft_s, abs=10)
        await schedd.until_told(ClaimChange.RELEASED)
        assert trio.current_time() - began == pytest.approx(hard_s, abs=10)
        assert [stop.how for stop in starter.stops] == [StopHow.GRACEFUL, StopHow.FAST]
        assert starter.stops[0].reason == "PREEMPT expression evaluated to True"


async def test_without_want_vacate_a_job_is_killed_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {**STATIC, "PREEMPT": "JobUniverse == 5", "WANT_VACATE": "false"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        held = await schedd.claim(await bench.offer(), a_job(LeavesIn=LONG_S))
        await schedd.run(held)
        await schedd.until_told(ClaimChange.RELEASED)
        (starter,) = [one for one in bench.farm.starters if one.jobs]
        assert [stop.how for stop in starter.stops] == [StopHow.FAST]


async def test_a_busy_machine_suspends_its_job_and_lets_it_go_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {
        **STATIC,
        "WANT_SUSPEND": "true",
        "SUSPEND": "ImageSize > 100",
        "CONTINUE": "ImageSize <= 100",
    }
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd)
        starter = await bench.until_running()
        await starter.inform(ImageSize=500)
        await bench.until("Claimed/Suspended")
        await schedd.until_told(ClaimChange.SUSPENDED)
        await starter.inform(ImageSize=50)
        await bench.until("Claimed/Busy")
        await schedd.until_told(ClaimChange.CONTINUED)
        assert starter.heard[1:] == ["suspend", "continue"]


async def test_want_hold_puts_a_greedy_job_on_hold(tmp_path: Path, autojump_clock: MockClock) -> None:
    greedy = "(ImageSize > 1000)"
    knobs = {
        **STATIC,
        "PREEMPT": greedy,
        "WANT_HOLD": greedy,
        "WANT_HOLD_REASON": '"too greedy"',
        "WANT_HOLD_SUBCODE": "7",
    }
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd)
        starter = await bench.until_running()
        await starter.inform(ImageSize=5000)
        word = await schedd.until_told(ClaimChange.VACATING)
        assert (word.reason, word.hold_code, word.hold_subcode) == ("too greedy", 21, 7)
        assert (starter.stops[0].reason, starter.stops[0].hold_code) == ("too greedy", 21)


async def test_a_desktop_is_its_owners_while_start_is_false(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"IS_OWNER": "START =?= false", "START": "time() > DaemonStartTime + 900"}
    async with a_bench(tmp_path, **knobs) as bench:
        assert await bench.where() == "Owner/Idle"
        await bench.until("Unclaimed/Idle")


async def test_benchmarks_are_run_when_the_owner_wants_and_all_slots_show_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {"NUM_SLOTS": "2", "BENCHMARKS_JOBLIST": "", "RUNBENCHMARKS": "(time() - LastBenchmark) >= 600"}
    async with a_bench(tmp_path, **knobs) as bench:
        await trio.sleep(60)
        ads = await bench.ads()
        assert [ad["Activity"] for ad in ads.values()] == ["Idle", "Idle"]
        measured = ads["slot1"]["LastBenchmark"]
        assert measured > 0
        await trio.sleep(300)
        assert (await bench.ads())["slot1"]["LastBenchmark"] == measured
        await trio.sleep(360)
        assert (await bench.ads())["slot1"]["LastBenchmark"] > measured


async def test_each_slot_has_a_policy_of_its_own(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {
        "SLOT_TYPE_1": "1/4",
        "NUM_SLOTS_TYPE_1": "3",
        "START": "true",
        "SLOT2_START": "false",
        "STARTD_ATTRS": "favorite_color, favorite_season",
        "favorite_color": '"blue"',
        "favorite_season": '"spring"',
        "SLOT2_favorite_color": '"green"',
        "SLOT3_favorite_season": '"summer"',
        "SLOT1_STARTD_ATTRS": "favorite_movie",
        "favorite_movie": '"Solaris"',
        "STARTD_SLOT_ATTRS": "State",
    }
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        ads = await bench.ads()
        assert [ads[f"slot{n}"].eval("Start") for n in (1, 2, 3)] == [True, False, True]
        shown = [(ads[f"slot{n}"].eval("favorite_color"), ads[f"slot{n}"].eval("favorite_season")) for n in (1, 2, 3)]
        assert shown == [("blue", "spring"), ("green", "spring"), ("blue", "summer")]
        assert ["favorite_movie" in ads[f"slot{n}"] for n in (1, 2, 3)] == [True, False, False]
        await schedd.claim(await bench.offer("slot3"))
        assert (await bench.ads())["slot1"].eval("slot3_State") == "Claimed"


async def test_a_new_policy_holds_at_once_and_a_wrong_one_changes_nothing(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    file = tmp_path / "policy"
    file.write_text("PREEMPT = false\n")
    async with a_bench(tmp_path, files=(str(file),), **STATIC) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd)
        file.write_text("PREEMPT = ( true\n")
        with pytest.raises(RemoteError, match="PREEMPT"):
            await schedd.peer.call(Reconfigure())
        assert await bench.where() == "Claimed/Busy"
        file.write_text("PREEMPT = true\n")
        await schedd.peer.call(Reconfigure())
        await schedd.until_told(ClaimChange.RELEASED)


async def test_a_policy_that_cannot_be_read_stops_the_start_by_name(tmp_path: Path, autojump_clock: MockClock) -> None:
    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True) as caught:
        async with a_bench(tmp_path, SUSPEND="((KeyboardIdle < 60)"):
            raise AssertionError("it must not start")
    assert "SUSPEND" in str(caught.value.exceptions)


async def test_draining_empties_the_machine_and_cancelling_opens_it_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, MAXJOBRETIREMENTTIME="3600") as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd, RunsFor=1800)
        drain = await schedd.peer.call(DrainMachine(reason="new kernel"))
        ad = (await bench.ads())["slot1"]
        assert (ad["Draining"], ad["DrainReason"]) == (True, "new kernel")
        assert ad.eval("Requirements", ClassAd({"RequestCpus": 1})) is not True
        await bench.until("Drained/Idle")
        assert (await schedd.until_told(ClaimChange.RELEASED)).reason == "the machine is draining"
        with pytest.raises(RemoteError, match="already in progress"):
            await schedd.peer.call(DrainMachine())
        with pytest.raises(RemoteError, match="not the one"):
            await schedd.peer.call(CancelDrain(request_id="7"))
        await schedd.peer.call(CancelDrain(request_id=drain.request_id))
        await bench.until("Unclaimed/Idle")
        assert (await schedd.claim(await bench.offer())).answer.granted


async def test_a_fast_drain_that_resumes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, MAXJOBRETIREMENTTIME="3600") as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd, LeavesIn=LONG_S)
        before = trio.current_time()
        await schedd.peer.call(DrainMachine(how_fast=20, on_completion="resume"))
        await schedd.until_told(ClaimChange.RELEASED)
        await bench.until("Unclaimed/Idle")
        assert trio.current_time() - before < 60
        with pytest.raises(RemoteError, match="how_fast"):
            await schedd.peer.call(DrainMachine(how_fast=3))


async def test_vacating_gives_the_job_its_time_and_ends_the_claim(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await a_running_job(bench, schedd, LeavesIn=30)
        await schedd.peer.call(VacateSlots(slots=[held.slot]))
        word = await schedd.until_told(ClaimChange.RELEASED)
        assert "vacated by" in word.reason
        with pytest.raises(RemoteError, match="no slot slot9@x"):
            await schedd.peer.call(VacateSlots(slots=["slot9@x"]))


@pytest.mark.parametrize(
    ("how", "retirement", "least_s", "most_s"),
    [(StopHow.FAST, "3600", 0, 5), (StopHow.GRACEFUL, "0", 25, 40), (StopHow.PEACEFUL, "0", 7000, 7300)],
)
async def test_a_startd_that_is_stopped_ends_its_jobs_as_told(
    tmp_path: Path, autojump_clock: MockClock, how: StopHow, retirement: str, least_s: float, most_s: float
) -> None:
    async with a_bench(tmp_path, MAXJOBRETIREMENTTIME=retirement) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd, RunsFor=7200, LeavesIn=30)
        before = trio.current_time()
        await bench.host.stop("startd", how)
        assert least_s <= trio.current_time() - before <= most_s
        assert all(starter.ended.is_set() for starter in bench.farm.starters)
        assert await bench.host.query("Machine") == []


async def test_a_more_urgent_stop_overtakes_a_peaceful_one(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd)
        startd = bench.host.daemons["startd"]
        startd.stop(StopHow.PEACEFUL)
        await trio.sleep(3000)
        assert bench.farm.running("1.0") is not None
        await bench.host.stop("startd", StopHow.FAST)
        assert bench.farm.running("1.0") is None


async def test_the_collector_hears_of_every_change(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        held = await a_running_job(bench, schedd)
        (busy,) = await bench.host.until_known("Machine", 'Activity == "Busy"')
        assert busy["Name"] == held.slot
        assert busy["RemoteOwner"] == "alice@pool.test"
        await schedd.release(held)
        while len(await bench.host.query("Machine")) > 1:
            await trio.sleep(0.05)
        (own,) = await bench.host.until_known("StartD")
        assert own["TotalMemory"] == 4096


async def test_a_busy_cpu_shows_since_when(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = 0.0
    monkeypatch.setattr(detect, "look", lambda *_: Look(load, 0, 0, 720, 1))
    knobs = {**STATIC, "CpuBusy": "LoadAvg >= 0.5", "POLLING_INTERVAL": "5"}
    async with a_bench(tmp_path, **knobs) as bench:
        shown = (await bench.ads())["slot1"]
        assert (shown["CpuIsBusy"], shown["CpuBusyTime"]) == (False, 0)
        load = 1.0
        await trio.sleep(60)
        shown = (await bench.ads())["slot1"]
        assert shown["CpuIsBusy"] is True
        assert 50 <= shown["CpuBusyTime"] <= 60
        load = 0.0
        await trio.sleep(10)
        shown = (await bench.ads())["slot1"]
        assert (shown["CpuIsBusy"], shown["CpuBusyTime"]) == (False, 0)


async def test_a_job_with_which_the_policy_costs_too_much_is_held(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {**STATIC, "START": "true", "PREEMPT": "TARGET.Trap =?= 3", "POLLING_INTERVAL": "5"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd, **own(L=list(range(1_000)), Trap=expr(DEAR)))
        word = await schedd.until_told(ClaimChange.VACATING)
        assert word.hold_code == HoldCode.EXPRESSION_TOO_COSTLY
        assert "it takes more than" in word.reason


async def test_a_policy_that_costs_too_much_by_itself_is_not_its_jobs_fault(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {**STATIC, "START": "true", "PREEMPT": f"({DEAR}) && false", "POLLING_INTERVAL": "5"}
    attrs = {"STARTD_ATTRS": "L", "L": "{" + ",".join(map(str, range(1_000))) + "}"}
    async with a_bench(tmp_path, **knobs, **attrs) as bench, bench.schedd() as schedd:
        await a_running_job(bench, schedd)
        await trio.sleep(100)
        assert await bench.where() == "Claimed/Busy"
