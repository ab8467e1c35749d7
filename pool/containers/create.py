"""The words with which a job's container is made: limits, account, mounts, network, environment, image, command.

Rules: a container never runs as root; what a user chooses becomes one word, and none that could be an option; what
belongs to nobody else (variables' values) goes by a file that the job's account alone can read. UserError says what of
the job makes no container, before an engine is asked.

Source: HTCondor's manual, "Configuration Macros" (the DOCKER knobs), and docker-create(1) for the words.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pool.base.errors import ClassAdError, UserError
from pool.base.words import split_list
from pool.classad import ClassAd, expr
from pool.containers.engine import EXECUTE_LABEL, LABEL, STARTER_LABEL, extra_words, holds, is_true, knob

HOST_NAME_MAX: Final = 63
ID_MAX: Final = (1 << 31) - 1
CPU_SHARES_PER_CPU: Final = 100
FREE_NETWORKS: Final = ("host", "none", "nat")


@dataclass(frozen=True)
class ContainerPlan:
    """What the execute side has decided about a job's container. Paths of the host but for `inside`, `directory`."""

    name: str
    image: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    execute: str = ""
    starter_pid: int = 0
    directory: str = "/"
    command: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_file: str = ""
    """Holds `environment_lines`; empty: there is no such file."""
    mounts: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    processes: int = 0
    """How many it may have at a time; 0: no limit."""
    devices: tuple[str, ...] = ()
    reads_input: bool = False
    keeps_ids: bool = False
    """The engine runs without root's rights, and maps accounts unless it is told not to."""


def container_name(job_id: str, slot: str, starter_pid: int) -> str:
    """HTCJob12_0_slot1_1_PID345: at most one container of a starter at a time has it."""
    return f"HTCJob{job_id.replace('.', '_')}_{slot}_PID{starter_pid}"


