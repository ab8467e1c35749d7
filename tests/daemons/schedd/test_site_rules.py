"""What an access point's owner may lay down for all jobs: who submits, what is edited, how long jobs rest, who is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio.testing

from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.common import StopHow
from protocol.messages.schedd import Action, EditJobs, Selection, SetUsers, UserAction
from protocol.rpc.endpoints import RemoteError
from tests.daemons.schedd.bench import USER, Bench, a_bench, a_job
from tests.whole.real_pool import pool_directory

Clock = trio.testing.MockClock


async def edit(bench: Bench, name: str, value: str, user: str = USER) -> None:
    async with bench.connected(user) as peer:
        await peer.call(EditJobs(select=Selection(ids=["1.0"]), assignments={name: value}))


async def test_protected_attributes_are_changed_by_super_users_alone(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, PROTECTED_JOB_ATTRS="Project", IMMUTABLE_JOB_ATTRS="Site") as bench:
        await bench.submit(a_job(Project="a", Site="b", AuthTokenSubject="me"), {"OsUser": "root", "Args": "x"})
        with pytest.raises(RemoteError, match='protected attribute "Project"'):
            await edit(bench, "Project", '"c"')
        with pytest.raises(RemoteError, match='immutable attribute "Site"'):
            await edit(bench, "Site", '"c"', user="root")
        await edit(bench, "Project", '"c"', user="root")
        ad = await bench.ad("1.0")
        assert (ad["Project"], ad["Site"], ad["Args"]) == ("c", "b", "x")
        assert "AuthTokenSubject" not in ad
        assert "OsUser" not in ad


async def test_only_known_users_submit_where_that_is_wanted(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path, ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY="true") as bench:
        with pytest.raises(RemoteError, match=f"Unknown User {USER}. Use condor_qusers"):
            await bench.submit(a_job())
        async with bench.connected("root") as peer:
            await peer.call(SetUsers(users=[USER], action=UserAction.ADD))
        await bench.submit(a_job())


@pytest.mark.parametrize(
    ("knob", "wish", "how"),
    [
        ("true", {}, StopHow.GRACEFUL),
        ("false", {}, StopHow.FAST),
        ("false", {"WantGracefulRemoval": True}, StopHow.GRACEFUL),
        ("true", {"WantGracefulRemoval": False}, StopHow.FAST),
    ],
)
async def test_removal_is_as_gentle_as_site_and_job_want(
    tmp_path: Path, autojump_clock: Clock, knob: str, wish: dict[str, object], how: StopHow
) -> None:
    async with a_bench(tmp_path, GRACEFULLY_REMOVE_JOBS=knob) as bench:
        await bench.submit(a_job(RunsFor=1000, **wish))
        startd = await bench.startd()
        await bench.match(startd)
        await bench.until_status(running=1)
        running = next(iter(startd.running.values()))
        await bench.act(Action.REMOVE, "1.0")
        await bench.until(lambda: bool(running.stops))
        assert running.stops[0].how is how


async def test_a_job_that_had_to_leave_rests_also_over_a_restart(tmp_path: Path, autojump_clock: Clock) -> None:
    expression = "VacateReasonCode == 1026 ? 0 : 400 * (NumJobStarts < 2)"
    async with a_bench(tmp_path, SYSTEM_ON_VACATE_COOL_DOWN=expression) as bench:
        await bench.submit(a_job(RunsFor=1000))
        startd = await bench.startd()
        await bench.match(startd)
        await bench.until_status(running=1)
        left_at = trio.current_time()
        await bench.act(Action.VACATE, "1.0")
        await bench.until_status(idle=1)
        ad = await bench.ad("1.0")
        assert ad["NumJobCoolDowns"] == 1
        assert ad.eval_int("JobCoolDownExpiration", 0) > bench.host.world.wall() + 300
        await bench.restart()
        another = await bench.startd("two")
        await bench.match(another)
        await bench.until_status(running=1)
        assert trio.current_time() - left_at >= 399


async def test_a_job_whose_image_fails_its_test_waits_longer_each_time(tmp_path: Path, autojump_clock: Clock) -> None:
    async with a_bench(tmp_path) as bench:
        await bench.submit(a_job(HoldWith=45, HoldReasonSub=-1000))
        waits: list[int] = []
        for times in range(1, 9):
            startd = await bench.startd(f"number{times}")
            await bench.match(startd)
            with trio.fail_after(100):
                while (await bench.ad("1.0")).eval_int("NumVacates", 0) < times:
                    await trio.sleep(0.01)
            began, bench.announced = trio.current_time(), None
            with trio.fail_after(100):
                while bench.announced is None or not bench.announced.requests:
                    await trio.sleep(0.05)
            waits.append(round(trio.current_time() - began))
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
        assert await bench.statuses() == Counter({JobStatus.IDLE: 1})


async def test_mail_goes_through_sendmail_to_the_sites_domain(tmp_path: Path, autojump_clock: Clock) -> None:
    with pool_directory() as directory:
        directory.chmod(0o1777)  # the program runs as the job's owner
        box, program = directory / "box", directory / "sendmail"
        program.write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} > {box}.new\nmv {box}.new {box}\n')
        program.chmod(0o755)
        knobs = {
            "SENDMAIL": str(program),
            "MAIL": "/bin/false",
            "EMAIL_DOMAIN": "lab.test",
            "MAIL_FROM": "pool@lab.test",
        }
        async with a_bench(tmp_path, **knobs) as bench:
            await bench.submit(a_job(JobNotification=2))
            await bench.match(await bench.startd())
            await bench.until(box.exists)
            head, _, body = box.read_text().partition("\n\n")
            to = f"{USER}@lab.test"
            assert head.splitlines()[:3] == [f"-oi -f pool@lab.test -- {to}", "From: pool@lab.test", f"To: {to}"]
            assert "exited normally" in body
