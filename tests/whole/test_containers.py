"""Jobs in containers in a whole pool, with a scripted engine: kill -9 around a container (P2 to P6), an engine that goes.

The engine's containers are processes that belong to nobody in the pool, so what nobody removes is seen to be left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.engine import VERSION, ScriptedEngine, scripted_engine
from tests.whole.probe import Probe
from tests.whole.real_pool import RealPool, real_pool
from tests.whole.test_crashes_by_stage import until_stopped, zygote_of

IMAGE = "busybox:latest"
WANTED = "docker_image = busybox"
POINTS = (
    "starter.container_creating",
    "starter.container_created",
    "starter.job_started",
    "starter.job_exited",
    "starter.container_removed",
)
OTHERS = [point for point in POINTS if point != "starter.container_created"]


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with scripted_engine(IMAGE) as engine:
        yield engine


@pytest.fixture(scope="module")
def pool(engine: ScriptedEngine) -> Iterator[RealPool]:
    with real_pool(
        user="www-data",
        NUM_CPUS=4,
        MASTER_BACKOFF_CEILING=1,
        FAULT_POINTS=" ".join(POINTS),
        NEGOTIATOR_INTERVAL=5,  # a machine that has changed its mind is looked at again then
        DOCKER=engine.program,
        DOCKER_VOLUMES="DATA",
        DOCKER_NETWORKS="lab",
        start=False,
    ) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in POINTS:
            (faults / point).touch()
        pool.start()
        until_offered(pool)
        yield pool


def until_offered(pool: RealPool) -> None:
    pool.until(lambda: pool.machine().eval_bool("HasDocker"), "a machine with an engine")


def assert_all_is_well(pool: RealPool, engine: ScriptedEngine, probe: Probe) -> None:
    probe.assert_ended_once()
    pool.until(lambda: not engine.containers(), "the end of the container")
    assert engine.processes() == []
    pool.until(lambda: not list((pool.run_dir / "containers").iterdir()), "the end of its record")
    pool.until(lambda: not list((pool.directory / "execute").iterdir()), "the end of the sandbox")


def test_a_machine_says_what_its_engine_is_and_jobs_run_there(pool: RealPool, engine: ScriptedEngine) -> None:
    slot = pool.slots()[0]
    assert slot.eval_str("DockerVersion") == VERSION
    assert [slot.eval_bool(name) for name in ("HasContainer", "HasDockerURL", "HasDockerVolumeDATA")] == [True] * 3
    assert slot.eval_str("DockerNetworks") == "lab"
    for wanted in ("universe = docker\ndocker_image = busybox", "container_image = docker://busybox"):
        probe = Probe(pool, 0.1, more=wanted)
        probe.submit()
        assert_all_is_well(pool, engine, probe)
    (plain, *_) = engine.calls("run")
    assert plain[-1] == "/exit_37"


@pytest.mark.parametrize("point", [POINTS[1], *(pytest.param(point, marks=pytest.mark.slow) for point in OTHERS)])
def test_p6_no_container_outlives_a_starter_that_dies(pool: RealPool, engine: ScriptedEngine, point: str) -> None:
    marker = pool.run_dir / "faults" / point
    marker.unlink()
    probe = Probe(pool, more=WANTED)
    probe.submit()
    pool.until(marker.exists, f"{point} to fire")
    assert_all_is_well(pool, engine, probe)


@pytest.mark.slow
@pytest.mark.parametrize("starter_too", [False, True], ids=["zygote", "starter and zygote"])
@pytest.mark.parametrize("point", POINTS)
def test_p6_no_container_outlives_a_zygote_that_dies(
    pool: RealPool, engine: ScriptedEngine, point: str, starter_too: bool
) -> None:
    marker = pool.run_dir / "faults" / point
    (pool.run_dir / "faults" / f"{point}.do").write_text("stop")
    marker.unlink()
    probe = Probe(pool, more=WANTED)
    probe.submit()
    starter = until_stopped(pool, marker)
    os.kill(zygote_of(pool), signal.SIGKILL)
    os.kill(starter, signal.SIGKILL if starter_too else signal.SIGCONT)
    (pool.run_dir / "faults" / f"{point}.do").unlink()
    assert_all_is_well(pool, engine, probe)


@pytest.mark.slow
def test_p6_no_container_outlives_a_starter_and_a_startd_that_die_together(
    pool: RealPool, engine: ScriptedEngine
) -> None:
    probe = Probe(pool, None, more=WANTED)
    probe.submit()
    probe.until_begun()
    (record,) = (pool.run_dir / "containers").iterdir()
    startd = pool.pid_of("startd")
    os.kill(int(record.name.partition(".")[0]), signal.SIGSTOP)  # it cannot clean up before it dies
    os.kill(startd, signal.SIGKILL)
    os.kill(int(record.name.partition(".")[0]), signal.SIGKILL)
    pool.until(lambda: pool.pid_of("startd") not in (0, startd), "another startd")
    pool.until(lambda: probe.trace() == ["begin", "begin"], "another begin")
    probe.may_end()
    assert_all_is_well(pool, engine, probe)


def test_a_container_that_nobody_knows_of_is_removed(pool: RealPool, engine: ScriptedEngine) -> None:
    labels = ["True", f".execute={pool.directory / 'execute'}", ".starter=999999999"]
    words = [f"--label=org.htcondorproject{label if label.startswith('.') else '=' + label}" for label in labels]
    assert engine.ask("create", "--name", "lost", *words, IMAGE, "true").returncode == 0
    assert engine.ask("create", "--name", "others", words[0], IMAGE, "true").returncode == 0
    os.kill(pool.pid_of("startd"), signal.SIGHUP)
    pool.until(lambda: len(engine.containers()) == 1, "the end of the lost container")
    engine.ask("rm", "-f", "others")


@pytest.mark.slow
def test_p4_a_job_whose_engine_goes_waits_until_it_is_back(pool: RealPool, engine: ScriptedEngine) -> None:
    until_offered(pool)
    probe = Probe(pool, None, more=WANTED)
    probe.submit()
    probe.until_begun()
    engine.stop()
    pool.until(lambda: pool.machine().eval_bool("HasDocker") is False, "a machine without an engine")
    assert "Is the docker daemon running" in pool.machine().eval_str("DockerOfflineReason", "")
    pool.until(lambda: [ad for ad in probe.in_queue() if ad.eval_int("JobStatus") == 1], "the job to be idle")
    pool.until(lambda: not engine.processes(), "the end of the container's processes")
    probe.may_end()
    engine.start()
    os.kill(pool.pid_of("startd"), signal.SIGHUP)
    until_offered(pool)
    assert_all_is_well(pool, engine, probe)
    assert Path(probe.directory / "log").read_text().count("the engine is gone") >= 1