def create_words(plan: ContainerPlan, job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> list[str]:
    """All words of `docker create`; UserError says what of the job makes no container."""
    # Never 0: root in a container is root of the host as far as files are concerned that it mounts.
    if not 0 < plan.uid <= ID_MAX or not 0 < plan.gid <= ID_MAX:
        raise UserError(f"no container runs as account {plan.uid}:{plan.gid}", expected="numbers from 1 to 2147483647")
    words = ["create", *_limits(plan, slot), *_rights(job, slot, knobs)]
    if is_true(knob(knobs, "DOCKER_RUN_UNDER_INIT"), default=True):
        words.append("--init")
    if plan.reads_input:
        words.append("--interactive")
    words += ["--name", plan.name, f"--label={LABEL}"]
    # What a dead starter leaves is found by these, whatever the engine calls it.
    words += [f"--label={EXECUTE_LABEL}={plan.execute}", f"--label={STARTER_LABEL}={plan.starter_pid}"]
    if is_true(knob(knobs, "DOCKER_LOG_DRIVER_NONE"), default=True):
        words += ["--log-driver", "none"]
    if plan.environment_file:
        words += ["--env-file", plan.environment_file]
    for name, value in plan.environment.items():
        # The few that a line cannot hold are seen by everybody of the host: better than lost.
        if not plan.environment_file or not _fits_a_line(name, value):
            words += ["-e", f"{name}={value}"]
    for mount in plan.mounts:
        words += ["--volume", mount]
    for device in plan.devices:
        words += ["--device", device]
    words += ["--workdir", plan.directory, "--user", f"{plan.uid}:{plan.gid}"]
    # The engine refuses groups of an account that it maps itself.
    if plan.keeps_ids:
        words.append("--userns=keep-id")
    else:
        for group in plan.groups:
            words += ["--group-add", str(group)]
    words += [*_network(job, slot, knobs), *_ports(job)]
    if (job.eval_str("DockerPullPolicy") or "").lower() == "always":
        words += ["--pull", "always"]
    words += extra_words(knob(knobs, "DOCKER_EXTRA_ARGUMENTS"))
    # Last of the options, so that the owner's DOCKER_EXTRA_ARGUMENTS cannot undo the limit by accident.
    words += _shared_memory(job, slot, knobs)
    return words + _command(plan, job)


def _limits(plan: ContainerPlan, slot: ClassAd) -> list[str]:
    words = []
    if plan.cpus:
        words.append(f"--cpuset-cpus={','.join(map(str, plan.cpus))}")
    else:
        # A share and no limit: as without a container, a job may use cpus that nobody else wants.
        words.append(f"--cpu-shares={CPU_SHARES_PER_CPU * max(1, slot.eval_int('Cpus') or 1)}")
    if memory := slot.eval_int("Memory"):
        words.append(f"--memory={memory}m")
    if plan.processes:
        words.append(f"--pids-limit={plan.processes}")
    return words


def _rights(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> list[str]:
    if not holds(knob(knobs, "DOCKER_DROP_ALL_CAPABILITIES"), slot, job, default=True):
        return []
    # HTCondor's own words. Debuggers and some MPI libraries trace processes of their own account.
    return ["--cap-drop=all", "--cap-add=SYS_PTRACE", "--security-opt", "no-new-privileges"]


def _network(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> list[str]:
    is_offline = is_true(knob(knobs, "NO_JOB_NETWORKING"), default=False)
    network = "none" if is_offline else job.eval_str("DockerNetworkType") or ""
    # The machine's network has the machine's name already; another is refused by the engine.
    if network == "host":
        return ["--network=host"]
    words = []
    if network == "none":
        words = ["--network=none"]
    elif network and network != "nat":
        allowed = split_list(slot.eval_str("DockerNetworks") or "")
        if network not in allowed:
            raise UserError(
                f"this machine does not let jobs use the docker network {network!r}",
                expected=", ".join((*FREE_NETWORKS, *allowed)),
            )
        words = [f"--network={network}"]
    return [*words, "--hostname", host_name(job, slot)]


def host_name(job: ClassAd, slot: ClassAd) -> str:
    """alice-12.0-execute1.example.org, as long as a name of a host may be."""
    job_id = f"{job.eval_int('ClusterId', 1)}.{job.eval_int('ProcId', 0)}"
    return f"{job.eval_str('Owner') or 'unknown'}-{job_id}-{slot.eval_str('Machine') or 'host'}"[:HOST_NAME_MAX]


def services(job: ClassAd) -> dict[str, int]:
    """The ports inside the container that the job's services are on, by the services' names."""
    found = {}
    for service in split_list(job.eval_str("ContainerServiceNames") or ""):
        port = job.eval_int(f"{service}_ContainerPort")
        # Refused here, where the job's owner is told: the engine's own message would hold the job for its image.
        if port is None or not 0 <= port <= 65535:
            raise UserError(
                f"the container's service {service!r} has no port", expected=f"{service}_container_port = N"
            )
        found[service] = port
    return found


def _ports(job: ClassAd) -> list[str]:
    return [word for port in services(job).values() for word in ("-p", str(port))]


def _shared_memory(job: ClassAd, slot: ClassAd, knobs: Mapping[str, str]) -> list[str]:
    text = knob(knobs, "DOCKER_SHM_SIZE").strip()
    try:
        value = expr(text).eval(slot, job) if text else None
    except ClassAdError:
        value = None
    # A boolean is a number to Python, and to `int()` a byte.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return []
    return ["--shm-size", str(int(value))]


def _command(plan: ContainerPlan, job: ClassAd) -> list[str]:
    """The image and what it runs: the executable goes to the image's entry point, or takes its place."""
    overrides = job.eval_bool("DockerOverrideEntrypoint", False)
    # The engine knows one word for the entry point; the arguments follow the image.
    if plan.command and overrides:
        return ["--entrypoint", plan.command, plan.image, *plan.arguments]
    return [plan.image, *([plan.command] if plan.command else []), *plan.arguments]


def command_of(job: ClassAd, *, transfers: bool) -> str:
    """The program: beside the job's files when it came with them, else one that the image has; empty: the image's."""
    command = job.eval_str("Cmd") or ""
    if command and transfers and job.eval_bool("TransferExecutable", True):
        return f"./{posixpath.basename(command)}"
    return command


def environment_lines(environment: Mapping[str, str]) -> str:
    """The variables for `--env-file`: words are there for everybody of the host to read, a file is not."""
    return "".join(f"{name}={value}\n" for name, value in environment.items() if _fits_a_line(name, value))


def _fits_a_line(name: str, value: str) -> bool:
    """Whether the engine reads this variable back from a line as it is."""
    # A file for --env-file knows no quoting: each line is a variable to its end, and `#` begins a comment.
    return not {"\n", "\r"} & set(value) and not any(c.isspace() for c in name) and not name.startswith("#")


def moved(environment: Mapping[str, str], sandbox: str, inside: str) -> dict[str, str]:
    """The variables, with the sandbox where the container has it (container_target_dir)."""
    if sandbox == inside:
        return dict(environment)
    return {name: value.replace(sandbox, inside) for name, value in environment.items()}


def without_values(words: Sequence[str]) -> str:
    """The words as a log shows them: variables' values are nobody's business."""
    shown = []
    for before, word in zip(["", *words], words, strict=False):
        # Passwords and tokens are in them, and logs are read by many.
        shown.append(f"{word.partition('=')[0]}=..." if before == "-e" else word)
    return " ".join(shown)
