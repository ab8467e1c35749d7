"""What the machine's owner allows: START, SUSPEND, PREEMPT, RANK and the other expressions, turned into events.

The expressions are evaluated with the slot's ad as MY and the ad of the job as TARGET; "locally" means without a job.
`SUSPEND_VANILLA` (and so on, for every universe) wins over `SUSPEND` for jobs of that universe.

Source: HTCondor's manual, "Configuration for Execution Points": "condor_startd Policy Configuration", "State/Activity
Transition Expression Summary".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.classad import ClassAd, Expr, expr
from pool.classad.values.truth import truth_of
from pool.jobs.vocabulary import universes
from pool.jobs.vocabulary.universes import Universe
from pool.slots.state_machine import Activity, Event, EvictionCause, SlotState, State

_U: Final = Universe
UNIVERSES: Final[Mapping[int, str]] = {
    number: universes.UNIVERSES[number].upper()
    for number in (_U.STANDARD, _U.VANILLA, _U.SCHEDULER, _U.GRID, _U.JAVA, _U.PARALLEL, _U.LOCAL, _U.VM)
}
"""Universes that a policy can be for, as knobs' names end with them."""
BY_UNIVERSE: Final = (
    "SUSPEND",
    "CONTINUE",
    "PREEMPT",
    "KILL",
    "WANT_SUSPEND",
    "WANT_VACATE",
    "WANT_HOLD",
    "WANT_HOLD_REASON",
    "WANT_HOLD_SUBCODE",
)
REFERABLE: Final = ("SUSPEND", "CONTINUE", "PREEMPT", "KILL", "WANT_SUSPEND", "WANT_VACATE", "IS_OWNER")
"""Expressions that others may mention by name: `PREEMPT = SUSPEND && WANT_SUSPEND == False`."""

HOLD_BY_STARTD: Final = 21
"""HoldReasonCode of a job that WANT_HOLD put on hold."""

MACHINE_VACATE_S: Final = 600.0

DEFAULTS: Final[Mapping[str, str]] = {
    "START": "true",
    "IS_OWNER": "false",
    "SUSPEND": "false",
    "CONTINUE": "true",
    "PREEMPT": "false",
    "KILL": "false",
    "WANT_SUSPEND": "false",
    "WANT_VACATE": "true",
    "WANT_HOLD": "false",
    "WANT_HOLD_REASON": "undefined",
    "WANT_HOLD_SUBCODE": "0",
    "RANK": "0.0",
    "MAXJOBRETIREMENTTIME": "0",
    "MACHINEMAXVACATETIME": "600",
    "CLAIM_WORKLIFE": "1200",
    "PERIODIC_CHECKPOINT": "((time() - LastPeriodicCheckpoint) / 60.0) > 180.0",
    "RUNBENCHMARKS": "false",
    "START_BACKFILL": "false",
    "EVICT_BACKFILL": "false",
    "SLOT_WEIGHT": "Cpus",
}


@dataclass(frozen=True)
class Policy:
    """The owner's expressions, by knob in upper case, the universe's own forms among them."""

    exprs: Mapping[str, Expr] = field(default_factory=dict)
    backfill: bool = False
    refers_to_itself: bool = False
    """Whether an expression mentions another by its name."""

    def expr(self, name: str, job: ClassAd | None = None) -> Expr:
        """The expression that counts for this job's universe."""
        if job is not None and name in BY_UNIVERSE:
            universe = UNIVERSES.get(job.eval_int("JobUniverse", Universe.VANILLA) or Universe.VANILLA, "")
            special = self.exprs.get(f"{name}_{universe}")
            if special is not None:
                return special
        return self.exprs[name]

    def is_true(self, name: str, ad: ClassAd, job: ClassAd | None = None) -> bool:
        """Whether the expression is true (a number other than 0 counts as true)."""
        return truth_of(self.expr(name, job).eval(ad, job)) is True

    def is_false(self, name: str, ad: ClassAd, job: ClassAd | None = None) -> bool:
        """Whether the expression is false; undefined is neither."""
        return truth_of(self.expr(name, job).eval(ad, job)) is False

    @property
    def may_measure(self) -> bool:
        """Whether RUNBENCHMARKS is anything but FALSE: then the machine is measured once in any case."""
        return str(self.exprs["RUNBENCHMARKS"]).strip().lower() not in ("false", "0")

    def number(self, name: str, ad: ClassAd, job: ClassAd | None, default: float) -> float:
        """The expression's value as a number, or the default when it has none."""
        return _number(self.expr(name, job).eval(ad, job), default)

    def text(self, name: str, ad: ClassAd, job: ClassAd | None, default: str) -> str:
        """The expression's value as text, or the default when it is none."""
        value = self.expr(name, job).eval(ad, job)
        return value if isinstance(value, str) else default


