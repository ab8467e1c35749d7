"""Steps that say how the job lives and ends: state, rank, periodic policies, retries, signals, deferral, mail.

The commands are those of HTCondor's manual page condor_submit; the attributes are in job-classad-attributes. A
condition is stored as the expression that was written, with its default where the job's policy needs one. `max_retries`
and its companions become parts of OnExitRemove.
"""

from __future__ import annotations

import re

from pool.base.errors import ClassAdError
from pool.base.words import SPACE, split_list
from pool.classad import Expr, expr
from pool.classad.eval.expression import node_of
from pool.classad.syntax.nodes import Binary, Ternary
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe
from pool.macros.functions import as_int
from pool.submit.job import JobDraft, literal_number, parsed

_SPOOLED_LEAVE = (
    "JobStatus == 4 && (time() - (CompletionDate ?: time())) < 864000 && (StageOutFinish ?: 0) < EnteredCurrentStatus"
)


def status(job: JobDraft) -> None:
    """JobStatus: idle, on hold at the user's wish, or waiting for spooled files."""
    if job.flag("hold", "", False):
        if job.around.remote:
            raise job.error("Cannot set hold to 'true' when using -remote or -spool", "hold")
        _held(job, "SUBMITTED_ON_HOLD", "submitted on hold at user's request")
    elif job.around.remote:
        _held(job, "SPOOLING_INPUT", "Spooling input data files")
    else:
        job.ad["JobStatus"] = JobStatus.IDLE
    job.put("EnteredCurrentStatus", job.around.now)


def _held(job: JobDraft, code: str, reason: str) -> None:
    from pool.jobs.vocabulary.hold_codes import HoldCode  # few jobs begin so, and the table is long

    job.ad["JobStatus"] = JobStatus.HELD
    job.put("HoldReasonCode", HoldCode[code])
    job.put("HoldReason", reason)


_NOTIFICATIONS = {"never": 0, "always": 1, "complete": 2, "error": 3, "start": 4}


def notification(job: JobDraft) -> None:
    """JobNotification."""
    said = job.param("notification", "JobNotification")
    if said is None and not job.is_first:
        return
    said = said or job.knob("JOB_DEFAULT_NOTIFICATION") or "never"
    code = _NOTIFICATIONS.get(said.strip(SPACE).lower())
    if code is None:
        message = "Notification must be 'Never', 'Always', 'Complete', 'Start', or 'Error'"
        raise job.error(message, "notification", "JobNotification")
    job.put("JobNotification", code)


def rank(job: JobDraft) -> None:
    """Rank, with what the configuration adds to it."""
    said = job.param("rank", "preferences")
    if not job.is_first and said is None:
        return
    vanilla = job.universe == Universe.VANILLA
    default = (job.knob("DEFAULT_RANK_VANILLA") if vanilla else None) or job.knob("DEFAULT_RANK")
    append = (job.knob("APPEND_RANK_VANILLA") if vanilla else None) or job.knob("APPEND_RANK")
    text = said or default
    if append:
        text = f"({text}) + ({append})" if text else append
    if text:
        job.put_expr("Rank", text, "rank", "preferences")
    else:
        job.put("Rank", 0.0)


_POLICIES = (
    ("periodic_hold", "PeriodicHold"),
    ("periodic_hold_reason", "PeriodicHoldReason"),
    ("periodic_hold_subcode", "PeriodicHoldSubCode"),
    ("periodic_release", "PeriodicRelease"),
    ("periodic_remove", "PeriodicRemove"),
    ("periodic_vacate", "PeriodicVacate"),
    ("on_exit_hold_reason", "OnExitHoldReason"),
    ("on_exit_hold_subcode", "OnExitHoldSubCode"),
)


def periodic(job: JobDraft) -> None:
    """The periodic policies, and the reasons of holds."""
    for command, attribute in _POLICIES:
        text = job.param(command, attribute)
        if text is not None:
            job.put_expr(attribute, text, command)


