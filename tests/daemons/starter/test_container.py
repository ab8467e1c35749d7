"""Jobs in containers: a real starter and a scripted engine, whose containers are processes that are not the starter's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.common import StopHow
from protocol.messages.live import OpenShell, TailFiles
from protocol.messages.shadow import JobExecuting, JobUpdate
from protocol.messages.starter import ContinueJob, EngineTrouble, SuspendJob
from tests.fakes.engine import ScriptedEngine, scripted_engine

from .bench import SLOT, Bench, bench, job_user

IMAGE = "busybox:latest"


@pytest.fixture(scope="module")
def shared() -> Iterator[ScriptedEngine]:
    with scripted_engine() as engine:
        yield engine


@pytest.fixture
def engine(shared: ScriptedEngine) -> ScriptedEngine:
    shared.reset(IMAGE)
    return shared


def settings(engine: ScriptedEngine, **knobs: str) -> dict[str, Any]:
    return {"docker": {"DOCKER": str(engine.program), **knobs}}


def contained(b: Bench, command: str = "", **attributes: Any) -> ClassAd:
    given = {"WantDocker": True, "DockerImage": "busybox", "JobUniverse": 5, "User": f"{job_user()}@test", **attributes}
    return b.job_ad(command, **given)


async def until_file(path: Any, text: str) -> None:
    with trio.fail_after(60):
        while not path.exists() or text not in path.read_text():
            await trio.sleep(0.02)


async def test_a_job_runs_in_a_container_and_leaves_none(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        end = await b.ended(await b.run(contained(b, "echo hello; echo oops >&2; pwd; exit 3")))
        assert end.ending is Ending.EXITED
        assert end.ad.eval_int("ExitCode") == 3
        assert (b.iwd / "out").read_text() == f"hello\n{b.iwd}\n"
        assert (b.iwd / "err").read_text() == "oops\n"
        assert [words[0] for words in engine.calls()][:5] == ["image", "version", "images", "pull", "image"]
        (created,) = engine.calls("create")
        assert created[created.index("--name") + 1] == f"HTCJob1_1_{SLOT.partition('@')[0]}_PID{b.starter.pid}"
        assert engine.containers() == []
        assert b.is_cleared
        assert list((b.root / "run" / "containers").iterdir()) == []


async def test_the_second_job_finds_its_users_image_and_another_user_pulls_it(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        for _ in range(2):
            await b.ended(await b.run(contained(b, "true")))
        assert len(engine.calls("pull")) == 1
        await b.ended(await b.run(contained(b, "true", User="other@test")))
        assert len(engine.calls("pull")) == 2
        names = engine.ask("images").stdout
        assert f"htcondor.org/{job_user()}_at_test/{IMAGE}" in names
        assert f"htcondor.org/other_at_test/{IMAGE}" in names


async def test_input_and_files_come_to_the_container_and_back(engine: ScriptedEngine) -> None:
    async with bench(agent=True, **settings(engine)) as b:
        (b.iwd / "program").write_text("#!/bin/sh\necho program in $PWD; cat; cat data; echo made > made; exit 5\n")
        (b.iwd / "program").chmod(0o755)
        (b.iwd / "data").write_text("data\n")
        (b.iwd / "given").write_text("given\n")
        job = contained(
            b,
            Cmd="program",
            Arguments="",
            TransferExecutable=True,
            In="given",
            TransferInput="data",
            ShouldTransferFiles="YES",
            WhenToTransferOutput="ON_EXIT",
        )
        end = await b.ended(await b.run(job, files=True))
        assert end.ad.eval_int("ExitCode") == 5, end
        assert (b.iwd / "out").read_text() == f"program in {b.sandbox}\ngiven\ndata\n"
        assert (b.iwd / "made").read_text() == "made\n"
        (created,) = engine.calls("create")
        assert created[-2:] == [IMAGE, "./program"]
        assert "--interactive" in created
        # A podman that is not root's has no rights to look into the starter by /proc.
        assert created[created.index("--env-file") + 1] == "/dev/stdin"


async def test_the_sandbox_is_where_container_target_dir_says(engine: ScriptedEngine) -> None:
    async with bench(agent=True, **settings(engine)) as b:
        job = contained(
            b,
            "echo $_CONDOR_SCRATCH_DIR $TMPDIR; echo made > made",
            ContainerTargetDir="/data/here",
            ShouldTransferFiles="YES",
            WhenToTransferOutput="ON_EXIT",
        )
        await b.ended(await b.run(job, files=True))
        assert (b.iwd / "out").read_text() == "/data/here /data/here\n"
        assert (b.iwd / "made").exists()


HELD: list[tuple[dict[str, Any], int, str]] = [
    ({"DockerImage": "no/such"}, 35, "Cannot pull image no/such:latest Error response from daemon: pull access"),
    ({"DockerImage": "--privileged"}, 35, "'--privileged' is not the name of an image"),
    ({"DockerImage": ""}, 35, "The job names no image"),
    ({"Cmd": "/no/such/program"}, 6, 'Error running docker job: exec: "/no/such/program": No such file'),
    ({"In": "missing"}, 8, "missing"),
    ({"Out": "no/such/out"}, 7, "no/such/out"),
    ({"Iwd": "/no/such/directory"}, 14, "/no/such/directory"),
    ({"DockerNetworkType": "secret"}, 6, "does not let jobs use the docker network 'secret'"),
    ({"ContainerServiceNames": "web"}, 6, "web_container_port"),
    ({"Environment": "SCRIPTED_OOM=1"}, 34, "Docker job has gone over memory limit of 256 Mb"),
    ({"WantDocker": False, "WantContainer": True, "ContainerImage": "x.sif"}, 35, "x.sif is a Singularity image"),
]


async def test_what_cannot_be_is_held_with_a_reason(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        for attributes, code, words in HELD:
            end = await b.ended(await b.run(contained(b, "true", **attributes)))
            assert end.ending is Ending.HOLD, (attributes, end)
            assert end.ad.eval_int("HoldReasonCode") == code, (attributes, end)
            assert words in (end.ad.eval_str("HoldReason") or ""), (attributes, end)
            assert engine.containers() == []
            assert b.is_cleared


async def test_where_the_engine_does_not_keep_why_a_program_did_not_start_its_words_do(engine: ScriptedEngine) -> None:
    (engine.directory / "taciturn").touch()
    async with bench(**settings(engine)) as b:
        end = await b.ended(await b.run(contained(b, "true", Cmd="/no/such/program")))
        assert end.ad.eval_int("HoldReasonCode") == 6
        assert 'Error response from daemon: exec: "/no/such/program": No such file' in end.reason


async def test_an_image_for_other_processors_is_held(engine: ScriptedEngine) -> None:
    engine.registry("foreign:latest")
    (engine.directory / "architecture").write_text("riscv64")
    if os.uname().machine != "x86_64":
        pytest.skip("it is told only on x86_64")
    async with bench(**settings(engine)) as b:
        end = await b.ended(await b.run(contained(b, "true", DockerImage="foreign")))
        assert end.ad.eval_int("HoldReasonCode") == 35
        assert "riscv64" in end.ad.eval_str("HoldReason", "")
    async with bench(**settings(engine, DOCKER_SKIP_IMAGE_ARCH_CHECK="true")) as b:
        end = await b.ended(await b.run(contained(b, "true", DockerImage="foreign")))
        assert end.ad.eval_int("ExitCode") == 0


async def test_asked_to_leave_the_container_gets_the_jobs_signal_and_its_time(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        job = contained(
            b, 'trap "echo bye > bye; exit 0" QUIT; echo up; while :; do sleep 0.05; done', KillSig="SIGQUIT"
        )
        activation = await b.run(job)
        await b.until(JobExecuting, activation)
        await until_file(b.iwd / "out", "up")
        await b.stop(activation, StopHow.GRACEFUL, reason="because")
        end = await b.ended(activation)
        assert end.ending is Ending.EVICTED
        assert end.reason == "because"
        assert (b.iwd / "bye").read_text() == "bye\n"
        assert engine.containers() == []


async def test_a_container_that_does_not_leave_is_killed_and_a_hold_is_a_hold(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        activation = await b.run(contained(b, 'trap "" TERM; echo up; while :; do sleep 0.05; done'))
        await b.until(JobExecuting, activation)
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=0.2, reason="too hot", hold_code=21)
        end = await b.ended(activation)
        assert end.ending is Ending.HOLD
        assert end.ad.eval_int("HoldReasonCode") == 21
        assert engine.containers() == []
        assert engine.processes() == []


async def test_suspension_pauses_the_container(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        assert b.startd is not None
        activation = await b.run(contained(b, "echo up; exec sleep 600"))
        await b.until(JobExecuting, activation)
        await b.startd.call(SuspendJob(activation=activation))
        await b.startd.call(ContinueJob(activation=activation))
        await b.startd.call(SuspendJob(activation=activation))
        with trio.fail_after(60):
            while [words[0] for words in engine.calls() if "pause" in words[0]] != ["pause", "unpause", "pause"]:
                await trio.sleep(0.02)
        await b.stop(activation, StopHow.GRACEFUL, vacate_s=60.0)
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert engine.processes() == []


async def test_usage_and_ports_are_reported_while_it_runs(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 600"
        job = contained(b, burn, ContainerServiceNames="web", web_ContainerPort=80)
        activation = await b.run(job)
        with trio.fail_after(60):
            count = 1
            while (update := await b.until(JobUpdate, activation, count)).ad.eval_float("RemoteUserCpu", 0.0) < 0.02:
                count += 1
        assert update.ad.eval_int("ResidentSetSize") > 0
        assert update.ad.eval_int("NumPids") == 1
        assert update.ad.eval_int("web_HostPort") == 40080
        await b.stop(activation, StopHow.FAST)
        await b.ended(activation)


async def test_an_engine_that_is_gone_sends_the_job_elsewhere_and_ends_its_processes(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        activation = await b.run(contained(b, "echo up; exec sleep 600"))
        await b.until(JobExecuting, activation)
        assert len(engine.processes()) == 1
        engine.stop()
        end = await b.ended(activation)
        assert end.ending is Ending.FAILED
        assert "Cannot inspect the container, since the engine is gone" in end.reason
        trouble = await b.until(EngineTrouble, activation)
        assert "Is the docker daemon running" in trouble.reason
        with trio.fail_after(60):
            while engine.processes():  # they were killed, and nobody can be asked when they are gone
                await trio.sleep(0.02)


async def test_a_job_is_told_to_leave_while_its_image_is_pulled(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        engine.fails("pull", "hang")
        activation = await b.run(contained(b, "true"))
        with trio.fail_after(60):
            while not engine.calls("pull"):
                await trio.sleep(0.02)
        await b.stop(activation, StopHow.FAST, reason="go")
        assert (await b.ended(activation)).ending is Ending.EVICTED
        assert engine.calls("create") == []


async def test_a_container_that_cannot_be_removed_stays_on_record(engine: ScriptedEngine) -> None:
    async with bench(**settings(engine)) as b:
        engine.fails("rm", "driver is busy")
        end = await b.ended(await b.run(contained(b, "exit 4")))
        assert end.ad.eval_int("ExitCode") == 4
        (record,) = (b.root / "run" / "containers").iterdir()
        assert record.name.startswith(f"{b.starter.pid}.HTCJob")
        assert "driver is busy" in b.log()


async def test_images_make_room_for_others(engine: ScriptedEngine) -> None:
    engine.registry(IMAGE, "debian:12")
    async with bench(**settings(engine, DOCKER_IMAGE_CACHE_SIZE="1")) as b:
        for image in ("busybox", "debian:12"):
            await b.ended(await b.run(contained(b, "true", DockerImage=image)))
        left = [line.split()[0] for line in engine.ask("images").stdout.splitlines()]
        assert sorted(left) == ["debian:12", f"htcondor.org/{job_user()}_at_test/debian:12"]


async def test_its_owner_looks_at_its_output_and_into_it(engine: ScriptedEngine) -> None:
    async with bench(ssh_to_job="true", peek_job="true", **settings(engine)) as b:
        activation = await b.run(contained(b, "echo up; exec sleep 600", Environment="MARK=inside"))
        await b.until(JobExecuting, activation)
        await until_file(b.iwd / "out", "up")
        job, starter = JobId(1, 1), b.callers[-1]
        tails = await starter.call(TailFiles(job_id=job, activation=activation))
        assert [tail.data for tail in tails.tails] == [b"up\n"]
        request = OpenShell(job_id=job, activation=activation, shell="one", command="echo $MARK; exit 3")
        async with starter.stream(request) as items:
            said = [item async for item in items]
        assert b"".join(item.data for item in said) == b"inside\n"
        assert said[-1].status is not None
        assert os.waitstatus_to_exitcode(said[-1].status) == 3
        (entered,) = engine.calls("exec")
        assert entered[:2] == ["exec", "-i"]
        await b.stop(activation, StopHow.FAST)
        await b.ended(activation)


async def test_the_machines_owner_puts_a_job_that_asks_for_nothing_into_an_image(engine: ScriptedEngine) -> None:
    knobs = {"USE_DEFAULT_CONTAINER": "TARGET.Plain isnt true", "DEFAULT_CONTAINER_IMAGE": '"docker://busybox"'}
    async with bench(**settings(engine, **knobs)) as b:
        await b.ended(await b.run(b.job_ad("grep ^DockerImage $_CONDOR_JOB_AD", User="u@test")))
        assert (b.iwd / "out").read_text() == 'DockerImage = "busybox"\n'
        assert len(engine.calls("create")) == 1
        await b.ended(await b.run(b.job_ad("true", User="u@test", Plain=True)))
        assert len(engine.calls("create")) == 1
