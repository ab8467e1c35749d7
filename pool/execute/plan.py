"""What to start for a job, and how: a job ad and a slot ad become a program, its words, variables, files and limits.

* The program is the file that moved into the sandbox, or where the job's ad says when files stay; relative names are
  below the directory it starts in.
* Variables: the administrator's for every job, which a job's own replace; over both what names the slot, the ads' files
  and the sandbox. The numbers of threads are set where the job does not set them.
* Limits are soft ones: a job can lower them, and raise them as far as the machine allows.

Source: HTCondor manual, "Environment and services for a running job", "condor_submit"
(core_size, stack_size ...) and "Configuration Macros" (STARTER_JOB_ENVIRONMENT, USER_JOB_WRAPPER).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pool.base.units import parse_in_units
from pool.classad import ClassAd
from pool.execute.assigned import DEFAULTS as ASSIGNED_KNOBS
from pool.execute.assigned import assigned_environment
from pool.execute.criu import placed, wants_criu
from pool.execute.hypervisor import Hypervisor
from pool.execute.hypervisor import words as vm_words
from pool.execute.java import is_java, java_argv
from pool.execute.quoting import arguments_of, environment_of
from pool.execute.remote_io import wants_remote_io
from pool.execute.vm import COMPLAINTS, is_vm
from pool.jobs.late_macros import SCRATCH_MARK
from pool.jobs.vocabulary import nodes

NULL: Final = "/dev/null"
STDOUT_NAME: Final = "_condor_stdout"
STDERR_NAME: Final = "_condor_stderr"
JOB_AD_NAME: Final = ".job.ad"
MACHINE_AD_NAME: Final = ".machine.ad"
CHIRP_CONFIG_NAME: Final = ".chirp.config"
WRAPPER_ERROR_NAME: Final = ".job_wrapper_failure"
LAUNCHED_NAME: Final = ".condor_container_launched"
OWN_NAMES: Final = frozenset(
    {JOB_AD_NAME, MACHINE_AD_NAME, STDOUT_NAME, STDERR_NAME, WRAPPER_ERROR_NAME, CHIRP_CONFIG_NAME, LAUNCHED_NAME}
)
"""What the starter itself puts into a sandbox."""

THREAD_VARIABLES: Final = (
    "CUBACORES", "GOMAXPROCS", "JULIA_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "PYTHON_CPU_COUNT", "ROOT_MAX_THREADS", "TF_LOOP_PARALLEL_ITERATIONS",
    "TF_NUM_THREADS",
)  # fmt: skip
"""The default of STARTER_NUM_THREADS_ENV_VARS."""

CORE_BYTES_DEFAULT: Final = 0


@dataclass(frozen=True)
class ExecuteSurroundings:
    """What the execute side adds: where it runs the job, as whom, and the knobs that shape a job's environment."""

    sandbox: str
    slot: str
    starter_pid: int
    home: str | None = None
    user: str | None = None
    thread_variables: Sequence[str] = THREAD_VARIABLES
    bin: str = ""
    """Where the pool's tools are."""
    starter_environment: Mapping[str, str] = field(default_factory=dict)
    """What the pool's administrator gives to every job (STARTER_JOB_ENVIRONMENT)."""
    assigned_knobs: Mapping[str, str] = field(default_factory=lambda: ASSIGNED_KNOBS)
    """ENVIRONMENT_FOR_Assigned<name> and its kin."""
    chirps: bool = False
    """Whether the job is let in at its starter (condor_chirp)."""
    chirp_prefix: str = "CHIRP"
    java: Mapping[str, str] = field(default_factory=dict)
    """The machine's JAVA* knobs."""
    vm: Mapping[str, str] = field(default_factory=dict)
    """What the machine has for virtual machines."""
    transfers: bool | None = None
    """Whether files move, where that has been decided already; else the job's ad says."""


@dataclass(frozen=True)
class RunPlan:
    """How to run the job. Paths are absolute."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    stdin: str
    stdout: str
    stderr: str
    transfers: bool
    rlimits: Mapping[str, int]
    nice: int = 0
    append_output: bool = False
    wrapped: bool = False
    """The program is the machine's USER_JOB_WRAPPER, and the job's is its first argument."""
    test: tuple[str, ...] = ()
    """A command that has to go well before the program is started."""
    mark: str = ""
    """A file by which is known, once it has ended, that the program was not only started but has run the job's."""
    inside: Mapping[str, str] | None = None
    """The environment in the image that the program puts the job into; None where it puts it into none."""

    @property
    def argv(self) -> list[str]:
        """The program's words, its name first."""
        return [self.program, *self.arguments]


