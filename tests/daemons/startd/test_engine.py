"""What a startd finds out about its engine: whether containers run, and which of them nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from daemons.base.log import Log
from daemons.daemon_core.world import InPlace, RealSpawner
from daemons.host.container_records import ContainerRecord, ContainerRecords
from daemons.startd.machine.engine import EngineWatch, containers, images_size, look
from daemons.startd.machine.findings import Findings
from pool.config import Config, load_config
from tests.fakes.engine import VERSION, ScriptedEngine, scripted_engine


@pytest.fixture(scope="module")
def shared() -> Iterator[ScriptedEngine]:
    with scripted_engine("busybox:latest") as engine:
        yield engine


def config(program: object, **knobs: str) -> Config:
    return load_config([], environ={}, overrides={"DOCKER": str(program), **knobs})


def test_a_working_engine_is_tried_and_described(shared: ScriptedEngine) -> None:
    found = look(config(shared.program))
    assert found.works
    assert found.facts["DockerVersion"] == VERSION
    assert found.facts["HasDockerURL"] is True
    assert [words[0] for words in shared.calls()[-4:]] == ["version", "import", "run", "rmi"]
    count = len(shared.calls())
    assert look(config(shared.program, DOCKER_PERFORM_TEST="false")).works
    assert [words[0] for words in shared.calls()[count:]] == ["version"]


def test_the_owner_may_give_the_test_image(shared: ScriptedEngine) -> None:
    knobs = {"DOCKER_TEST_IMAGE_PATH": "/images/test.tar", "DOCKER_TEST_IMAGE_NAME": "/images/test.tar"}
    count = len(shared.calls("load"))
    assert look(config(shared.program, **knobs)).works
    assert shared.calls("load")[count:] == [["load", "-i", "/images/test.tar"]]


def test_a_machine_without_an_engine_says_nothing(tmp_path: Path) -> None:
    assert look(config("")).facts == {}
    assert look(config(tmp_path / "docker")).facts == {}


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("Syntax: docker [OPTIONS]", "it is no container engine"),
        ("Docker version 20.10.4, build d3cb89e", "Unsupported Docker Version (20.10.4) detected"),
    ],
)
def test_a_program_that_will_not_do(tmp_path: Path, printed: str, reason: str) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!/bin/sh\necho '{printed}'\n")
    program.chmod(0o755)
    found = look(config(program))
    assert found.facts["HasDocker"] is False
    assert reason in found.reason


def test_an_engine_whose_containers_do_not_run_is_offline_with_a_reason(shared: ScriptedEngine) -> None:
    status = shared.directory / "run-status"
    status.write_text("1")
    found = look(config(shared.program))
    status.unlink()
    assert (found.facts["HasDocker"], found.facts["HasContainer"]) == (False, False)
    assert "A test container ended with status 1 instead of 37" in found.reason
    shared.fails("import", "no space left on device")
    assert "no space left on device" in look(config(shared.program)).reason
    shared.works("import")


def test_an_engine_that_is_not_there_is_offline_with_a_reason() -> None:
    with scripted_engine() as engine:
        engine.stop()
        found = look(config(engine.program))
        assert found.facts["HasDocker"] is False
        assert found.facts["DockerVersion"] == VERSION
        assert "Is the docker daemon running" in found.reason
        assert images_size(config(engine.program)) is None


def test_containers_are_found_by_their_directory_and_images_are_measured(shared: ScriptedEngine) -> None:
    labels = ["--label=org.htcondorproject.execute=/e", "--label=org.htcondorproject.starter=77"]
    shared.ask("create", "--name", "one", *labels, "busybox:latest")
    shared.ask("create", "--name", "two", labels[0].replace("/e", "/other"), "busybox:latest")
    assert list(containers([str(shared.program)], "/e").values()) == [77]
    shared.ask("tag", "busybox:latest", "htcondor.org/a/busybox:latest")
    assert images_size(config(shared.program)) == 10 << 20


def test_p6_what_a_starter_has_on_record_is_removed(shared: ScriptedEngine, tmp_path: Path) -> None:
    records = ContainerRecords(tmp_path)
    shared.ask("create", "--name", "left", "--label=org.htcondorproject=True", "busybox:latest")
    for name, made in (("left", True), ("never", False), ("gone", True)):
        records.write(ContainerRecord(name, [str(shared.program)], 5, made))
    records.write(ContainerRecord("others", [str(shared.program)], 55, True))
    assert records.remove_left(5) == []
    assert [path.name for path in (tmp_path / "containers").iterdir()] == ["55.others.json"]
    assert shared.containers() == []


def test_p6_what_cannot_be_removed_now_stays_on_record(shared: ScriptedEngine, tmp_path: Path) -> None:
    records = ContainerRecords(tmp_path)
    records.write(ContainerRecord("stuck", [str(shared.program)], 5, True))
    shared.fails("rm", "driver is busy")
    (problem,) = records.remove_left(5)
    shared.works("rm")
    assert problem == "the container stuck: Error response from daemon: driver is busy"
    assert records.starters() == {5}
    assert records.remove_left(5) == []
    assert records.starters() == set()


async def test_the_size_of_the_images_is_told_each_docker_cache_advertise_interval(shared: ScriptedEngine) -> None:
    told: list[Mapping[str, Any]] = []
    records: Any = SimpleNamespace(containers=SimpleNamespace(starters=set))
    start: Any = SimpleNamespace(
        config=config(shared.program, DOCKER_CACHE_ADVERTISE_INTERVAL="1"),
        world=SimpleNamespace(spawner=RealSpawner(), threads=InPlace()),
        log=Log(None),
    )
    watch = EngineWatch(start, Findings({}, told.append), records, set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        with trio.fail_after(60):
            while sum("DockerCachedImageSizeMb" in facts for facts in told) < 2:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert told[0]["HasDocker"] is True
