"""The words that put a job into an image of Apptainer or Singularity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pool.classad import ClassAd
from pool.containers.singularity import in_singularity, runs_in_singularity
from pool.errors import UserError
from pool.execute.plan import Plan

SCRATCH = "/execute/dir_7"
KNOBS = {"SINGULARITY": "/usr/bin/singularity", "SINGULARITY_VERBOSITY": "-s"}
SIF = {"WantContainer": True, "WantSIF": True, "ContainerImage": "a.sif"}


def a_plan(**more: Any) -> Plan:
    given: dict[str, Any] = {
        "program": f"{SCRATCH}/demo",
        "arguments": ("3",),
        "environment": {"A": "b", "HOME": "/root", "SINGULARITY_BIND": "/etc", "TMPDIR": SCRATCH},
        "directory": SCRATCH,
        "stdin": "/dev/null",
        "stdout": "/dev/null",
        "stderr": "/dev/null",
        "transfers": True,
        "rlimits": {},
        **more,
    }
    return Plan(**given)


@pytest.mark.parametrize(
    ("job", "knobs", "runs"),
    [
        (SIF, {}, True),
        ({"WantContainer": True, "WantSandboxImage": True, "ContainerImage": "dir"}, {}, True),
        ({}, {}, False),
        ({"Owner": "ann"}, {"SINGULARITY_JOB": 'TARGET.Owner == "ann"'}, True),
        ({"Owner": "bob"}, {"SINGULARITY_JOB": 'TARGET.Owner == "ann"'}, False),
        ({}, {"SINGULARITY_JOB": "TARGET.NotThere"}, False),
        ({**SIF, "JobUniverse": 10}, {}, False),
        (SIF, {"SINGULARITY": ""}, False),
        ({"WantDocker": True, "DockerImage": "x"}, {"SINGULARITY_JOB": "true"}, False),
    ],
)
def test_which_jobs_run_in_one(job: dict[str, Any], knobs: dict[str, str], runs: bool) -> None:
    assert runs_in_singularity(ClassAd(job), ClassAd(), {**KNOBS, **knobs}) is runs


def words(
    job: Mapping[str, object] = SIF,
    slot: Mapping[str, object] = {},
    knobs: Mapping[str, str] = {},
    private: tuple[str, ...] = (),
    **plan: Any,
) -> str:
    there = {"/data", "/img/.", "/img//data/."}
    made = in_singularity(
        a_plan(**plan),
        ClassAd(job),
        ClassAd(slot),
        {**KNOBS, **knobs},
        SCRATCH,
        private,
        is_there=lambda path: path in there,
    )
    assert made.program == "/usr/bin/singularity"
    return " ".join(made.arguments).replace(SCRATCH, "S")


def test_the_whole_line() -> None:
    line = words(private=("/tmp", "/var/tmp"))
    assert line == "-s exec -S /tmp -S /var/tmp -W S --pwd S -B S --home S -C S/a.sif S/demo 3"


@pytest.mark.parametrize(
    ("knobs", "job", "part"),
    [
        ({"SINGULARITY_VERBOSITY": "-d"}, {}, "-d exec"),
        ({"SINGULARITY_TARGET_DIR": "/srv"}, {"ContainerTargetDir": "/own"}, "--pwd /srv -B S:/srv"),
        ({}, {"ContainerTargetDir": "/own"}, "S/a.sif /own/demo 3"),
        ({"SINGULARITY_BIND_EXPR": '"/data:/x:ro /gone"'}, {}, "-B /data:/x:ro --home"),
        ({}, {"SingularityBind": "/data"}, "-B /data --home"),
        ({"SINGULARITY_USE_PID_NAMESPACES": "False"}, {}, "--contain --ipc --cleanenv S/a.sif"),
        ({"SINGULARITY_EXTRA_ARGUMENTS": "--net --writable"}, {}, "-C --net --writable S/a.sif"),
        ({"SINGULARITY_EXTRA_ARGUMENTS": 'ifThenElse(TARGET.Big, "--net", "")'}, {"Big": True}, "-C --net S/a.sif"),
        ({"SINGULARITY_IMAGE_EXPR": '"/cvmfs/x"'}, {}, "-C /cvmfs/x S/demo"),
        ({}, {"SingularityImage": "docker://debian"}, "-C docker://debian S/demo"),
    ],
)
def test_what_owner_and_job_may_say(knobs: dict[str, str], job: dict[str, object], part: str) -> None:
    assert f" {part} " in f" {words({**SIF, **job}, knobs=knobs)} "


@pytest.mark.parametrize(("skips", "bound"), [("true", False), ("false", True)])
def test_a_target_that_an_unpacked_image_lacks_may_be_skipped(skips: str, bound: bool) -> None:
    knobs = {
        "SINGULARITY_IGNORE_MISSING_BIND_TARGET": skips,
        "SINGULARITY_BIND_EXPR": '"/data:/missing /data"',
        "SINGULARITY_IMAGE_EXPR": '"/img"',
    }
    line = words(knobs=knobs)
    assert ("-B /data:/missing" in line) is bound
    assert "-B /data --home" in line


def test_a_slot_with_gpus_shows_them() -> None:
    assert " --nv " in words(slot={"AssignedGPUs": "CUDA0"})


def test_a_job_in_its_own_directory_has_that_mounted_too() -> None:
    line = words(directory="/home/ann", program="/home/ann/demo")
    assert "--pwd /home/ann -B S -B /home/ann -C /home/ann/a.sif /home/ann/demo" in line


def test_variables_go_along_but_for_those_that_are_the_programs() -> None:
    job, slot = ClassAd({**SIF, "ContainerTargetDir": "/in"}), ClassAd()
    made = in_singularity(a_plan(), job, slot, KNOBS, SCRATCH, is_there=lambda path: False).environment
    assert made["SINGULARITYENV_A"] == made["A"] == "b"
    assert made["SINGULARITYENV_TMPDIR"] == "/in"
    assert "HOME" not in made
    assert "SINGULARITY_BIND" not in made
    apptainer = {**KNOBS, "SINGULARITY": "/usr/bin/apptainer"}
    made = in_singularity(a_plan(), job, slot, apptainer, SCRATCH, is_there=lambda path: False).environment
    assert made["APPTAINERENV_A"] == "b"
    assert made["APPTAINER_TMPDIR"] == SCRATCH


@pytest.mark.parametrize("image", ["", "--help"])
def test_without_an_image_the_job_is_told(image: str) -> None:
    with pytest.raises(UserError, match="names none"):
        words({**SIF, "ContainerImage": image})