def read_policy(get: Callable[[str], Expr | None], *, backfill: bool = False) -> Policy:
    """The policy of a configuration; `get` answers a knob as an expression, or None when it is not set."""
    exprs: dict[str, Expr] = {}
    for name, default in DEFAULTS.items():
        given = get(name)
        exprs[name] = expr(default) if given is None else given
    for name in BY_UNIVERSE:
        for universe in UNIVERSES.values():
            if (special := get(f"{name}_{universe}")) is not None:
                exprs[f"{name}_{universe}"] = special
    return Policy(exprs, backfill, any(map(_mentions_another, exprs.values())))


def _mentions_another(one: Expr) -> bool:
    inside, outside = one.references()
    return any(name.upper() in REFERABLE for name in (*inside, *outside))


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What the policy must know besides the ads."""

    retirement_over: bool = False
    vacate_over: bool = False
    match_over: bool = False
    worklife_over: bool = False
    draining: bool = False
    benchmarks: bool = False
    never_measured: bool = False
    """No benchmark has run since the startd's start."""
    backfill: bool = True
    """Whether the slot is all there: nothing was carved out of it."""
    no_client: bool = False
    """The slot is in Backfill without a client, and none comes."""


def next_event(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    """What the owner's policy wants to happen to the slot now, if anything.

    `job` is the ad of the running job, or of the claim when none runs.
    """
    decide = _DECISIONS.get(slot.where)
    return decide(policy, slot, ad, job, facts) if decide is not None else None


def leave_event(policy: Policy, ad: ClassAd, job: ClassAd | None) -> Event:
    """How a slot enters Preempting: asking the job to leave, or ending it at once."""
    return Event.VACATE if policy.is_true("WANT_VACATE", ad, job) else Event.KILL


def wants_hold(policy: Policy, ad: ClassAd, job: ClassAd) -> tuple[str, int, int] | None:
    """Reason, code and subcode when WANT_HOLD puts a preempted job on hold."""
    if not policy.is_true("WANT_HOLD", ad, job):
        return None
    reason = policy.text(
        "WANT_HOLD_REASON", ad, job, "The startd put this job on hold. (At preemption, WANT_HOLD was true.)"
    )
    return reason, HOLD_BY_STARTD, int(policy.number("WANT_HOLD_SUBCODE", ad, job, 0))


def retirement_s(policy: Policy, ad: ClassAd, job: ClassAd) -> float:
    """How long the job may run undisturbed: what the machine grants; the job may only lower it."""
    granted = max(0.0, policy.number("MAXJOBRETIREMENTTIME", ad, job, 0.0))
    asked = job.eval("MaxJobRetirementTime", ad)
    if isinstance(asked, int | float) and not isinstance(asked, bool):
        return max(0.0, min(granted, float(asked)))
    return granted


@dataclass(frozen=True, slots=True)
class Eviction:
    """When a job that must leave is asked to, counted from now, and how long it may then take."""

    soft_in_s: float
    vacate_s: float


def eviction(policy: Policy, ad: ClassAd, job: ClassAd, *, ran_s: float, retirement: float) -> Eviction:
    """Retirement first, vacating within its end; a job may turn unused retirement into time to vacate."""
    machine = max(0.0, policy.number("MACHINEMAXVACATETIME", ad, job, MACHINE_VACATE_S))
    asked = job.eval_float("JobMaxVacateTime", None, ad)
    return eviction_times(ran_s=ran_s, retirement_s=retirement, machine_s=machine, job_s=asked)


def eviction_times(*, ran_s: float, retirement_s: float, machine_s: float, job_s: float | None) -> Eviction:
    """The arithmetic of `eviction`. A job that wants less than the machine grants gets less."""
    left = max(0.0, retirement_s - ran_s)
    vacate = machine_s
    if job_s is not None:
        vacate = max(0.0, job_s) if job_s <= machine_s else min(job_s, max(machine_s, left))
    if math.isinf(left):
        return Eviction(math.inf, vacate)
    return Eviction(max(0.0, left - vacate), vacate)


def _number(value: object, default: float) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return default


Decide = Callable[[Policy, SlotState, ClassAd, ClassAd | None, PolicyFacts], Event | None]


def _owner(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    if facts.draining:
        return Event.DRAIN
    return None if policy.is_true("IS_OWNER", ad) else Event.OWNER_LEFT


def _unclaimed(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    if facts.draining:
        return Event.DRAIN
    if policy.is_true("IS_OWNER", ad):
        return Event.OWNER_BACK
    if facts.benchmarks and (policy.is_true("RUNBENCHMARKS", ad) or (facts.never_measured and policy.may_measure)):
        return Event.BENCHMARK
    if policy.backfill and facts.backfill and policy.is_true("START_BACKFILL", ad):
        return Event.BACKFILL
    return None


def _matched(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    over = facts.match_over or facts.draining or policy.is_false("START", ad)
    return Event.MATCH_OVER if over else None


def _claimed_idle(
    policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts
) -> Event | None:
    over = (
        facts.draining
        or facts.worklife_over
        or slot.leaving is not EvictionCause.NO
        or policy.is_false("START", ad, job)
    )
    return leave_event(policy, ad, job) if over else None


def _busy(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    if policy.is_true("WANT_SUSPEND", ad, job):
        if policy.is_true("SUSPEND", ad, job):
            return Event.SUSPEND
    elif policy.is_true("PREEMPT", ad, job):
        return Event.PREEMPT
    return Event.PREEMPT if facts.draining or slot.leaving is not EvictionCause.NO else None


def _suspended(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    if slot.leaving is not EvictionCause.NO and facts.retirement_over:
        return leave_event(policy, ad, job)
    if policy.is_true("PREEMPT", ad, job):
        return Event.PREEMPT
    if facts.draining and slot.leaving is EvictionCause.NO:
        return Event.PREEMPT
    return Event.CONTINUE if policy.is_true("CONTINUE", ad, job) else None


def _retiring(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    if facts.retirement_over:
        return leave_event(policy, ad, job)
    # While PREEMPT holds, a job that was thawed to retire is not frozen again: it could never finish.
    if policy.is_true("WANT_SUSPEND", ad, job) and policy.is_true("SUSPEND", ad, job):
        return None if policy.is_true("PREEMPT", ad, job) else Event.SUSPEND
    return None


def _vacating(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    return Event.KILL if facts.vacate_over or policy.is_true("KILL", ad, job) else None


def _backfill(policy: Policy, slot: SlotState, ad: ClassAd, job: ClassAd | None, facts: PolicyFacts) -> Event | None:
    return Event.EVICT_BACKFILL if facts.draining or facts.no_client or policy.is_true("EVICT_BACKFILL", ad) else None


_DECISIONS: Final[Mapping[tuple[State, Activity], Decide]] = {
    (State.OWNER, Activity.IDLE): _owner,
    (State.UNCLAIMED, Activity.IDLE): _unclaimed,
    (State.MATCHED, Activity.IDLE): _matched,
    (State.CLAIMED, Activity.IDLE): _claimed_idle,
    (State.CLAIMED, Activity.BUSY): _busy,
    (State.CLAIMED, Activity.SUSPENDED): _suspended,
    (State.CLAIMED, Activity.RETIRING): _retiring,
    (State.PREEMPTING, Activity.VACATING): _vacating,
    (State.BACKFILL, Activity.BUSY): _backfill,
    (State.BACKFILL, Activity.IDLE): _backfill,
}