def leave_in_queue(job: JobDraft) -> None:
    """LeaveJobInQueue; a spooled job stays until its output has been fetched."""
    text = job.param("leave_in_queue", "LeaveJobInQueue")
    if text is not None:
        job.put_expr("LeaveJobInQueue", text, "leave_in_queue")
    elif not job.has("LeaveJobInQueue"):
        if job.around.remote:
            job.put_expr("LeaveJobInQueue", _SPOOLED_LEAVE)
        else:
            job.put("LeaveJobInQueue", False)


def retries(job: JobDraft) -> None:
    """on_exit_hold, on_exit_remove, and what max_retries and its companions make of the latter."""
    remove = job.param("on_exit_remove", "OnExitRemove")
    hold = job.param("on_exit_hold", "OnExitHold")
    most = job.number("max_retries", "JobMaxRetries")
    success = job.number("success_exit_code", "JobSuccessExitCode")
    until = job.param("retry_until")
    if most is None and success is None and until is None:
        if remove is not None:
            job.put_expr("OnExitRemove", remove, "on_exit_remove")
        if hold is not None:
            job.put_expr("OnExitHold", hold, "on_exit_hold")
        return
    ending = None if until is None else _until(job, until)
    if most is None and not job.has("JobMaxRetries"):
        most = job.around.config.int("DEFAULT_JOB_MAX_RETRIES", 2)
    if most is not None:
        job.put("JobMaxRetries", most)
    if hold is not None:
        job.put_expr("OnExitHold", hold, "on_exit_hold")
    elif not job.has("OnExitHold"):
        job.put("OnExitHold", False)
    if job.has("OnExitRemove") and success is None and ending is None:
        return
    code = "0"
    if success is not None:
        job.put("JobSuccessExitCode", success)
        code = "JobSuccessExitCode"
    text = f"NumJobCompletions > JobMaxRetries || ExitCode =?= {code}"
    if ending is not None:
        text += " || " + ending
    if remove is not None:
        text += " || " + wrapped(remove, "||", job, "on_exit_remove")
    job.put_expr("OnExitRemove", text, "retry_until", "on_exit_remove")


def _until(job: JobDraft, text: str) -> str:
    """retry_until as a clause: an exit code, or an expression."""
    message = f"retry_until={text} is invalid, it must be an integer or boolean expression."
    try:
        one = expr(text, old=True)
    except ClassAdError:
        raise job.error(message, "retry_until") from None
    mine, theirs = one.references()
    if not mine and not theirs:
        code = as_int(text)
        if code is not None:
            if not -(2**31) <= code < 2**31:
                raise job.error(message, "retry_until")
            return f"ExitCode =?= {code}"
    return wrapped(text, "||", job, "retry_until")


def wrapped(text: str, operator: str, job: JobDraft, name: str) -> str:
    """`text` in parentheses if it binds less tightly than `operator`, ready to be joined with it."""
    try:
        node = expr(text, old=True).node
    except ClassAdError:
        raise job.error(f"{name}={text} is invalid, it must be a boolean expression.", name) from None
    loose = isinstance(node, Ternary) or (isinstance(node, Binary) and node.op == "||" and operator == "&&")
    if loose:
        return f"( {Expr(node).old_text} )"
    return text


def kill_signals(job: JobDraft) -> None:
    """The signals that ask the job to stop, by name."""
    for command, attribute in (
        ("kill_sig", "KillSig"),
        ("remove_kill_sig", "RemoveKillSig"),
        ("hold_kill_sig", "HoldKillSig"),
    ):
        said = job.param(command, attribute)
        name = None if said is None else signal_name(said)
        if said is not None and name is None:
            raise job.error(f"invalid signal {said}", command, attribute)
        if name is None and attribute == "KillSig" and job.universe != Universe.VANILLA:
            name = "SIGTERM"
        if name is not None:
            job.put(attribute, name)
    timeout = job.param("kill_sig_timeout", "KillSigTimeout")
    if timeout is not None:
        digits = re.match(r"\s*[-+]?[0-9]{1,18}", timeout)
        job.put("KillSigTimeout", int(digits[0]) if digits else 0)


