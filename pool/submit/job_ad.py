"""One row of items becomes one job ad: the steps, in the order in which each may rely on those before it.

The source is HTCondor's manual page condor_submit. `commands.txt` says for each command which step reads it, or how the
table alone does. A step puts attributes into the ad, and may read those of the steps before it; one that fails does not
keep the others from telling what else is wrong. Lines `+Name = expression` come near the end and win.
"""

from __future__ import annotations

from collections.abc import Callable

from pool.base.errors import SubmitError
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.base.words import SPACE, split_list
from pool.classad import UNDEFINED, ClassAd
from pool.jobs.vocabulary.new_job import NOT_RUN_YET
from pool.macros.functions import as_int
from pool.submit import policy, program, requirements, resources, transfer, virtual_machines
from pool.submit.commands import COMMANDS
from pool.submit.job import JobDraft, SubmitSurroundings, as_bool, parsed, strip_quotes
from pool.submit.open_checks import open_checks
from pool.submit.scope import Scope

SIMPLE = tuple((one.name, one.attribute, one.kind) for one in COMMANDS if not one.step)
"""The commands that the table alone describes."""


def base(around: SubmitSurroundings) -> ClassAd:
    """What every job begins with, and what the administrator adds to it."""
    ad = ClassAd({"MyType": "Job", "TargetType": "Machine", "QDate": around.now, "Owner": UNDEFINED})
    for name, value in NOT_RUN_YET.items():
        ad[name] = value
    ad["SubmitVersion"] = CONDOR_VERSION
    ad["CondorVersion"] = CONDOR_VERSION
    ad["CondorPlatform"] = CONDOR_PLATFORM
    ad["JobSubmitMethod"] = 0
    return ad


def added_attributes(around: SubmitSurroundings) -> tuple[list[str], list[str]]:
    """The names in SUBMIT_ATTRS: those that jobs may override, and those (`+X`, `MY.X`) that they may not."""
    weak: list[str] = []
    forced: list[str] = []
    for knob in ("SUBMIT_ATTRS", "SUBMIT_EXPRS", "SYSTEM_SUBMIT_ATTRS"):
        for name in split_list(around.config.str(knob, "")):
            if name.startswith("+"):
                forced.append(name[1:])
            elif name.lower().startswith("my."):
                forced.append(name[3:])
            else:
                weak.append(name)
    return weak, forced


def make(
    scope: Scope,
    around: SubmitSurroundings,
    proc: int,
    cluster: ClassAd | None,
    first: JobDraft | None,
    *,
    kind: type[JobDraft] = JobDraft,
) -> JobDraft:
    """The job `proc`. Without a `cluster` ad the whole of it is built; with one, what differs from that."""
    job = kind(scope, around, proc, cluster)
    wrong: list[SubmitError] = []
    if first is None:
        job.ad = base(around)
        for name in added_attributes(around)[0]:
            text = around.config[name]
            if text:
                job.put_expr(name, text)
        try:
            program.universe(job)
        except SubmitError as error:
            wrong.append(error)
    else:
        job.universe, job.is_docker, job.is_container = first.universe, first.is_docker, first.is_container
    for step in STEPS:
        try:
            step(job)
        except SubmitError as error:  # what else is wrong is told in the same breath
            wrong.append(error)
    if wrong:
        raise wrong[0].with_others(wrong[1:])
    job.ad["ProcId"] = proc
    return job


def _simple(job: JobDraft) -> None:
    """The commands that the table alone describes."""
    found = False
    for name, attribute, kind in SIMPLE:
        if kind.startswith("alias") and found:
            continue
        text = job.param(name, attribute)
        found = text is not None
        if text is not None:
            _put_simple(job, name, attribute, kind.removeprefix("alias "), text)


