"""The words that put a job into an image of Apptainer or Singularity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.containers.image import wanted_image
from pool.containers.singularity import NoSingularity, complaint_of, in_singularity, runs_in_singularity
from pool.execute.plan import RunPlan

SCRATCH = "/execute/dir_7"
KNOBS = {"SINGULARITY": "/usr/bin/singularity", "SINGULARITY_VERBOSITY": "-s", "SINGULARITY_USE_PID_NAMESPACES": "true"}
SIF = {"Cmd": "demo", "WantContainer": True, "WantSIF": True, "ContainerImage": "a.sif"}
REGISTRYS = {"Cmd": "demo", "WantContainer": True, "WantDockerImage": True, "ContainerImage": "docker://debian"}
WORKS = {"HasSingularity": True}


def a_plan(**more: Any) -> RunPlan:
    given: dict[str, Any] = {
        "program": f"{SCRATCH}/demo",
        "arguments": ("3",),
        "environment": {
            "A": "b",
            "HOME": "/root",
            "SINGULARITY_BIND": "/etc",
            "SINGULARITY_DOCKER_PASSWORD": "secret",
            "TMPDIR": SCRATCH,
        },
        "directory": SCRATCH,
        "stdin": "/dev/null",
        "stdout": "/dev/null",
        "stderr": "/dev/null",
        "transfers": True,
        "rlimits": {},
        **more,
    }
    return RunPlan(**given)


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


@pytest.mark.parametrize(
    ("slot", "knobs", "runs"),
    [
        (WORKS, {}, True),
        ({**WORKS, "HasDocker": True}, {}, False),
        ({**WORKS, "HasDocker": False}, {}, True),
        ({**WORKS, "HasDocker": False, "HasDockerURL": True}, {}, True),
        ({"HasSingularity": False}, {}, False),
        (WORKS, {"SINGULARITY": ""}, False),
        ({**WORKS, "HasDocker": True}, {"SINGULARITY_JOB": "true"}, False),
    ],
)
def test_an_image_of_a_registry_is_run_by_the_engine_where_there_is_one(
    slot: dict[str, Any], knobs: dict[str, str], runs: bool
) -> None:
    job, all_knobs = ClassAd(REGISTRYS), {**KNOBS, **knobs}
    assert runs_in_singularity(job, ClassAd(slot), all_knobs) is runs
    assert wanted_image(job, ClassAd(slot), all_knobs) == (None if runs else "debian")


def test_a_program_that_makes_no_image_files_runs_none_of_a_registry() -> None:
    slot = ClassAd({**WORKS, "HasDockerURL": False, "SingularityOfflineReason": "no mksquashfs"})
    assert not runs_in_singularity(ClassAd(REGISTRYS), slot, KNOBS)
    with pytest.raises(NoSingularity, match="no mksquashfs"):
        wanted_image(ClassAd(REGISTRYS), slot, KNOBS)
    assert runs_in_singularity(ClassAd(SIF), slot, KNOBS)


@pytest.mark.parametrize(
    ("image", "job", "named"),
    [
        ('"docker://debian:12"', {}, "docker://debian:12"),
        ('"docker:debian"', {}, "docker://debian"),
        ('"/images/debian.sif"', {}, "/images/debian.sif"),
        ("/images/debian", {}, "/images/debian"),
        ('"/images/debian"', {"WantContainer": True, "WantDockerImage": True, "DockerImage": "own"}, "docker://own"),
    ],
)
def test_jobs_that_name_no_image_get_their_machines(image: str, job: dict[str, Any], named: str) -> None:
    knobs = {"USE_DEFAULT_CONTAINER": "true", "DEFAULT_CONTAINER_IMAGE": image}
    ad = {"Cmd": "demo", **job}
    assert runs_in_singularity(ClassAd(ad), ClassAd(WORKS), {**KNOBS, **knobs})
    assert words(ad, WORKS, knobs).endswith(f" {named} S/demo 3")
    assert wanted_image(ClassAd(ad), ClassAd(WORKS), {**KNOBS, **knobs}) is None


def test_without_a_program_the_images_own_is_run() -> None:
    line = words({**REGISTRYS, "Cmd": ""}, WORKS)
    assert line == "-s run -W S --pwd S -B S --home S -C docker://debian 3"


def words(
    job: Mapping[str, object] = SIF,
    slot: Mapping[str, object] = {},
    knobs: Mapping[str, str] = {},
    private: tuple[str, ...] = (),
    **plan: Any,
) -> str:
    there = {"/data", "/img/.", "/img//data/.", "/etc/OpenCL/vendors"}
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


def test_a_private_directory_that_the_sandbox_lies_in_is_left_as_it_is() -> None:
    assert words(private=("/execute", "/tmp")).startswith("-s exec -S /tmp -W S ")
    assert words({**SIF, "ContainerTargetDir": "/tmp/x"}, private=("/execute", "/tmp")).startswith(
        "-s exec -S /execute "
    )


@pytest.mark.parametrize(
    ("knobs", "job", "part"),
    [
        ({"SINGULARITY_VERBOSITY": "-d"}, {}, "-d exec"),
        ({"SINGULARITY_TARGET_DIR": "/srv"}, {"ContainerTargetDir": "/own"}, "--pwd /srv -B S:/srv"),
        ({}, {"ContainerTargetDir": "/own"}, "S/a.sif /own/demo 3"),
        ({"SINGULARITY_BIND_EXPR": '"/data:/x:ro /gone"'}, {}, "-B /data:/x:ro --home"),
        ({}, {"SingularityBind": "/data"}, "-B /data --home"),
        ({"SINGULARITY_USE_PID_NAMESPACES": "False"}, {}, "--contain --ipc --cleanenv S/a.sif"),
        ({"SINGULARITY_USE_PID_NAMESPACES": "auto"}, {}, "--contain --ipc --cleanenv S/a.sif"),
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


@pytest.mark.parametrize(
    ("slot", "knobs", "options"),
    [
        ({"GPUs_NvidiaDriver": "550.54"}, {}, ["--nv"]),
        ({"GPUs_Rocm": 6}, {}, ["--rocm"]),
        ({"GPUs_OpenCLVersion": 3.0}, {}, []),
        ({"GPUs_OpenCLVersion": 3.0}, {"SINGULARITY_ADD_ROCM_FLAG": "true"}, ["--rocm"]),
    ],
)
def test_a_slot_with_gpus_shows_them_by_the_option_of_their_maker(
    slot: dict[str, object], knobs: dict[str, str], options: list[str]
) -> None:
    line = words(slot={"AssignedGPUs": "GPU-12345678", **slot}, knobs=knobs).split()
    assert [word for word in line if word in ("--nv", "--rocm")] == options
    assert "-B /etc/OpenCL/vendors" in " ".join(line)
    assert not {"--nv", "--rocm", "/etc/OpenCL/vendors"} & set(words(slot=slot, knobs=knobs).split())


def test_a_machine_that_has_seen_pid_namespaces_work_uses_them() -> None:
    knobs = {"SINGULARITY_USE_PID_NAMESPACES": "auto"}
    assert " -C S/a.sif" in words(slot={"HasPidNamespaces": True}, knobs=knobs)
    assert " --cleanenv S/a.sif" in words(slot={"HasPidNamespaces": False}, knobs=knobs)


def test_the_launcher_leaves_a_mark_and_becomes_the_program() -> None:
    knobs = {**KNOBS, "SINGULARITY_USE_LAUNCHER": "true"}
    plan = in_singularity(a_plan(), ClassAd(SIF), ClassAd(), knobs, SCRATCH, is_there=lambda _: True)
    before, after = plan.arguments[-7:-2], plan.arguments[-2:]
    assert (before[:3], after) == ((f"{SCRATCH}/a.sif", "/bin/sh", "-c"), (f"{SCRATCH}/demo", "3"))
    assert ".condor_container_launched" in before[3]
    assert plan.mark == f"{SCRATCH}/.condor_container_launched"
    assert ".condor_container_launched" not in " ".join(plan.test)
    own = ClassAd({**SIF, "Cmd": ""})
    assert in_singularity(a_plan(), own, ClassAd(), knobs, SCRATCH, is_there=lambda _: True).mark == ""


def test_the_test_of_an_image_uses_it_as_the_job_will() -> None:
    def test(**knobs: str) -> str:
        job, all_knobs = ClassAd(SIF), {**KNOBS, **knobs}
        made = in_singularity(a_plan(), job, ClassAd(), all_knobs, SCRATCH, is_there=lambda path: False)
        return " ".join(made.test).replace(SCRATCH, "S")

    assert test() == "/usr/bin/singularity -s -q test -W S --pwd S -B S --home S -C S/a.sif"
    assert test(SINGULARITY_RUN_TEST_BEFORE_JOB="false") == ""
    # A word of the owner's that is spelt like the command is none.
    assert test(SINGULARITY_EXTRA_ARGUMENTS="--app exec").endswith(" -C --app exec S/a.sif")


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("\n\x1b[31mFATAL:\x1b[0m   no image\nmore", "FATAL:   no image"),
        ("WARNING: a\nFATAL: b", "FATAL: b"),
        ("a\nb", "a"),
        ("x" * 999, "x" * 255),
        ("\n", ""),
    ],
)
def test_what_a_failed_test_says(output: str, says: str) -> None:
    assert complaint_of(output) == says


def test_a_job_in_its_own_directory_has_that_mounted_too() -> None:
    line = words(directory="/home/ann", program="/home/ann/demo")
    assert "--pwd /home/ann -B S -B /home/ann -C /home/ann/a.sif /home/ann/demo" in line


def test_variables_go_along_but_for_those_that_are_the_programs() -> None:
    job, slot = ClassAd({**SIF, "ContainerTargetDir": "/in"}), ClassAd()
    made = in_singularity(a_plan(), job, slot, KNOBS, SCRATCH, is_there=lambda path: False).environment
    assert made["SINGULARITYENV_A"] == made["A"] == "b"
    assert made["PATH"].endswith("/sbin:/bin:/usr/bin")  # the last is the program's own directory
    assert "SINGULARITYENV_PATH" not in made
    given = a_plan(environment={"PATH": "/mine"})
    made_with = in_singularity(given, job, slot, KNOBS, SCRATCH, is_there=lambda path: False).environment
    assert (made_with["PATH"], made_with["SINGULARITYENV_PATH"]) == ("/mine:/usr/bin", "/mine")
    assert made["SINGULARITYENV_TMPDIR"] == "/in"
    assert "HOME" not in made
    assert "SINGULARITY_BIND" not in made
    assert made["SINGULARITY_DOCKER_PASSWORD"] == "secret"
    knobs = {**KNOBS, "SINGULARITY_ALLOWED_JOB_ENV_VARS": "SINGULARITY_BIND, X"}
    assert in_singularity(a_plan(), job, slot, knobs, SCRATCH, is_there=bool).environment["SINGULARITY_BIND"] == "/etc"
    apptainer = {**KNOBS, "SINGULARITY": "/usr/bin/apptainer"}
    made = in_singularity(a_plan(), job, slot, apptainer, SCRATCH, is_there=lambda path: False).environment
    assert made["APPTAINERENV_A"] == "b"
    assert made["APPTAINER_TMPDIR"] == SCRATCH


@pytest.mark.parametrize("image", ["", "--help"])
def test_without_an_image_the_job_is_told(image: str) -> None:
    with pytest.raises(UserError, match="names none"):
        words({**SIF, "ContainerImage": image})


def test_a_machine_that_has_lost_the_program_runs_no_job_without_its_image() -> None:
    job, knobs = ClassAd({"Owner": "ann"}), {"SINGULARITY": "", "SINGULARITY_JOB": "true"}
    assert runs_in_singularity(job, ClassAd(), knobs)
    with pytest.raises(NoSingularity, match="has no such program"):
        in_singularity(a_plan(), job, ClassAd(), knobs, SCRATCH, is_there=lambda path: True)
