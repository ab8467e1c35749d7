"""Knobs of the starter, from the configuration to what is decided for a job: its limits, its surroundings, its rights."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemons.base.log import Log
from daemons.host.account import own_account
from daemons.host.namespaces import can_isolate
from daemons.starter.chirp.job import ChirpJob, chirp_rules
from daemons.starter.launch.container_plan import put_into
from daemons.starter.launch.terms import Terms, terms_for
from daemons.starter.planning import Planner
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.config import load_config
from pool.execute.cgroup import CgroupLimits
from pool.execute.chirp import ChirpError, Right
from protocol.messages.starter import RunJob, StarterSlot

from .bench import settings_of

SLOT = ClassAd({"Name": "slot1@host", "Cpus": 1, "Memory": 1000, "VirtualMemory": 3000 << 10})
MIB = 1 << 20
ROOTS = pytest.mark.skipif(not can_isolate(), reason="namespaces are root's to make")


def a_job(**more: Any) -> ClassAd:
    return ClassAd({"Cmd": "/bin/true", "Iwd": "/", "ClusterId": 1, "ProcId": 0, "JobUniverse": 5, **more})


def order(job: ClassAd) -> RunJob:
    return RunJob(
        slot=StarterSlot(name="slot1@host"),
        activation="a",
        job_id=JobId(1, 0),
        job_ad=job,
        slot_ad=SLOT,
        shadow_address="<schedd>",
        ticket="t",
    )


def planner(sandbox: Path, job: ClassAd, **knobs: str) -> Planner:
    settings = settings_of(load_config([], environ={}, overrides=knobs), "slot1@host")
    return Planner(settings, order(job), str(sandbox), chirps=False)


def limits(sandbox: Path, job: ClassAd | None = None, **knobs: str) -> CgroupLimits:
    return planner(sandbox, job or a_job(), **knobs).limits(job or a_job())


def chirp_job(job: ClassAd, **knobs: str) -> ChirpJob:
    settings = settings_of(load_config([], environ={}, overrides=knobs), "slot1@host")
    return ChirpJob(order(job), job, chirp_rules(settings), None, None, Log())  # type: ignore[arg-type]


def terms(sandbox: Path, job: ClassAd, slot: ClassAd = SLOT, **knobs: str) -> Terms:
    given = {"EXECUTE": str(sandbox.parent), "RUN": str(sandbox.parent), **knobs}
    settings = settings_of(load_config([], environ={}, overrides=given), "slot1@host")
    account = own_account()
    plan = planner(sandbox, job).plan(job, account)
    with terms_for(settings, job, slot, plan, account, str(sandbox), Log()) as found:
        return found


# ---- memory


@pytest.mark.parametrize(("said", "mib"), [("Memory * 2", 2000), ("TARGET.Wants", 77), ("undefined", 0)])
def test_a_custom_limit_of_memory_is_an_expression_about_slot_and_job(tmp_path: Path, said: str, mib: int) -> None:
    knobs = {"CGROUP_MEMORY_LIMIT_POLICY": "custom", "CGROUP_HARD_MEMORY_LIMIT_EXPR": said}
    assert limits(tmp_path, a_job(Wants=77), **knobs).memory == mib * MIB


@pytest.mark.parametrize(("said", "mib"), [("64", 64), ("TARGET.Wants / 7", 11), ('"much"', 0)])
def test_memory_that_is_left_to_a_job_is_one_too(tmp_path: Path, said: str, mib: int) -> None:
    assert limits(tmp_path, a_job(Wants=77), CGROUP_LOW_MEMORY_LIMIT=said).memory_low == mib * MIB


@pytest.mark.parametrize(("disabled", "mib"), [("true", 1000), ("false", 3000)])
def test_a_job_swaps_unless_it_may_not(tmp_path: Path, disabled: str, mib: int) -> None:
    assert limits(tmp_path, DISABLE_SWAP_FOR_JOB=disabled).memory_and_swap == mib * MIB


@pytest.mark.parametrize(("said", "limit"), [("900", 900 * MIB), ("0", None)])
def test_the_address_space_of_a_job_is_limited(tmp_path: Path, said: str, limit: int | None) -> None:
    job = a_job()
    plan = planner(tmp_path, job, STARTER_RLIMIT_AS=said).plan(job, own_account())
    assert plan.rlimits.get("AS") == limit


# ---- surroundings


@pytest.mark.parametrize("inherits", ["true", "false"])
def test_a_job_has_the_starters_variables_only_where_it_inherits_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inherits: str
) -> None:
    monkeypatch.setenv("OF_THE_STARTER", "1")
    job = a_job()
    plan = planner(tmp_path, job, JOB_INHERITS_STARTER_ENVIRONMENT=inherits).plan(job, own_account())
    assert plan.environment.get("OF_THE_STARTER") == ("1" if inherits == "true" else None)


def test_a_job_is_bound_to_as_many_cpus_as_its_slot_has_where_it_is_to_be(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    found = terms(tmp_path / "dir_1", a_job(), ASSIGN_CPU_AFFINITY="true").cpus
    assert len(found) == 1
    assert set(found) <= allowed
    only = {"ASSIGN_CPU_AFFINITY": "TARGET.Bound"}
    assert terms(tmp_path / "dir_1", a_job(), **only).cpus == ()


@ROOTS
@pytest.mark.parametrize("private", ["true", "false"])
def test_a_job_has_a_dev_shm_of_its_own_where_it_is_to_be(tmp_path: Path, private: str) -> None:
    assert terms(tmp_path / "dir_1", a_job(), MOUNT_PRIVATE_DEV_SHM=private).isolation.shared_memory is (
        private == "true"
    )


@ROOTS
def test_a_job_is_offline_where_jobs_have_no_network(tmp_path: Path) -> None:
    knobs = {"NO_JOB_NETWORKING": "true", "PER_JOB_NAMESPACES": "false"}
    assert terms(tmp_path / "dir_1", a_job(), **knobs).isolation.offline
    assert not terms(tmp_path / "dir_1", a_job(), PER_JOB_NAMESPACES="false").isolation.wanted


@ROOTS
@pytest.mark.parametrize(("hidden", "devices"), [("true", ("nvidia1",)), ("false", ())])
def test_a_job_sees_the_gpus_of_others_unless_they_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str, devices: tuple[str, ...]
) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    monkeypatch.setattr("daemons.host.gpus._DEVICES", tmp_path)
    slot = ClassAd({**SLOT, "TotalGPUs": 2, "AssignedGPUs": "CUDA0"})
    found = terms(tmp_path / "dir_1", a_job(), slot, STARTER_HIDE_GPU_DEVICES=hidden).isolation.hidden
    assert found == tuple(f"/dev/{name}" for name in devices)


@pytest.mark.parametrize(("everything", "gpus"), [("true", [0, 1]), ("false", [1])])
def test_a_container_has_its_slots_gpus_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: str, gpus: list[int]
) -> None:
    monkeypatch.setattr("daemons.starter.launch.container_plan.gpu_numbers", lambda: {"GPU-a": 0, "GPU-b": 1})
    job, slot = a_job(DockerImage="debian"), ClassAd({**SLOT, "AssignedGPUs": "GPU-b"})
    given = {"EXECUTE": str(tmp_path), "MOUNT_UNDER_SCRATCH": "", "DOCKER_MAP_ALL_GPUS": everything}
    settings = settings_of(load_config([], environ={}, overrides=given), "slot1@host")
    context: Any = SimpleNamespace(settings=settings, log=Log())
    plan = planner(tmp_path, job).plan(job, own_account())
    made = put_into("debian", terms(tmp_path / "dir_1", job), plan, own_account(), order(job), job, slot, context)
    assert [device for device in made.devices if device[-1].isdigit()] == [f"/dev/nvidia{number}" for number in gpus]


@pytest.mark.parametrize(("said", "grade", "nice"), [("7", "low", 7), ('Grade == "low" ? 19 : 3', "low", 19)])
def test_a_job_is_as_nice_as_the_owner_says(tmp_path: Path, said: str, grade: str, nice: int) -> None:
    job = a_job(Grade=grade)
    assert terms(tmp_path / "dir_1", job, JOB_RENICE_INCREMENT=said).nice == nice


# ---- chirp


ALL = {Right.FILES, Right.UPDATES, Right.DELAYED}


@pytest.mark.parametrize(
    ("knob", "rights"),
    [
        ({}, ALL),
        ({"ENABLE_CHIRP": "false"}, set()),
        ({"ENABLE_CHIRP_IO": "false"}, ALL - {Right.FILES}),
        ({"ENABLE_CHIRP_UPDATES": "false"}, ALL - {Right.UPDATES}),
        ({"ENABLE_CHIRP_DELAYED": "false"}, ALL - {Right.DELAYED}),
        ({"NO_JOB_NETWORKING": "true"}, set()),
    ],
)
def test_what_a_job_may_do_by_chirp(knob: dict[str, str], rights: set[Right]) -> None:
    assert chirp_job(a_job(WantIOProxy=True, WantRemoteUpdates=True), **knob).rights == rights


def test_which_attributes_and_how_many_a_job_may_have_changed_later() -> None:
    job = chirp_job(a_job(), CHIRP_DELAYED_UPDATE_PREFIX="Mine*, Ours", CHIRP_DELAYED_UPDATE_MAX_ATTRS="2")
    assert job.set_delayed("ChirpA", "1") == ChirpError.NOT_AUTHORIZED
    assert [job.set_delayed(name, "1") for name in ("MineA", "ours", "MineA")] == [0, 0, 0]
    assert job.set_delayed("MineB", "1") == ChirpError.NOT_AUTHORIZED, "the third"
