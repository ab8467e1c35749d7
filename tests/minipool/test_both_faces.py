"""What the Python API does alike for scripts and over trio: each test runs over both faces."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import minipool
from tests.minipool.conftest import Opens

LOOK_S = 3.0
"""How long a wait lasts that is to end in vain, after what it waits for has been looked at."""
HELD: dict[str, Any] = {"executable": "/bin/true", "hold": True, "transfer_executable": False}


def over(opens: Opens, body: Callable[[Any], Awaitable[None]]) -> None:
    """Run the body with a pool."""

    async def main() -> None:
        async with opens() as pool:
            await body(pool)

    trio.run(main)


def test_no_items_are_no_jobs(opens: Opens) -> None:
    nothing = minipool.Submit(executable="/bin/true", transfer_executable=False, items=[])

    async def body(pool: Any) -> None:
        before = len(await pool.jobs())
        for description in (nothing, "executable = /bin/true\nqueue x from (\n)\n"):
            with pytest.warns(minipool.SubmitWarning, match="no jobs queued"):
                assert await pool.submit(description) == []
        assert len(await pool.jobs()) == before

    over(opens, body)


def test_nothing_is_done_to_no_jobs(opens: Opens) -> None:
    async def body(pool: Any) -> None:
        [job] = await pool.submit(HELD)
        assert await pool.remove(*[]) == await pool.remove([]) == await pool.hold() == await pool.release([]) == 0
        assert await pool.edit(JobPrio=7) == await pool.edit([], JobPrio=7) == 0
        assert (await job.status(), (await job.ad()).eval_int("JobPrio", 0)) == (minipool.Status.HELD, 0)
        assert await pool.jobs([]) == await pool.history([]) == await pool.wait([]) == []
        assert [state async for state in pool.watch([])] == []
        assert await pool.remove(constraint=f"ClusterId == {job.id.cluster}") == 1

    over(opens, body)


def test_what_is_made_later_or_left_long_ago_has_results(opens: Opens) -> None:
    late = minipool.Submit(executable="/bin/false", max_materialize=1, should_transfer_files="NO")

    async def body(pool: Any) -> None:
        jobs = await pool.submit(late, count=3)
        assert [job.id.proc for job in jobs] == [0, 1, 2]
        for _ in range(2):
            assert [result.exit_code for result in await pool.wait(jobs)] == [1, 1, 1]
        assert [result.id for result in await pool.wait(jobs[0].id.cluster)] == [job.id for job in jobs]
        assert [state.left async for state in jobs[0].follow()] in ([], [True])

    over(opens, body)


def test_a_job_that_is_nowhere_is_named(opens: Opens) -> None:
    async def body(pool: Any) -> None:
        job = pool.job(4711)
        for ask in (job.ad, job.result, job.status):
            with pytest.raises(minipool.UnknownJob, match=r"4711\.0"):
                await ask()
        with pytest.raises(minipool.NotDone, match=r"4711\.0"):
            await job.remove()

    over(opens, body)


def test_what_could_not_be_done_to_one_of_two_jobs_was_done_to_the_other(opens: Opens) -> None:
    async def body(pool: Any) -> None:
        [job] = await pool.submit(HELD)
        with pytest.raises(minipool.NotDone, match=r"could not remove: 4711\.0 \(not found\)"):
            await pool.remove([job.id, "4711.0"])
        assert (await job.result()).status is minipool.Status.REMOVED

    over(opens, body)


def test_the_cluster_is_known_to_the_description(opens: Opens, here: Path) -> None:
    description = {**HELD, "output": "$(Cluster).$(Process).out", "arguments": "$(ClusterId)"}

    async def body(pool: Any) -> None:
        jobs = await pool.submit(description, count=2)
        cluster = jobs[0].id.cluster
        assert cluster > 1
        ads = await pool.jobs(jobs)
        assert [ad["Out"] for ad in ads] == [f"{cluster}.0.out", f"{cluster}.1.out"]
        assert {str(ad.eval("Args")) for ad in ads} == {str(cluster)}
        await pool.remove(jobs)

    over(opens, body)


def test_every_wait_ends_in_time_and_says_what_is_held(opens: Opens) -> None:
    async def body(pool: Any) -> None:
        [job] = await pool.submit(HELD)
        with pytest.warns(minipool.JobHeldWarning, match=f"{job.id} is on hold: submitted on hold"):
            with pytest.raises(minipool.TimedOut, match=f"{job.id} is on hold"):
                await job.result(timeout=LOOK_S)
        with warnings.catch_warnings():
            warnings.simplefilter("error", minipool.JobHeldWarning)
            with pytest.raises(minipool.JobHeldWarning):
                await job.result(timeout=30)
        with pytest.raises(minipool.TimedOut):
            async for _ in pool.watch(timeout=0.5):
                pass
        assert [ad["ProcId"] for ad in await pool.jobs(str(job.id), timeout=30)] == [0]
        await job.remove(timeout=30)

    over(opens, body)


def test_a_job_that_cannot_be_named_is_refused_where_it_is_watched(opens: Opens) -> None:
    async def body(pool: Any) -> None:
        with pytest.raises(minipool.PoolError, match="no-such-job"):
            pool.watch("no-such-job")

    over(opens, body)


def test_a_closed_pool_says_so(opens: Opens) -> None:
    async def main() -> None:
        async with opens() as pool:
            [job] = await pool.submit(HELD)
            await job.remove()
        for ask in (pool.jobs, job.remove, lambda: pool.submit(HELD)):
            with pytest.raises(minipool.PeerError, match="this pool has been closed"):
                await ask()

    trio.run(main)


def test_slots_are_asked_of_the_collector(opens: Opens) -> None:
    async def body(pool: Any) -> None:
        slots = await pool.ads(
            "Machine", constraint="PartitionableSlot", projection=["Name", "TotalSlotCpus"], timeout=30
        )
        assert [slot["TotalSlotCpus"] for slot in slots] == [4]
        assert "Memory" not in slots[0]

    over(opens, body)


MISSPELT = minipool.Submit({**HELD, "ouput": "x"})


def test_a_warning_is_given_at_the_line_that_called(here: Path) -> None:
    def lines(caught: list[warnings.WarningMessage]) -> set[str]:
        return {one.filename for one in caught if one.category in (minipool.SubmitWarning, minipool.JobHeldWarning)}

    async def main() -> None:
        async with minipool.open_pool() as pool:
            [job] = await pool.submit(MISSPELT)
            with pytest.raises(minipool.TimedOut):
                await job.result(timeout=LOOK_S)
            await job.remove()

    with warnings.catch_warnings(record=True) as over_trio:
        warnings.simplefilter("always")
        trio.run(main)
    with warnings.catch_warnings(record=True) as blocking, minipool.connect() as pool:
        warnings.simplefilter("always")
        [job] = pool.submit(MISSPELT)
        with pytest.raises(minipool.TimedOut):
            job.result(timeout=LOOK_S)
        job.remove()
    assert len(over_trio) == len(blocking) == 2
    assert lines(over_trio) == lines(blocking) == {__file__}


def test_what_connects_returns_the_classes_of_the_package(here: Path) -> None:
    async def main() -> None:
        async with minipool.open_pool() as pool:
            assert type(pool) is minipool.AsyncPool
            assert type(pool.job(1)) is minipool.AsyncJob

    trio.run(main)
    with minipool.connect() as pool:
        assert type(pool) is minipool.Pool
        assert type(pool.job(1)) is minipool.Job


@pytest.mark.parametrize(
    ("blocking", "over_trio"), [(minipool.Pool, minipool.AsyncPool), (minipool.Job, minipool.AsyncJob)]
)
def test_both_faces_have_the_same_methods_and_say_what_they_do(blocking: type, over_trio: type) -> None:
    def methods(kind: type) -> dict[str, Any]:
        return {name: value for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}

    ours, theirs = methods(blocking), methods(over_trio)
    ours.pop("close", None)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"job"}:
        assert inspect.signature(ours[name]) == inspect.signature(theirs[name])
        assert ours[name].__doc__
