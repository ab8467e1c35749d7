"""Ads that are too large: refused where they come, and named to who sends them."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

from pool.classad import ClassAd, expr
from protocol.messages.schedd import EditJobs, Selection
from protocol.messages.submit import SubmitJobs
from protocol.rpc.endpoints import RemoteError
from protocol.wire.ad_table import pack_table
from protocol.wire.codec import pack_ads
from tests.daemons.schedd.bench import a_bench, a_job

Clock = trio.testing.MockClock

LARGE = "x" * 7_500_000
MANY = {f"Large{i}": LARGE for i in range(4)}


@pytest.mark.parametrize(
    ("cluster", "procs"),
    [
        (a_job(**MANY), [pack_ads([ClassAd()])]),
        (a_job(), [pack_ads([ClassAd(MANY)])]),
        (a_job(), [pack_table([*MANY], [[value, value] for value in MANY.values()], 2, {})]),
        (a_job(Deep=[ClassAd({"a": [LARGE]})]), []),
        (a_job(**{f"N{i}": 1 for i in range(6_000)}), []),
    ],
    ids=["cluster", "job", "table", "nested", "attributes"],
)
async def test_jobs_that_are_too_large_are_refused(
    autojump_clock: Clock, tmp_path: Path, cluster: ClassAd, procs: list[bytes]
) -> None:
    async with a_bench(tmp_path) as bench:
        async with bench.connected() as peer:
            with pytest.raises(RemoteError, match=r"at most (4194304|5000)"):
                await peer.call(SubmitJobs(cluster_ad=cluster, procs=procs))
        assert await bench.ads() == {}


async def test_a_job_of_one_megabyte_is_taken(autojump_clock: Clock, tmp_path: Path) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(Environment="A=" + "x" * 1_000_000))
        assert len(await bench.ads()) == 1


async def test_a_job_grows_no_further_by_edits(autojump_clock: Clock, tmp_path: Path) -> None:
    async with a_bench(tmp_path, MAX_JOB_AD_BYTES="200000") as bench:
        cluster = await bench.submit(a_job())
        select = Selection(ids=[str(cluster)])
        async with bench.connected() as peer:
            await peer.call(EditJobs(select=select, assignments={"One": f'"{"x" * 100_000}"'}))
            with pytest.raises(RemoteError, match=r"job 1\.0 would be too large.*at most 200000"):
                await peer.call(EditJobs(select=select, assignments={"Two": f'"{"x" * 150_000}"'}))
        assert "Two" not in (await bench.ads())["1.0"]


async def test_one_message_brings_so_many_new_expressions(autojump_clock: Clock, tmp_path: Path) -> None:
    many = {f"New{i}": expr("1 + " * 1_500 + f"nobody_has_sent_{i}") for i in range(60)}
    packed = pack_ads([ClassAd(many)])
    from pool.classad.eval.expression import _INTERNED

    async with a_bench(tmp_path) as bench, bench.connected() as peer:
        _INTERNED.young.clear()
        with pytest.raises(RemoteError, match="too many expressions that were not known"):
            await peer.call(SubmitJobs(cluster_ad=a_job(), procs=[packed]))


async def test_a_submission_whose_jobs_cost_too_much_is_refused(autojump_clock: Clock, tmp_path: Path) -> None:
    rules = {"JOB_TRANSFORM_NAMES": "T", "JOB_TRANSFORM_T": "EVALSET Out Number + Trap"}
    trap = expr(" || ".join(f"member({-i - 1}, L)" for i in range(200)))
    procs = [pack_ads([ClassAd({"Number": i}) for i in range(at, at + 100)]) for at in (0, 100)]
    async with a_bench(tmp_path, **rules) as bench:
        async with bench.connected() as peer:
            with pytest.raises(RemoteError, match="too much processor time"):
                await peer.call(SubmitJobs(cluster_ad=a_job(L=list(range(1_000)), Trap=trap), procs=procs))
        assert await bench.ads() == {}