# The signals of HTCondor, which knows no others.
_SIGNALS = frozenset(
    (
        *("SIGKILL", "SIGCONT", "SIGTERM", "SIGQUIT", "SIGHUP", "SIGSTOP", "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGCHLD"),
        *("SIGABRT", "SIGALRM", "SIGFPE", "SIGILL", "SIGINT", "SIGPIPE", "SIGSEGV", "SIGTRAP", "SIGTTIN", "SIGTTOU"),
        *("SIGIO", "SIGBUS", "SIGURG", "SIGPROF", "SIGWINCH", "SIGSYS", "SIGXCPU", "SIGXFSZ"),
    )
)


def signal_name(text: str) -> str | None:
    """SIGTERM for `SIGTERM`, `sigterm` and `15`."""
    import signal  # most jobs name none

    word = text.strip(SPACE).upper()
    digits = re.match(r"-?\d+", word)
    if digits is not None:
        try:
            word = signal.Signals(int(digits[0])).name
        except ValueError:
            return None
    return word if word in _SIGNALS else None


_CRON = ("CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek")


def deferral_cause(job: JobDraft) -> str | None:
    """The attribute that makes the job wait for a time, if there is one."""
    return next((name for name in (*_CRON, "DeferralTime") if job.has(name)), None)


def deferral(job: JobDraft) -> None:
    """DeferralTime, and for all jobs on a clock the window and the preparation time."""
    _moment(job, "DeferralTime", ("deferral_time", "DeferralTime"))
    if deferral_cause(job) is None:
        return
    if not _moment(job, "DeferralWindow", ("cron_window", "CronWindow"), ("deferral_window", "DeferralWindow")):
        job.put("DeferralWindow", 0)
    if not _moment(
        job, "DeferralPrepTime", ("cron_prep_time", "CronPrepTime"), ("deferral_prep_time", "DeferralPrepTime")
    ):
        job.put("DeferralPrepTime", 300)


def _moment(job: JobDraft, attribute: str, *commands: tuple[str, str]) -> bool:
    for command, other in commands:
        text = job.param(command, other)
        if text is None:
            continue
        value = parsed(text, job, attribute, command, other)
        literal = not isinstance(value, Expr)
        if literal and not (type(value) is int and value >= 0):
            name = commands[-1][0]
            raise job.error(f"{name} = {text} is invalid, must eval to a non-negative integer.", command, other)
        job.put(attribute, value)
        return True
    return False


def automatic(job: JobDraft) -> None:
    """Attributes that follow from others."""
    if not job.has("MaxHosts"):
        job.put("MinHosts", 1)
        job.put("MaxHosts", 1)
    if not job.has("CurrentHosts"):
        job.put("CurrentHosts", 0)
    if job.has("SuccessCheckpointExitCode"):
        job.put("WantFTOnCheckpoint", True)
    if job.around.interactive and not job.has("JobDescription"):
        job.put("JobDescription", "interactive job")
    if not job.has("MaxJobRetirementTime") and job.is_true("NiceUser"):
        job.put("MaxJobRetirementTime", 0)
    if job.universe not in (Universe.SCHEDULER, Universe.LOCAL) and not job.has("JobLeaseDuration"):
        lease = job.knob("JOB_DEFAULT_LEASE_DURATION")
        if lease:
            job.put_expr("JobLeaseDuration", lease)
    if not job.has("JobPrio"):
        job.put("JobPrio", 0)
    if job.has("JobStarterLog") and not job.has("JobStarterDebug"):
        job.put("JobStarterDebug", True)


