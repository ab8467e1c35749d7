"""What jobs may wish for beside running: mail, attributes in their log, another try with more memory."""

from __future__ import annotations

from pathlib import Path

import trio.testing

from pool.classad import ClassAd
from tests.daemons.schedd.bench import LOG, a_bench, a_job
from tests.pool.submit.build import Place
from tests.whole.real_pool import pool_directory

Clock = trio.testing.MockClock


async def test_mail_is_sent_once_the_job_has_ended(tmp_path: Path, autojump_clock: Clock) -> None:
    with pool_directory() as directory:
        directory.chmod(0o1777)  # the program runs as the job's owner
        box, program = directory / "box", directory / "mail"
        program.write_text(f'#!/bin/sh\necho "$@" >> {box}\ncat >> {box}\n')
        program.chmod(0o755)
        async with a_bench(tmp_path, MAIL=str(program), SENDMAIL="") as bench:
            await bench.submit(a_job(JobNotification=2, NotifyUser="ann@example.org", ExitWith=3))
            await bench.match(await bench.startd())
            await bench.until(box.exists)
            await bench.until(lambda: "status 3" in box.read_text())
            assert box.read_text().startswith("-s [Condor] Condor Job 1.0 ann@example.org\n")


async def test_attributes_go_into_the_log_with_each_event(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(JobAdInformationAttrs="Tag, Missing", Tag="t"))
        await bench.match(await bench.startd())
        await bench.until_events("1.0", [0, 28, 1, 28, 5, 28])
        assert bench.agents.logs[LOG].count('\nTag = "t"\n') == 3


async def test_a_job_that_needed_more_memory_runs_again_with_more(tmp_path: Path, autojump_clock: Clock) -> None:
    text = "executable = /bin/true\nrequest_memory = 100\nretry_request_memory = 200, 400\nskip_filechecks = 1\nqueue\n"
    plan = Place(Path("/"), {}).plan(text)
    wanted = {name: value for name, value in plan.cluster_ad.items() if "etry" in name or "ransform" in name}
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(RequestMemory=100, HoldWith=34, HoldReasonSub=102, **wanted))
        startd = await bench.startd()
        await bench.match(startd)
        await bench.until_status(held=1)
        assert [order.job_ad["RequestMemory"] for order in startd.orders] == [100, 200, 400]


async def test_a_claim_is_kept_for_the_next_job(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        startd = await bench.startd()
        await bench.submit(a_job(KeepClaimIdle=500))
        await bench.match(startd)
        await bench.until_events("1.0", [0, 1, 5])
        assert startd.released == []
        await bench.submit(a_job(KeepClaimIdle=500))
        await bench.until_events("2.0", [0, 1, 5])
        began = trio.current_time()
        await bench.until(lambda: len(startd.released) == 1)
        assert trio.current_time() - began > 400


async def test_what_the_machine_was_is_kept_for_some_runs(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        ad = a_job(JobMachineAttrs="Name, OpSys", JobMachineAttrsHistoryLength=2, OnExitRemove=False, RunsFor=10)
        await bench.submit(ad)
        startd = await bench.startd(slots=2)
        await bench.match(startd, count=1)

        async def runs() -> ClassAd:
            return await bench.ad("1.0")

        with trio.fail_after(5000):
            while (await runs()).eval_int("NumJobStarts", 0) < 3:
                await trio.sleep(1)
        found = await runs()
        assert (found["MachineAttrOpSys0"], found["MachineAttrOpSys1"]) == ("LINUX", "LINUX")
        assert found["MachineAttrName0"] == "slot1@one"
        assert "MachineAttrOpSys2" not in found
