"""What a job's own policy, and the administrator's, make of it: hold, release, remove, vacate, or nothing.

`periodic` is asked now and then in every state, `on_exit` once the program has ended. The first expression that is true
wins, in HTCondor's order; one that is undefined or an error decides nothing. What max_retries and its kin mean was
written into OnExitRemove at submit.

In this order, where a state allows it: ALLOWED_JOB_DURATION and its kin, vacate, timer_remove, a missed deferral, hold,
release, remove; of each the job's own expression first, then SYSTEM_PERIODIC_<ACTION>_<NAME>, then the one without a
name. A hold that a user asked for is never released. Expressions that cost too much processor time have it held.

Source: HTCondor manual, "condor_submit" (periodic_hold, on_exit_remove ...), "Configuration Macros"
(SYSTEM_PERIODIC_HOLD ...) and "Hold Reason Codes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from pool.base.errors import ClassAdError
from pool.base.ids import is_number
from pool.base.units import show_seconds
from pool.base.words import split_list
from pool.classad import ClassAd, Expr, expr
from pool.classad.eval.budget import Overruns, TooDear
from pool.classad.values.truth import is_true, truth_of
from pool.classad.values.value import whole_number
from pool.jobs.deferral import MISSED, has_missed
from pool.jobs.vocabulary.hold_codes import HoldCode, VacateCode
from pool.jobs.vocabulary.states import EXECUTING, JobStatus


class PolicyAction(Enum):
    """What shall be done with a job."""

    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"
    VACATE = "vacate"
    REQUEUE = "requeue"
    COMPLETE = "complete"


@dataclass(frozen=True)
class Decision:
    """What shall be done, and what the user will read about it."""

    action: PolicyAction
    reason: str = ""
    code: int = 0
    subcode: int = 0


@dataclass(frozen=True)
class SystemRule:
    """One SYSTEM_PERIODIC_* expression with its reason and subcode."""

    knob: str
    expr: Expr
    reason: Expr | None = None
    subcode: Expr | None = None


@dataclass(frozen=True)
class SystemPolicy:
    """The administrator's rules, tried after the job's own of the same kind."""

    hold: Sequence[SystemRule] = ()
    release: Sequence[SystemRule] = ()
    remove: Sequence[SystemRule] = ()
    vacate: Sequence[SystemRule] = ()
    max_releases: int | None = None
    ignored: Sequence[str] = field(default=())
    """Knobs whose expressions do not parse, for the log."""
    fixed: frozenset[str] = frozenset()
    """Attributes (lower case) that jobs' own transforms leave as they are."""

    def __bool__(self) -> bool:
        return bool(self.hold or self.release or self.remove or self.vacate)


class PolicyKnobs(Protocol):
    """What is read of the configuration: a knob's expanded text, or None."""

    def __getitem__(self, name: str, /) -> str | None: ...


_RULES: Final = {
    PolicyAction.HOLD: "HOLD",
    PolicyAction.RELEASE: "RELEASE",
    PolicyAction.REMOVE: "REMOVE",
    PolicyAction.VACATE: "VACATE",
}


def system_policy(knobs: PolicyKnobs, fixed: frozenset[str] = frozenset()) -> SystemPolicy:
    """The SYSTEM_PERIODIC_* rules of a configuration, those of the `_NAMES` lists included."""
    ignored: list[str] = []
    found = {action: tuple(_rules(knobs, f"SYSTEM_PERIODIC_{word}", ignored)) for action, word in _RULES.items()}
    most = knobs["SYSTEM_MAX_RELEASES"]
    return SystemPolicy(
        hold=found[PolicyAction.HOLD],
        release=found[PolicyAction.RELEASE],
        remove=found[PolicyAction.REMOVE],
        vacate=found[PolicyAction.VACATE],
        max_releases=int(most) if most and is_number(most) else None,
        ignored=ignored,
        fixed=fixed,
    )


def _rules(knobs: PolicyKnobs, base: str, ignored: list[str]) -> list[SystemRule]:
    tags = split_list(knobs[f"{base}_NAMES"])
    rules = []
    for knob in [*(f"{base}_{tag}" for tag in tags), base]:
        text = (knobs[knob] or "").strip()
        # The default of each of these knobs; a rule that is never true would be asked of every job all the same.
        if not text or text.lower() in ("false", "0"):
            continue
        try:
            rule = SystemRule(knob, expr(text), _optional(knobs[f"{knob}_REASON"]), _optional(knobs[f"{knob}_SUBCODE"]))
        except ClassAdError:
            ignored.append(knob)
        else:
            rules.append(rule)
    return rules


