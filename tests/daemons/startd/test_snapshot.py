"""A snapshot of a startd: its slots' ads with the job ads of their claims, without what opens a claim."""

from __future__ import annotations

from pathlib import Path

from trio.testing import MockClock

from pool.classad import ClassAd
from protocol.messages.collector import QueryAds
from tests.daemons.startd.schedd import Bench, a_bench, a_job
from tests.own_attributes import own


async def asked(bench: Bench, constraint: str | None = None) -> list[ClassAd]:
    query = QueryAds(ad_type="Machine", constraint=constraint, snapshot=True)
    async with bench.host.connected("startd") as peer, peer.stream(query) as batches:
        return [ad async for batch in batches for ad in batch.ads]


async def test_each_slot_is_followed_by_the_job_of_its_claim(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        job = a_job(RunsFor=1000, **own(ClaimId="secret", Stage=3))
        held = await schedd.claim(await bench.offer(), job)
        await schedd.run(held, job)
        await bench.until_running()
        ads = await asked(bench)
        assert [ad["MyType"] for ad in ads] == ["Machine", "Machine", "Slot.Claim"]
        assert (ads[2]["Name"], ads[2]["Stage"]) == (ads[1]["Name"], 3)
        assert "secret" not in "".join(ad.long() for ad in ads)


async def test_a_constraint_may_be_about_the_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_bench(tmp_path) as bench, bench.schedd() as schedd:
        job = a_job(RunsFor=1000, **own(Stage=3))
        await schedd.run(await schedd.claim(await bench.offer(), job), job)
        await bench.until_running()
        assert [ad["MyType"] for ad in await asked(bench, "Stage == 3")] == ["Machine", "Slot.Claim"]
        assert await asked(bench, "Stage == 4") == []
