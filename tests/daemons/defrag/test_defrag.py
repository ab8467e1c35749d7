"""The defragmenter on a virtual clock, over the real protocol, with real startds and pretended jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio
from trio.testing import MockClock

from pool.classad import ClassAd
from protocol.messages.collector import WatchAds
from protocol.messages.common import GetAd, Reconfigure
from protocol.messages.startd import DrainMachine
from tests.daemons.one_host import EPOCH, OneHost, one_host
from tests.daemons.startd.schedd import KNOBS, Bench, FakeSchedd, a_bench, a_job
from tests.fakes.network import FakeNetwork
from tests.fakes.starters import Farm

LONG_S = 1_000_000.0
POLL_S = 5.0
"""A query takes real time, and these tests last for virtual hours."""
NAME = "DEFRAG@cm.pool.test"
KNOWN = {"DEFRAG_INTERVAL": "60", "DEFRAG_DRAINING_MACHINES_PER_HOUR": "60"}


@asynccontextmanager
async def a_busy_machine(bench: Bench, central: OneHost | None = None, *, jobs: int = 4) -> AsyncIterator[FakeSchedd]:
    """So many of its four cores have a job each; `central`: where its collector is."""
    known, name = central or bench.host, f"slot1@{bench.host.network.name}"
    async with bench.schedd() as schedd:
        for offer in (await offers(known, name))[:jobs]:
            assert (await schedd.run(await schedd.claim(offer, lease_s=LONG_S))).started
        busy = f'DynamicSlot && Activity == "Busy" && Machine == "{bench.host.network.name}"'
        await until(known, "Machine", busy, count=jobs)
        yield schedd


async def offers(host: OneHost, name: str) -> list[str]:
    """The claim ids of a slot, as soon as the collector has some."""
    watch = WatchAds(ad_types=["Machine"], private=True)
    async with host.connected("collector") as peer, peer.stream(watch) as deltas:
        async for delta in deltas:
            if delta.name == name and delta.private is not None:
                return list(delta.private["ClaimIds"])
    raise AssertionError(f"the collector is gone, and {name} was not known")


async def until(host: OneHost, ad_type: str, constraint: str, count: int = 1) -> ClassAd:
    """Wait until the collector has such ads; the first of them."""
    while len(found := await host.query(ad_type, constraint)) < count:
        await trio.sleep(POLL_S)
    return found[0]


async def its_ad(host: OneHost) -> ClassAd:
    async with host.connected("defrag") as peer:
        return (await peer.call(GetAd())).ad


async def until_drained(host: OneHost, count: int) -> ClassAd:
    """Wait until the collector's ad of the defragmenter says so."""
    return await until(host, "Defrag", f"DrainSuccesses >= {count}")


def said(host: OneHost) -> str:
    return (host.directory / "log" / "DefragLog").read_text()


async def test_a_fragmented_machine_becomes_whole_for_a_job_that_needs_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_bench(tmp_path, **KNOWN) as bench, a_busy_machine(bench) as schedd:
        await bench.host.start("defrag")
        ad = await until_drained(bench.host, 1)
        await until(bench.host, "Machine", "PartitionableSlot && Cpus == 4 && Draining =!= true")
        whole = await schedd.claim(await bench.offer(), a_job(RequestCpus=4))
        assert whole.answer.granted, whole.answer.reason
        assert {one.reason for one in schedd.told} == {"the machine is draining"}
        assert (ad["Name"], ad["MyType"], ad["DrainFailures"], ad["WholeMachines"]) == (NAME, "Defrag", 0, 0)
        assert [(one["who"], one["what"]) for one in ad["RecentDrainsList"]] == [("slot1@cm.pool.test", "graceful")]
        assert "Draining slot1@cm.pool.test (graceful): rank" in said(bench.host)
        assert "1 machines drain, of 1 wanted and 1 that may." in said(bench.host)