def wrapped(plan: RunPlan, wrapper: str, sandbox: str) -> RunPlan:
    """The plan with the machine's wrapper in front of the job's program."""
    error_file = posixpath.join(sandbox, WRAPPER_ERROR_NAME)
    return replace(
        plan,
        program=wrapper,
        arguments=(plan.program, *plan.arguments),
        environment={**plan.environment, "_CONDOR_WRAPPER_ERROR_FILE": error_file},
        wrapped=True,
    )


def placed_plan(plan: RunPlan, sandbox: str) -> RunPlan:
    """The plan for a job that has its sandbox at a place that is the same on every machine."""
    return replace(
        plan,
        program=placed(plan.program, sandbox),
        arguments=tuple(placed(word, sandbox) for word in plan.arguments),
        environment={name: placed(value, sandbox) for name, value in plan.environment.items()},
        directory=placed(plan.directory, sandbox),
        stdin=placed(plan.stdin, sandbox),
        stdout=placed(plan.stdout, sandbox),
        stderr=placed(plan.stderr, sandbox),
    )


def wants_transfer(job: ClassAd, slot: ClassAd) -> bool:
    """Whether the job's files move between the user's directory and the sandbox.

    None do where the job has them where they are (want_remote_io). ShouldTransferFiles decides, where IF_NEEDED asks if
    both sides see one file system. A job that cannot run as its owner there (root's never do) reaches none of the
    owner's files, and so they always move; so do those of a job that can go on elsewhere with all its files
    (want_checkpoint), and those of a virtual machine.
    """
    if wants_remote_io(job):
        return False
    if wants_criu(job) or is_vm(job) or _runs_as_a_stranger(job, slot):
        return True
    should = (job.eval_str("ShouldTransferFiles") or "IF_NEEDED").upper()
    if should == "IF_NEEDED":
        mine, theirs = job.eval_str("FileSystemDomain"), slot.eval_str("FileSystemDomain")
        return mine is None or theirs is None or mine.lower() != theirs.lower()
    return should == "YES"


def _runs_as_a_stranger(job: ClassAd, slot: ClassAd) -> bool:
    if (job.eval_str("OsUser") or job.eval_str("Owner")) == "root":
        return True
    mine, theirs = (job.eval_str("User") or "").partition("@")[2], slot.eval_str("UidDomain")
    return bool(mine and theirs) and mine.lower() != str(theirs).lower()


def plan_job(job: ClassAd, slot: ClassAd, around: ExecuteSurroundings) -> RunPlan:
    """How to run `job` in `slot`; UserError when its arguments or environment cannot be read."""
    transfers = around.transfers
    if transfers is None:
        transfers = wants_transfer(job, slot)
    directory = around.sandbox if transfers else job.eval_str("Iwd") or around.sandbox
    stdin, stdout, stderr = _standard_files(job, directory, transfers)
    if is_java(job):
        program, *arguments = java_argv(job, arguments_of(job), around.java, transfers=transfers)
    elif is_vm(job):
        program, *arguments = vm_words(job, Hypervisor.read(around.vm))
        stderr = posixpath.join(around.sandbox, COMPLAINTS)
    else:
        program, arguments = _program(job, directory, around.sandbox, transfers), arguments_of(job)
    return RunPlan(
        program=program,
        arguments=tuple(arguments),
        environment=_environment(job, slot, around, directory, transfers),
        directory=_working_directory(job, directory, transfers),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        transfers=transfers,
        rlimits=_rlimits(job),
        nice=max(0, min(19, job.eval_int("JobNice") or 0)),
    )


def _working_directory(job: ClassAd, directory: str, transfers: bool) -> str:
    """Where the program starts: a job whose files stay where they are may name another directory of the machine's."""
    remote = job.eval_str("RemoteIwd")
    return posixpath.join(directory, remote) if remote and not transfers else directory


def _program(job: ClassAd, directory: str, sandbox: str, transfers: bool) -> str:
    """Where the program is: in the sandbox when it moved there, else under the working directory if it is relative."""
    command = job.eval_str("Cmd") or ""
    if transfers and job.eval_bool("TransferExecutable", True):
        return posixpath.join(sandbox, posixpath.basename(command))
    return posixpath.join(directory, command)