def _optional(text: str | None) -> Expr | None:
    return expr(text) if text and text.strip() else None


_PERIODIC: Final = ("PeriodicHold", "PeriodicRelease", "PeriodicRemove", "PeriodicVacate")
_LIMITS: Final = ("TimerRemove", "DeferralTime", "AllowedJobDuration", "AllowedExecuteDuration")
POLICY: Final = (*_PERIODIC, *_LIMITS)
"""The attributes without which a job has no periodic policy of its own."""


def is_trivial(ad: ClassAd) -> bool:
    """Whether the job's own periodic policy can never do anything, so that nobody needs to look at it."""
    for name in _PERIODIC:
        value = ad.get(name, False)
        if value is not False and value != 0:
            return False
    return not any(name in ad for name in _LIMITS)


def reads(ad: ClassAd, system: SystemPolicy) -> frozenset[str] | None:
    """What decides the periodic policy of a job with this ad that does not run, in lower case, apart from its state.

    None where jobs that agree in all of that may yet fare differently.
    """
    names = {*_READ, *(f"{name}{of}" for name in _ATTRIBUTES.values() for of in ("", "Reason", "SubCode"))}
    # Only one step: `references` follows the job's own attributes itself.
    for name in [*names]:
        if name in ad:
            names.update(*ad.references(name))  # what the cluster lacks a job may have
    for rule in (*system.hold, *system.release, *system.remove):
        for expression in (rule.expr, rule.reason, rule.subcode):
            if expression is not None:
                names.update(*expression.references(ad))
                # Jobs alike are judged once for all of them, and a die must be thrown for each.
                if "random" in expression.text.lower():
                    return None
    if any("random" in ad.text(name).lower() for name in names if name in ad):
        return None
    found = frozenset(name.rpartition(".")[2].lower() for name in names)
    return None if found & _OF_ITS_OWN else found


def periodic(ad: ClassAd, status: JobStatus, now: float, system: SystemPolicy) -> Decision | None:
    """What the policy wants of a job in this state, apart from its exit. One that costs too much has it held."""
    if status is JobStatus.REMOVED or (
        status is JobStatus.HELD and ad.eval_int("HoldReasonCode") == HoldCode.EXPRESSION_TOO_COSTLY
    ):
        return None
    with Overruns(most=2) as seen:
        try:
            return _periodic(ad, status, now, system)
        except TooDear:
            pass
    return Decision(
        PolicyAction.HOLD, too_costly(ad, _ATTRIBUTES.values(), seen.reason), HoldCode.EXPRESSION_TOO_COSTLY
    )


def too_costly(ad: ClassAd, names: Iterable[str], reason: str, target: ClassAd | None = None) -> str:
    """Which of these attributes cannot be evaluated within the budget, for the user to read."""
    for name in names:
        with Overruns(most=2) as seen:
            try:
                ad.eval(name, target)
            except TooDear:
                pass
        if seen.count:
            return f"The job attribute {name} costs too much processor time: {seen.reason}"
    return f"The job's expressions cost too much processor time: {reason}"