def _put_simple(job: JobDraft, name: str, attribute: str, kind: str, text: str) -> None:
    if kind == "expr":
        job.put(attribute, parsed(text, job, attribute, name))
    elif kind == "bool":
        value = as_bool(text)
        if value is None:
            raise job.error(f"{name}={text} is invalid, must eval to a boolean.", name, attribute)
        job.put(attribute, value)
    elif kind in ("int", "uint"):
        number = as_int(text)
        if number is None:
            raise job.error(f"{name}={text} is invalid, must eval to an integer.", name, attribute)
        if number < 0 and kind == "uint":
            raise job.error(f"{name}={text} is invalid, must eval to a non-negative integer.", name, attribute)
        job.put(attribute, number)
    else:
        said = strip_quotes(text) if "unquoted" in kind else text
        if kind == "list":
            said = ",".join(split_list(said))
        if ("log" in kind or kind == "file") and said:
            said = job.full_path(said)
        job.put(attribute, said)


def _extended(job: JobDraft) -> None:
    """Commands that the administrator added; an example value tells the type of each."""
    said = job.around.config["EXTENDED_SUBMIT_COMMANDS"]
    if not said:
        return
    for line in said.split("\n"):
        name, equals, example = (part.strip(SPACE) for part in line.partition("="))
        if not equals or not name:
            continue
        text = job.param(name)
        if text is None:
            continue
        value = parsed(example, job, name)
        if isinstance(value, bool):
            kind = "bool"
        elif isinstance(value, int):
            kind = "int" if value < 0 else "uint"
        elif isinstance(value, str):
            kind = "list" if "," in value else "file" if value.lower().startswith("file") else "unquoted"
        elif value is UNDEFINED:
            continue
        elif type(value).__name__ == "Error":
            raise job.error(f"{name}={text} has been disabled by the administrator.", name)
        else:
            kind = "expr"
        _put_simple(job, name, name, kind, strip_quotes(text) if kind == "list" else text)


def _forced_by_configuration(job: JobDraft) -> None:
    if not job.is_first:
        return
    for name in added_attributes(job.around)[1]:
        text = job.around.config[name]
        if text:
            job.put_expr(name, text)


def _forced(job: JobDraft) -> None:
    """`+Name = expression` and `MY.Name = expression`."""
    for macro in job.scope.macros:
        if macro.name[:3].lower() != "my." or len(macro.name) < 4:
            continue
        name = macro.name[3:]
        job.scope.used.add(macro.name.lower())
        text = job.scope.expand(macro.text) if macro.text else ""
        if name.lower() == "clusterid" or name.lower() == "procid":
            continue
        job.put_expr(name, text or "undefined", macro.name)


def _job_set(job: JobDraft) -> None:
    """JOBSET.Name gives the set's name where `jobset` does not."""
    if job.is_first and not job.has("JobSetName"):
        named = [macro for macro in job.scope.macros if macro.name.lower().startswith("jobset.")]
        name = next((macro for macro in named if macro.name.lower() == "jobset.name"), None)
        if name is not None:
            job.put("JobSetName", strip_quotes(job.scope.expand(name.text)))
        elif named:
            job.put("JobSetName", job.scope.defaults["cluster"])
    if not job.is_first and "jobsetname" in job.ad.attrs:
        what = f"(0:{job.parent['JobSetName'] if job.parent else ''} != {job.proc}:{job.ad['JobSetName']})"
        raise job.error(f"{what} All jobs from a single submission must be in the same JOBSET", "jobset", "JobSetName")


STEPS: tuple[Callable[[JobDraft], None], ...] = (
    program.file_checks,
    program.directory,
    program.executable,
    program.arguments,
    program.java_arguments,
    program.environment,
    policy.status,
    program.tool_daemon,
    program.standard_files,
    resources.credentials,
    policy.notification,
    policy.rank,
    policy.periodic,
    policy.leave_in_queue,
    policy.retries,
    policy.evict_transforms,
    policy.kill_signals,
    resources.service_ports,
    virtual_machines.virtual_machine,
    resources.requests,
    resources.machines,
    policy.concurrency_limits,
    policy.accounting,
    resources.oauth,
    _simple,
    _extended,
    resources.docker_credentials,
    policy.deferral,
    resources.image_size,
    transfer.transfer,
    open_checks,
    policy.automatic,
    policy.mistakes,
    _forced_by_configuration,
    _forced,
    _job_set,
    resources.no_negative_requests,
    resources.gpu_requirements,
    requirements.requirements,
    resources.materialization,
)