def _standard_files(job: ClassAd, directory: str, transfers: bool) -> tuple[str, str, str]:
    """Where standard input, output and error are while the job runs."""
    stdin = job.eval_str("In") or NULL
    if transfers and job.eval_bool("TransferIn", True) and stdin != NULL:
        stdin = posixpath.basename(stdin)
    return (
        posixpath.join(directory, stdin),
        _output(job, "Out", STDOUT_NAME, directory, transfers),
        _output(job, "Err", same_output_name(job), directory, transfers),
    )


def _output(job: ClassAd, name: str, moved_name: str, directory: str, transfers: bool) -> str:
    path = job.eval_str(name) or NULL
    if path != NULL and transfers and job.eval_bool(f"Transfer{name}", True):
        path = moved_name
    return posixpath.join(directory, path)


def same_output_name(job: ClassAd) -> str:
    """The sandbox's name of standard error: that of standard output when the job wants both in one file."""
    out, err = job.eval_str("Out"), job.eval_str("Err")
    return STDOUT_NAME if out is not None and out == err else STDERR_NAME


def _environment(
    job: ClassAd, slot: ClassAd, around: ExecuteSurroundings, directory: str, transfers: bool
) -> dict[str, str]:
    """The job's own variables, and what every job is told about where it runs."""
    environment = dict(around.starter_environment)
    environment.update(environment_of(job))
    for name, value in environment.items():
        if SCRATCH_MARK in value:
            environment[name] = value.replace(SCRATCH_MARK, around.sandbox)
    environment.update(_facts(slot, around, directory), **nodes.environment(job))
    cpus = slot.eval_int("Cpus") or 0
    if cpus > 0:
        for name in around.thread_variables:
            if not environment.get(name):
                environment[name] = str(cpus)
    proxy = job.eval_str("X509UserProxy")
    if proxy:
        environment["X509_USER_PROXY"] = posixpath.join(directory, posixpath.basename(proxy) if transfers else proxy)
    if around.home is not None:
        environment["HOME"] = around.home
    if around.user is not None:
        environment.setdefault("USER", around.user)
        environment.setdefault("LOGNAME", around.user)
    if around.chirps:
        environment["_CONDOR_CHIRP_CONFIG"] = posixpath.join(around.sandbox, CHIRP_CONFIG_NAME)
    return environment


def facts(job: ClassAd, slot: ClassAd, around: ExecuteSurroundings) -> dict[str, str]:
    """What the programs around a job are told about where it runs; none of the job's own variables."""
    transfers = wants_transfer(job, slot) if around.transfers is None else around.transfers
    return _facts(slot, around, around.sandbox if transfers else job.eval_str("Iwd") or around.sandbox)


def _facts(slot: ClassAd, around: ExecuteSurroundings, directory: str) -> dict[str, str]:
    sandbox = around.sandbox
    facts = {
        "BATCH_SYSTEM": "HTCondor",
        "_CONDOR_BIN": around.bin,
        "_CONDOR_JOB_IWD": directory,
        "_CONDOR_JOB_PIDS": "",
        "_CONDOR_SCRATCH_DIR": sandbox,
        "_CONDOR_SLOT": around.slot,
        "_CONDOR_JOB_AD": posixpath.join(sandbox, JOB_AD_NAME),
        "_CONDOR_MACHINE_AD": posixpath.join(sandbox, MACHINE_AD_NAME),
        "CONDOR_STARTER_PID": str(around.starter_pid),
        "APPTAINER_CACHEDIR": sandbox,
        "SINGULARITY_CACHEDIR": sandbox,
        "_CHIRP_DELAYED_UPDATE_PREFIX": around.chirp_prefix,
        "TMPDIR": sandbox,
        "TEMP": sandbox,
        "TMP": sandbox,
    }
    facts.update(assigned_environment(slot, around.assigned_knobs))
    return facts


def _rlimits(job: ClassAd) -> dict[str, int]:
    """Soft limits by resource name (`CORE`, `STACK`), in bytes."""
    core = job.eval_int("CoreSize")
    limits = {"CORE": CORE_BYTES_DEFAULT if core is None else core}
    stack = job.eval("StackSize")
    if isinstance(stack, int) and not isinstance(stack, bool) and stack > 0:
        limits["STACK"] = stack
    elif isinstance(stack, str) and (amount := parse_in_units(stack, 1)):
        limits["STACK"] = amount
    return limits