def _periodic(ad: ClassAd, status: JobStatus, now: float, system: SystemPolicy) -> Decision | None:
    # HTCondor's order: limits of time, vacate, timer, a missed start, then hold, release and remove.
    if status in EXECUTING:
        decision = _too_long(ad, now) or _rule(ad, PolicyAction.VACATE, system.vacate)
        if decision is not None:
            return decision
    timer = ad.eval_int("TimerRemove")
    if timer is not None and 0 <= timer < now:
        return Decision(PolicyAction.REMOVE, _because("job attribute", "TimerRemove", ad.text("TimerRemove")))
    if status is JobStatus.IDLE and has_missed(ad, now):
        return Decision(PolicyAction.HOLD, MISSED, HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
    if status not in (JobStatus.HELD, JobStatus.COMPLETED):
        decision = _rule(ad, PolicyAction.HOLD, system.hold)
        if decision is not None:
            return decision
    if status is JobStatus.HELD and _may_release(ad, system):
        decision = _rule(ad, PolicyAction.RELEASE, system.release)
        if decision is not None:
            return decision
    return _rule(ad, PolicyAction.REMOVE, system.remove)


def on_exit(ad: ClassAd, status: JobStatus, now: float, system: SystemPolicy) -> Decision:
    """What becomes of a job whose program has ended; its ad has ExitBySignal, and ExitCode or ExitSignal."""
    if status is JobStatus.REMOVED:
        return Decision(PolicyAction.REMOVE)
    decision = periodic(ad, status, now, system)
    if decision is not None and decision.action is not PolicyAction.VACATE:
        return decision
    if is_true(ad.eval("OnExitHold")):
        return _of_job(ad, PolicyAction.HOLD, "OnExitHold")
    remove = ad.eval("OnExitRemove") if "OnExitRemove" in ad else True
    if truth_of(remove) is False:
        because = _because("job attribute", "OnExitRemove", ad.text("OnExitRemove"), "FALSE")
        return Decision(PolicyAction.REQUEUE, because, VacateCode.JOB_SHOULD_REQUEUE)
    return Decision(PolicyAction.COMPLETE)


def _too_long(ad: ClassAd, now: float) -> Decision | None:
    """AllowedJobDuration counts from the start of the shadow, AllowedExecuteDuration from that of the program."""
    started = ad.eval_int("ShadowBday")
    if started is None:
        return None
    allowed = ad.eval_int("AllowedJobDuration")
    if allowed is not None and now - started >= allowed:
        said = f"The job exceeded allowed job duration of {show_seconds(allowed)}"
        return Decision(PolicyAction.HOLD, said, HoldCode.JOB_DURATION_EXCEEDED)
    allowed, executing = ad.eval_int("AllowedExecuteDuration"), ad.eval_int("JobCurrentStartExecutingDate")
    if allowed is not None and executing is not None and executing >= started and now - executing > allowed:
        said = f"The job exceeded allowed execute duration of {show_seconds(allowed)}"
        return Decision(PolicyAction.HOLD, said, HoldCode.JOB_EXECUTE_EXCEEDED)
    return None


def _may_release(ad: ClassAd, system: SystemPolicy) -> bool:
    """A hold that a user asked for is for a user to end."""
    if ad.eval_int("HoldReasonCode", 0) == HoldCode.USER_REQUEST:
        return False
    return system.max_releases is None or (ad.eval_int("NumHolds") or 0) < system.max_releases


_ATTRIBUTES: Final[Mapping[PolicyAction, str]] = {
    PolicyAction.HOLD: "PeriodicHold",
    PolicyAction.RELEASE: "PeriodicRelease",
    PolicyAction.REMOVE: "PeriodicRemove",
    PolicyAction.VACATE: "PeriodicVacate",
}


_READ: Final = ("TimerRemove", "DeferralTime", "DeferralWindow", "HoldReasonCode", "NumHolds")
_OF_ITS_OWN: Final = frozenset({"procid", "globaljobid"})


def _rule(ad: ClassAd, action: PolicyAction, rules: Sequence[SystemRule]) -> Decision | None:
    name = _ATTRIBUTES[action]
    if is_true(ad.eval(name)):
        return _of_job(ad, action, name)
    for rule in rules:
        if is_true(rule.expr.eval(ad)):
            return _of_system(ad, action, rule)
    return None


def _of_job(ad: ClassAd, action: PolicyAction, name: str) -> Decision:
    reason = ad.eval_str(f"{name}Reason") or _because("job attribute", name, ad.text(name))
    code = VacateCode.JOB_POLICY if action is PolicyAction.VACATE else HoldCode.JOB_POLICY
    return Decision(action, reason, code, ad.eval_int(f"{name}SubCode") or 0)


def _of_system(ad: ClassAd, action: PolicyAction, rule: SystemRule) -> Decision:
    reason = rule.reason.eval(ad) if rule.reason is not None else None
    # The administrator's expression may read what the job's owner wrote, a real without end among it.
    subcode = whole_number(rule.subcode.eval(ad)) if rule.subcode is not None else 0
    code = VacateCode.SYSTEM_POLICY if action is PolicyAction.VACATE else HoldCode.SYSTEM_POLICY
    return Decision(
        action,
        reason if isinstance(reason, str) and reason else _because("system macro", rule.knob, rule.expr.old_text),
        code,
        subcode or 0,
    )


def _because(source: str, name: str, text: str, value: str = "TRUE") -> str:
    return f"The {source} {name} expression '{text}' evaluated to {value}"