async def test_a_whole_machine_is_left_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, **KNOWN) as bench:
        await until(bench.host, "Machine", "Cpus == 4")
        await bench.host.start("defrag")
        await until(bench.host, "Defrag", "WholeMachines == 1")
        await trio.sleep(200)
        assert (await its_ad(bench.host))["DrainSuccesses"] == 0
        assert "Draining no further machine: no machine meets DEFRAG_REQUIREMENTS." in said(bench.host)


async def test_a_drain_that_is_no_longer_wanted_is_called_off_and_its_jobs_go_on(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {**KNOWN, "MAXJOBRETIREMENTTIME": "100000", "DEFRAG_CANCEL_REQUIREMENTS": f"time() > {EPOCH + 500:.0f}"}
    async with a_bench(tmp_path, **knobs) as bench, a_busy_machine(bench) as schedd:
        await bench.host.start("defrag")
        slot = await until(bench.host, "Machine", "PartitionableSlot && Draining")
        assert slot["DrainReason"] == f"Defrag {NAME}"
        ad = await until(bench.host, "Defrag", "size(RecentCancelsList) == 1")
        assert ad["MachinesDraining"] == 1
        await until(bench.host, "Machine", "PartitionableSlot && Draining =!= true")
        assert trio.current_time() > 500
        assert schedd.told == []


async def test_what_draining_costs_is_told_when_it_has_become_another(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """All four cores were claimed when the machine's ad was made, and no job ran yet."""
    knobs = {**KNOWN, "MAXJOBRETIREMENTTIME": "100000", "UPDATE_INTERVAL": "1000000", "CLASSAD_LIFETIME": "3000000"}
    async with a_bench(tmp_path, **knobs) as bench, bench.schedd() as schedd:
        known = await offers(bench.host, "slot1@cm.pool.test")
        claims = [await schedd.claim(offer, lease_s=LONG_S) for offer in known[:4]]
        await until(bench.host, "Machine", "PartitionableSlot && Cpus == 0")
        for claim in claims:
            assert (await schedd.run(claim)).started
        await trio.sleep(50)  # the startd has looked at the machine, and knows better than the collector
        await bench.host.start("defrag")
        with trio.fail_after(300):
            ad = await until_drained(bench.host, 1)
        assert ad["DrainFailures"] <= 1


async def test_a_drain_by_hand_stays(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {**KNOWN, "MAXJOBRETIREMENTTIME": "100000", "DEFRAG_CANCEL_REQUIREMENTS": "true"}
    async with a_bench(tmp_path, **knobs) as bench, a_busy_machine(bench):
        async with bench.host.connected("startd") as peer:
            await peer.call(DrainMachine(reason="new disk"))
        await until(bench.host, "Machine", "PartitionableSlot && Draining")
        await bench.host.start("defrag")
        await trio.sleep(300)
        ad = await its_ad(bench.host)
        assert (ad["MachinesDraining"], ad["DrainSuccesses"], ad["RecentCancelsList"]) == (0, 0, [])
        assert await bench.host.query("Machine", "PartitionableSlot && Draining")


async def test_jobs_that_may_start_while_draining_do(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {**KNOWN, "MAXJOBRETIREMENTTIME": "1000", "DEFRAG_DRAINING_START_EXPR": "TARGET.Scavenger =?= true"}
    async with a_bench(tmp_path, **knobs) as bench, a_busy_machine(bench, jobs=2) as schedd:
        await bench.host.start("defrag")
        await until(bench.host, "Machine", "PartitionableSlot && Draining")
        assert not (await schedd.claim(await bench.offer(), a_job())).answer.granted
        assert (await schedd.claim(await bench.offer(), a_job(Scavenger=True))).answer.granted


async def test_a_fall_drains_no_machine_more(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {**KNOWN, "DEFRAG_INTERVAL": "3600", "DEFRAG_DRAINING_MACHINES_PER_HOUR": "1"}
    async with a_bench(tmp_path, **knobs) as bench:
        began = trio.current_time()
        await bench.host.start("defrag")
        await until(bench.host, "Defrag", "WholeMachines == 1")
        for _ in range(3):
            await bench.host.kill("defrag")
            await bench.host.start("defrag")
        await trio.sleep(3000)
        assert said(bench.host).count("draining and 1 whole machines") == 1
        await trio.sleep_until(began + 3700)
        assert said(bench.host).count("draining and 1 whole machines") == 2


async def test_a_new_configuration_counts_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path, DEFRAG_INTERVAL="0") as bench, a_busy_machine(bench):
        start = await bench.host.start("defrag")
        await trio.sleep(1000)
        assert "no machine will be drained" in said(bench.host)
        assert "whole machines" not in said(bench.host)
        start.runtime_values.update(KNOWN)
        async with bench.host.connected("defrag") as peer:
            await peer.call(Reconfigure())
        await until_drained(bench.host, 1)


# ---- several hosts


@asynccontextmanager
async def a_pool(path: Path, machines: int, **knobs: str) -> AsyncIterator[tuple[OneHost, list[Bench]]]:
    """A central manager and so many hosts with a startd, each with its own certificate."""
    network = FakeNetwork()
    central = network.host("cm.pool.test", duties={"central"})
    async with AsyncExitStack() as stack:
        cm = await stack.enter_async_context(one_host(path / "cm", central, overrides={**KNOWN, **knobs}))
        await cm.start("collector")
        benches = []
        for number in range(machines):
            farm, host = Farm(), network.host(f"e{number}.pool.test", duties={"execute"})
            there = {**KNOBS, **knobs, "CONDOR_HOST": central.name, "DAEMON_LIST": "MASTER STARTD"}
            one = one_host(path / host.name, host, overrides=there, zygote=farm)
            benches.append(Bench(await stack.enter_async_context(one), farm))
            await benches[-1].host.start("startd")
        yield cm, benches


def drains_of(bench: Bench) -> int:
    log = (bench.host.directory / "log" / "StartLog").read_text()
    return log.count(f"Draining (graceful): Defrag {NAME}")


async def test_the_central_manager_drains_other_hosts_and_no_more_than_may_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    knobs = {
        "MAXJOBRETIREMENTTIME": "100000",
        "DEFRAG_DRAINING_MACHINES_PER_HOUR": "240",
        "DEFRAG_MAX_CONCURRENT_DRAINING": "2",
        "DEFRAG_REQUIREMENTS": 'Machine != "e0.pool.test"',
    }
    async with a_pool(tmp_path, 4, **knobs) as (cm, benches), AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(a_busy_machine(bench, cm, jobs=1))
        await until(cm, "Machine", "PartitionableSlot && Cpus == 3", count=4)
        await cm.start("defrag")
        ad = await until(cm, "Defrag", "MachinesDraining >= 1")
        await trio.sleep(300)
        assert [drains_of(bench) for bench in benches][0] == 0
        assert sum(drains_of(bench) for bench in benches) == 2
        assert (ad["DrainSuccesses"], ad["DrainFailures"], ad["MachinesDrainingPeak"]) == (2, 0, 2)
        assert "2 machines are draining, and DEFRAG_MAX_CONCURRENT_DRAINING is 2." in said(cm)


async def test_a_startd_out_of_reach_costs_the_others_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"DEFRAG_RANK": 'Machine == "e0.pool.test"', "MAXJOBRETIREMENTTIME": "100000"}
    async with a_pool(tmp_path, 2, **knobs) as (cm, benches), AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(a_busy_machine(bench, cm, jobs=1))
        await until(cm, "Machine", "PartitionableSlot && Cpus == 3", count=2)
        cm.network.network.crash("e0.pool.test")
        await cm.start("defrag")
        ad = await until_drained(cm, 1)
        assert (ad["DrainFailures"], drains_of(benches[1])) == (1, 1)
        assert "The startd of slot1@e0.pool.test does not:" in said(cm)


async def test_a_defragmenter_without_the_duty_drains_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Another host of the pool may not drain; nor may it pass for the pool's defragmenter."""
    async with a_pool(tmp_path, 2, MAXJOBRETIREMENTTIME="100000", **KNOWN) as (cm, benches), AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(a_busy_machine(bench, cm, jobs=1))
        await until(cm, "Machine", "PartitionableSlot && Cpus == 3", count=2)
        thief = await benches[0].host.start("defrag")
        await trio.sleep(100)
        log = said(benches[0].host)
        assert "The startd of slot1@e1.pool.test does not: " in log
        assert "needs ADMINISTRATOR" in log
        assert "may not publish ads of type Defrag" in log
        assert drains_of(benches[1]) == 0
        assert await cm.query("Defrag") == []
        assert thief.name == "defrag"


async def test_no_machine_drains_when_as_many_are_whole_as_shall_be(tmp_path: Path, autojump_clock: MockClock) -> None:
    knobs = {"DEFRAG_MAX_WHOLE_MACHINES": "1", "DEFRAG_MAX_CONCURRENT_DRAINING": "10", "MAXJOBRETIREMENTTIME": "0"}
    async with a_pool(tmp_path, 3, **knobs) as (cm, benches), AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(a_busy_machine(bench, cm, jobs=1))
        await until(cm, "Machine", "PartitionableSlot && Cpus == 3", count=3)
        start = await cm.start("defrag")
        await until(cm, "Defrag", "WholeMachines == 1")
        enough = "1 machines are whole, and DEFRAG_MAX_WHOLE_MACHINES is 1"
        while said(cm).count(enough) < 3:
            await trio.sleep(POLL_S)
        assert sum(map(drains_of, benches)) == 1
        start.runtime_values.update({"DEFRAG_MAX_WHOLE_MACHINES": "2"})
        async with cm.connected("defrag") as peer:
            await peer.call(Reconfigure())
        await until(cm, "Defrag", "WholeMachines == 2")
        assert sum(map(drains_of, benches)) == 2


# ---- the manual's examples


async def test_the_manuals_policy_drains_a_machine_an_hour(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The example of "Defragmenting Dynamic Slots"."""
    knobs = {
        "DEFRAG_INTERVAL": "3600",
        "DEFRAG_DRAINING_MACHINES_PER_HOUR": "1.0",
        "DEFRAG_MAX_WHOLE_MACHINES": "20",
        "DEFRAG_MAX_CONCURRENT_DRAINING": "10",
        "MAXJOBRETIREMENTTIME": "100000",
        "POLLING_INTERVAL": "600",
    }
    async with a_pool(tmp_path, 3, **knobs) as (cm, benches), AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(a_busy_machine(bench, cm, jobs=1))
        await until(cm, "Machine", "PartitionableSlot && Cpus == 3", count=3)
        await cm.start("defrag")
        for hours in range(3):
            await trio.sleep(1800)
            assert sum(map(drains_of, benches)) == hours + 1
            await trio.sleep(1800)


async def test_the_machine_of_the_highest_rank_drains_that_meets_the_requirements(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """What HTCondor's own test of condor_defrag looks at (defrag.run): DrainRank < 4, and the highest of those."""
    rank = "int(substr(Machine, 1, 1))"
    knobs = {"DEFRAG_RANK": rank, "DEFRAG_REQUIREMENTS": f"{rank} < 4", "MAXJOBRETIREMENTTIME": "100000"}
    async with a_pool(tmp_path, 5, **knobs) as (cm, benches), AsyncExitStack() as stack:
        for bench in benches:
            await stack.enter_async_context(a_busy_machine(bench, cm, jobs=1))
        await until(cm, "Machine", "PartitionableSlot && Cpus == 3", count=5)
        await cm.start("defrag")
        await until_drained(cm, 1)
        assert [drains_of(bench) for bench in benches] == [0, 0, 0, 1, 0]
        await until_drained(cm, 2)
        assert [drains_of(bench) for bench in benches] == [0, 0, 1, 1, 0]
