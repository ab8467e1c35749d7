"""The words of `docker create`: limits, rights, mounts, networks, images and commands, as jobs and machines want them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.containers.create import (
    ContainerPlan,
    command_of,
    container_name,
    create_words,
    environment_lines,
    host_name,
    moved,
    without_values,
)

PLAN = ContainerPlan(
    name="HTCJob1_0_slot1_1_PID7",
    image="busybox:latest",
    uid=1000,
    gid=100,
    groups=(100, 27),
    execute="/execute",
    starter_pid=7,
    directory="/execute/dir_7",
    command="/bin/cat",
    arguments=("/etc/hosts",),
    environment={"A": "1 2"},
    mounts=("/execute/dir_7:/execute/dir_7",),
)
SLOT = {"Cpus": 2, "Memory": 512, "Machine": "execute1.example.org", "DockerNetworks": "lab, vpn"}
JOB = {"Owner": "alice", "ClusterId": 12, "ProcId": 3}


def words(plan: ContainerPlan = PLAN, job: dict[str, Any] | None = None, **knobs: str) -> list[str]:
    return create_words(plan, ClassAd({**JOB, **(job or {})}), ClassAd(SLOT), knobs)


def text(*args: Any, **knobs: str) -> str:
    return " ".join(words(*args, **knobs))


def test_the_whole_command() -> None:
    assert text() == (
        "create --cpu-shares=200 --memory=512m --cap-drop=all --cap-add=SYS_PTRACE --security-opt no-new-privileges "
        "--init --name HTCJob1_0_slot1_1_PID7 --label=org.htcondorproject=True "
        "--label=org.htcondorproject.execute=/execute --label=org.htcondorproject.starter=7 --log-driver none "
        "-e A=1 2 --volume /execute/dir_7:/execute/dir_7 --workdir /execute/dir_7 --user 1000:100 "
        "--group-add 100 --group-add 27 --hostname alice-12.3-execute1.example.org busybox:latest /bin/cat /etc/hosts"
    )


@pytest.mark.parametrize(
    ("knobs", "has", "lacks"),
    [
        ({"DOCKER_RUN_UNDER_INIT": "false"}, "", "--init"),
        ({"DOCKER_LOG_DRIVER_NONE": "false"}, "", "--log-driver"),
        ({"DOCKER_DROP_ALL_CAPABILITIES": "false"}, "", "--cap-drop"),
        ({"DOCKER_DROP_ALL_CAPABILITIES": "TARGET.Trusted isnt true"}, "--cap-drop=all", ""),
        ({"DOCKER_DROP_ALL_CAPABILITIES": 'TARGET.Owner != "alice"'}, "", "--cap-drop"),
        ({"DOCKER_DROP_ALL_CAPABILITIES": "TARGET.Undefined"}, "--cap-drop=all", ""),
        ({"DOCKER_EXTRA_ARGUMENTS": "--ulimit core=0"}, "--ulimit core=0 busybox", ""),
        ({"DOCKER_EXTRA_ARGUMENTS": "\"--env 'A=b c'\""}, "--env A=b c busybox", ""),
        ({"DOCKER_SHM_SIZE": "Memory * 1024 * 1024 / 2"}, "--shm-size 268435456", ""),
        ({"DOCKER_SHM_SIZE": "TARGET.DevShmSize"}, "", "--shm-size"),
        ({}, "", "--shm-size"),
    ],
)
def test_what_the_machines_owner_says(knobs: dict[str, str], has: str, lacks: str) -> None:
    said = text(**knobs)
    assert has in said
    assert not lacks or lacks not in said


GUARDED = (
    "ifThenElse(DevShmSize isnt Undefined && isInteger(DevShmSize) && int(DevShmSize) <= (Memory * 1024 * 1024), "
    "int(DevShmSize), 2 * 1024 * 1024 * 1024)"
)


@pytest.mark.parametrize(("job", "size"), [({"DevShmSize": 1000000}, 1000000), ({}, 2147483648)])
def test_shared_memory_as_the_manual_guards_it(job: dict[str, Any], size: int) -> None:
    assert f"--shm-size {size} " in text(PLAN, job, DOCKER_SHM_SIZE=GUARDED)


@pytest.mark.parametrize(
    ("job", "has", "lacks"),
    [
        ({"DockerNetworkType": "none"}, "--network=none --hostname", ""),
        ({"DockerNetworkType": "host"}, "--network=host", "--hostname"),
        ({"DockerNetworkType": "nat"}, "--hostname", "--network"),
        ({"DockerNetworkType": "vpn"}, "--network=vpn", ""),
        ({"DockerPullPolicy": "Always"}, "--pull always", ""),
        ({"DockerPullPolicy": "sometimes"}, "", "--pull"),
        ({"DockerOverrideEntrypoint": True}, "--entrypoint /bin/cat busybox:latest /etc/hosts", "latest /bin/cat"),
        ({"ContainerServiceNames": "a, b", "a_ContainerPort": 80, "b_ContainerPort": 9618}, "-p 80 -p 9618", ""),
    ],
)
def test_what_the_job_says(job: dict[str, Any], has: str, lacks: str) -> None:
    said = text(PLAN, job)
    assert has in said
    assert not lacks or lacks not in said


@pytest.mark.parametrize("wanted", [{}, {"DockerNetworkType": "host"}, {"DockerNetworkType": "vpn"}])
def test_where_jobs_have_no_network_containers_have_none(wanted: dict[str, str]) -> None:
    assert "--network=none --hostname" in text(PLAN, wanted, NO_JOB_NETWORKING="true")
    assert "--network=none" not in text(PLAN, wanted, NO_JOB_NETWORKING="false")


def test_what_this_machine_has_decided() -> None:
    assert "--cpuset-cpus=1,3 " in text(replace(PLAN, cpus=(1, 3)))
    assert "--cpu-shares" not in text(replace(PLAN, cpus=(1, 3)))
    assert "--device /dev/nvidia0 " in text(replace(PLAN, devices=("/dev/nvidia0",)))
    assert "--interactive" in words(replace(PLAN, reads_input=True))
    rootless = words(replace(PLAN, keeps_ids=True))
    assert "--userns=keep-id" in rootless
    assert "--group-add" not in rootless


def test_an_image_without_a_command_runs_its_own() -> None:
    assert words(replace(PLAN, command="", arguments=("a",)))[-2:] == ["busybox:latest", "a"]
    overriding = words(replace(PLAN, command=""), {"DockerOverrideEntrypoint": True})
    assert "--entrypoint" not in overriding


@pytest.mark.parametrize(
    ("plan", "job", "said"),
    [
        (replace(PLAN, uid=0), {}, "no container runs as account 0:100"),
        (replace(PLAN, gid=0), {}, "1000:0"),
        (replace(PLAN, uid=1 << 31), {}, "2147483648"),
        (PLAN, {"DockerNetworkType": "other"}, "expected host, none, nat, lab, vpn"),
        (
            PLAN,
            {"ContainerServiceNames": "web", "web_ContainerPort": 70000},
            "the container's service 'web' has no port",
        ),
    ],
)
def test_what_is_refused(plan: ContainerPlan, job: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        words(plan, job)


@pytest.mark.parametrize(
    ("job", "transfers", "command"),
    [
        ({"Cmd": "/home/alice/prog"}, True, "./prog"),
        ({"Cmd": "/bin/cat", "TransferExecutable": False}, True, "/bin/cat"),
        ({"Cmd": "/bin/cat"}, False, "/bin/cat"),
        ({}, True, ""),
    ],
)
def test_where_the_program_is(job: dict[str, Any], transfers: bool, command: str) -> None:
    assert command_of(ClassAd(job), transfers=transfers) == command


def test_names() -> None:
    assert container_name("12.3", "slot1_2", 77) == "HTCJob12_3_slot1_2_PID77"
    long = ClassAd({"Machine": "m" * 80})
    assert len(host_name(ClassAd(JOB), long)) == 63


def test_variables_follow_the_sandbox_and_stay_out_of_the_log() -> None:
    assert moved({"TMPDIR": "/e/dir_1/x", "B": "b"}, "/e/dir_1", "/data") == {"TMPDIR": "/data/x", "B": "b"}
    assert without_values(["create", "-e", "SECRET=1", "image"]) == "create -e SECRET=... image"


def test_values_of_variables_are_in_a_file_and_not_in_the_words_where_they_fit_a_line() -> None:
    variables = {"TOKEN": "secret", "TWO": "a\nb", "EMPTY": ""}
    said = words(replace(PLAN, environment=variables, environment_file="/proc/1/fd/9"))
    assert said[said.index("--env-file") + 1] == "/proc/1/fd/9"
    assert [said[at + 1] for at, word in enumerate(said) if word == "-e"] == ["TWO=a\nb"]
    assert environment_lines(variables) == "TOKEN=secret\nEMPTY=\n"


@pytest.mark.parametrize("size", ['real("INF")', 'real("NaN")'])
def test_shared_memory_without_a_size_is_the_engines(size: str) -> None:
    assert "--shm-size" not in text(PLAN, JOB, DOCKER_SHM_SIZE=size)