def mistakes(job: JobDraft) -> None:
    """What is probably not meant, and what cannot be."""
    who = job.text("NotifyUser")
    if who is not None and who.lower() in ("false", "never"):
        domain = job.knob("UID_DOMAIN") or ""
        job.warn(
            f"You used  notify_user={who}  in your submit file.\n"
            f'This means notification email will go to user "{who}@{domain}".\n'
            "This is probably not what you expect!\n"
            'If you do not want notification email, put "notification = never"\n'
            "into your submit file, instead."
        )
    length = job.ad.get("JobMachineAttrsHistoryLength")
    if isinstance(length, int) and not 0 <= length < 2**31:
        name = "job_machine_attrs_history_length"
        raise job.error(f"{name}={length} is out of bounds 0 to {2**31 - 1}", name)
    lease = literal_number(job, "JobLeaseDuration")
    if lease is not None and 0 < lease < 20:
        job.warn("JobLeaseDuration less than 20 seconds is not allowed, using 20 instead")
        job.put("JobLeaseDuration", 20)
    if job.universe == Universe.SCHEDULER and job.has("DeferralTime"):
        cause = deferral_cause(job)
        raise job.error(
            f"{cause} does not work for scheduler universe jobs.\n"
            "Consider submitting this job using the local universe, instead",
            "deferral_time",
        )
    if job.has("OutputDestination") and job.has("OutputDirectory"):
        message = "You cannot use both output_destination and output_directory in the same submit file"
        raise job.error(message, "output_destination")


def accounting(job: JobDraft) -> None:
    """AcctGroup, AcctGroupUser and AccountingGroup; nice_user is a group of its own."""
    project = job.param("project_name", "ProjectName")
    if project:
        job.put("ProjectName", project)
    group = job.param("accounting_group", "AccountingGroup")
    if job.flag("nice_user", "NiceUser", False):
        nice = job.knob("NICE_USER_ACCOUNTING_GROUP_NAME")
        if group is None:
            group = nice
        elif group != nice:
            job.warn("nice_user conflicts with accounting_group. nice_user will be ignored")
        job.put("MaxJobRetirementTime", 0)
    user = job.param("accounting_group_user", "AcctGroupUser")
    if group is None and user is None:
        return
    user = user or job.around.user
    if group is not None and any(char in SPACE for char in group):
        raise job.error(f"Invalid accounting_group: {group}", "accounting_group")
    if any(char in SPACE for char in user):
        raise job.error(f"Invalid accounting_group_user: {user}", "accounting_group_user")
    job.put("AcctGroupUser", user)
    if group is not None:
        job.put("AcctGroup", group)
    job.put("AccountingGroup", user if group is None else f"{group}.{user}")


def concurrency_limits(job: JobDraft) -> None:
    """ConcurrencyLimits: names in order, or an expression."""
    names, expression = job.param("concurrency_limits"), job.param("concurrency_limits_expr")
    if names and expression:
        message = "concurrency_limits and concurrency_limits_expr can't be used together"
        raise job.error(message, "concurrency_limits_expr")
    if names:
        limits = sorted(split_list(names.lower()))
        for limit in limits:
            name, _, rest = limit.partition(":")[0].partition(".")
            if (
                not name.replace("_", "a").isalnum()
                or name[0].isdigit()
                or (rest and not rest.replace("_", "a").isalnum())
            ):
                raise job.error(f"Invalid concurrency limit '{limit}'", "concurrency_limits")
        if limits:
            job.put("ConcurrencyLimits", ",".join(limits))
    elif expression:
        job.put_expr("ConcurrencyLimits", expression, "concurrency_limits_expr")


def evict_transforms(job: JobDraft) -> None:
    """TransformOnEvict: named transforms, kept with a separator instead of line ends."""
    names = job.param("on_evict_checks", "TransformOnEvict")
    if not names:
        return
    kept: list[str] = []
    for tag in split_list(names):
        body = job.scope.lookup("transform_body_" + tag) or job.scope.lookup("TransformBody_" + tag)
        if body:
            kept.append(tag)
            lines = [job.scope.expand(line.strip(SPACE)) for line in body.split("\n")]
            text = "\x1e".join(line for line in lines if line and not line.startswith("#"))
            job.put("TransformBody_" + tag, text)
    job.put("TransformOnEvict", " ".join(kept))


def literal(value: object) -> str:
    """A value as an expression's text."""
    return Expr(node_of(value)).old_text
