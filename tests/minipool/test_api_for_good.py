"""The Python API against a real pool whose daemons come and go, from threads, after a fork, and for asyncio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import trio

import minipool
from minipool.client.model import Status
from minipool.client.patience import Attempts
from minipool.client.steps import All, Begin, Call, Connect, Do, Next, Step, Steps
from protocol.messages.schedd import QueryJobs, Selection, WatchJobs
from protocol.messages.submit import ReserveCluster
from protocol.rpc.remote import ConnectionLost
from tests.whole.real_pool import RealPool

WAIT_S = 240


def gated(here: Path, name: str) -> tuple[minipool.Submit, Path]:
    """A job that ends when a file is there."""
    gate = here / f"go-{name}"
    gate.unlink(missing_ok=True)
    script = f"until [ -e {gate} ]; do sleep 0.1; done; exit 3"
    return minipool.Submit(
        executable="/bin/sh", arguments=["-c", script], transfer_executable=False, should_transfer_files="NO"
    ), gate


def in_background(do: Callable[[], object]) -> Callable[[], object]:
    """Do it in a thread; what is returned gives its result, or raises what it raised."""
    came: list[object] = []

    def body() -> None:
        try:
            came.append(do())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def result() -> object:
        thread.join(WAIT_S / 2)
        assert came, "it goes on and on"
        if isinstance(came[0], BaseException):
            raise came[0]
        return came[0]

    return result


def test_waits_watches_and_the_connection_outlive_the_schedd(running: RealPool, here: Path) -> None:
    description, gate = gated(here, "blocking")
    with minipool.connect() as pool, minipool.connect() as other:
        [job] = pool.submit(description)
        running.until(lambda: job.status() is Status.RUNNING, "the job to run")
        waited = in_background(lambda: [one.exit_code for one in other.wait([str(job.id)])])
        states = job.follow()
        assert next(states).status is Status.RUNNING
        running.restart_of("schedd")
        assert pool.jobs(job.id)[0].eval_int("JobStatus") in (1, 2)
        gate.touch()
        assert waited() == [3]
        assert [state.left for state in states][-1]
        assert job.result().exit_code == 3


def test_waits_over_trio_outlive_the_schedd(running: RealPool, here: Path) -> None:
    description, gate = gated(here, "trio")

    async def main() -> None:
        async with minipool.open_pool() as pool:
            [job] = await pool.submit(description)
            async with aclosing(job.follow()) as states:
                async for state in states:
                    if state.status is Status.RUNNING:
                        break
            results: list[minipool.JobResult] = []

            async def wait() -> None:
                results.extend(await pool.wait([str(job.id)]))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.to_thread.run_sync(running.restart_of, "schedd")
                assert [ad.eval_int("JobStatus") in (1, 2) for ad in await pool.jobs(job.id)] == [True]
                gate.touch()
            assert [result.exit_code for result in results] == [3]

    trio.run(main)


def test_a_schedd_that_leaves_as_it_is_to_be_asked_is_lost_not_out_of_reach(running: RealPool, here: Path) -> None:
    """Waits and queries try again when the schedd is lost; that it cannot be reached would end them."""

    def leave() -> None:
        process = Path(f"/proc/{running.pid_of('schedd')}")
        running.tool("condor_off", "-daemon", "schedd")
        running.until(lambda: not process.exists(), "the schedd to leave")

    def come_back() -> None:
        running.tool("condor_on", "-daemon", "schedd")
        running.until(lambda: running.pid_of("schedd"), "the schedd to be back")

    def answered(step: Step, patience: Attempts) -> Steps[None]:
        items = yield step
        yield Next(items=items, patience=patience)

    def asked() -> Steps[None]:
        patience, all_jobs = Attempts(0.0, None), Selection(all=True)
        steps = (
            Begin(request=WatchJobs(select=all_jobs), patience=patience),
            All(request=QueryJobs(select=all_jobs), patience=patience),
            Call(request=ReserveCluster(), timeout=None),
        )
        yield Connect(patience=patience)
        yield Do(function=leave)
        try:
            for step in steps:
                with pytest.raises(ConnectionLost):
                    yield from answered(step, patience)
        finally:
            come_back()

    async def over_trio() -> None:
        async with minipool.open_pool() as pool:
            await pool._line.perform(asked())

    trio.run(over_trio)
    with minipool.connect() as pool:
        pool._lines.perform(asked())


@pytest.mark.parametrize("tool", [("pool", "watch"), ("condor_watch_q", "-clusters")])
def test_the_tool_that_watches_outlives_the_schedd(running: RealPool, here: Path, tool: tuple[str, ...]) -> None:
    description, gate = gated(here, tool[0])
    with minipool.connect() as pool:
        [job] = pool.submit(description)
        program = [str(Path(sys.executable).with_name(tool[0])), *tool[1:], str(job.id.cluster)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            for line in watching.stdout:
                if "1 running" in line:
                    break
            running.restart_of("schedd")
            gate.touch()
            rest = watching.stdout.read()
            assert watching.wait(WAIT_S / 2) == 0, watching.stderr.read()
        assert "1 of 1 done" in rest


def test_a_schedd_that_stays_away_is_given_up_in_time(running: RealPool, here: Path) -> None:
    with minipool.connect() as pool:
        schedd = Path(f"/proc/{running.pid_of('schedd')}")
        running.tool("condor_off", "-daemon", "schedd", "-fast")
        running.until(lambda: not schedd.exists(), "the end of the schedd")
        try:
            with pytest.raises(minipool.TimedOut, match="nothing was answered within 1 s"):
                pool.jobs(timeout=1)
        finally:
            running.tool("condor_on", "-daemon", "schedd")
            running.until(lambda: running.pid_of("schedd"), "the schedd")
        assert pool.jobs("4711.0") == []


def test_jobs_are_named_as_people_name_them(here: Path) -> None:
    with minipool.connect() as pool:
        jobs = pool.submit({"executable": "/bin/false", "transfer_executable": False}, count=2)
        cluster = jobs[0].id.cluster
        assert pool.job(f"{cluster}.1").id == pool.job((cluster, 1)).id == pool.job(cluster, 1).id == jobs[1].id
        assert [result.id for result in pool.wait([f"{cluster}.1", f"{cluster}.0"])] == [jobs[1].id, jobs[0].id]
        assert [result.id for result in pool.wait([cluster])] == [job.id for job in jobs]
        assert [result.id for result in pool.wait(str(cluster))] == [job.id for job in jobs]
        assert len(list(pool.watch(jobs, forever=False))) == 0
        assert len(pool.history([cluster])) == len(pool.history(jobs)) == 2


def test_misspelt_commands_are_warned_about(here: Path) -> None:
    with minipool.connect() as pool:
        with pytest.warns(minipool.SubmitWarning, match="Did you mean 'output'"):
            pool.submit(minipool.Submit(executable="/bin/true", transfer_executable=False, ouput="x"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pool.submit(minipool.Submit(executable="/bin/true", transfer_executable=False, output="x"))


def test_a_connection_survives_a_fork(here: Path) -> None:
    with minipool.connect() as pool:
        [job] = pool.submit({"executable": "/bin/sleep", "arguments": "600", "transfer_executable": False})
        states = pool.watch(job)
        next(states)
        child = os.fork()
        if not child:
            try:
                os._exit(0 if all(len(pool.jobs(job)) == 1 for _ in range(20)) and not pool.close() else 1)  # type: ignore[func-returns-value]
            finally:
                os._exit(2)
        found = [len(pool.jobs(job)) for _ in range(20)]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert found == [1] * 20
        job.remove()
        assert any(state.left for state in states if state.left or state.status is Status.REMOVED)


def test_programs_over_asyncio_wait_in_threads(here: Path) -> None:
    async def main() -> list[int | None]:
        with minipool.connect() as pool:
            jobs = await asyncio.to_thread(
                pool.submit, {"executable": "/bin/false", "transfer_executable": False}, count=4
            )
            results = await asyncio.gather(*(asyncio.to_thread(job.result) for job in jobs))
            return [result.exit_code for result in results]

    assert asyncio.run(main()) == [1] * 4


def test_a_result_and_a_state_are_shown_in_a_line(here: Path) -> None:
    with minipool.connect() as pool:
        [job] = pool.submit({"executable": "/bin/false", "transfer_executable": False})
        assert repr(job.result()) == f"JobResult({job.id}, COMPLETED, exit_code=1)"
