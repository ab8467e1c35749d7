"""Why a job does not match: condition by condition, and in sentences that a user can act on.

found = analyze(job_ad, slot_ads)
found.clauses                    # all numbered conditions of the job's Requirements
found.table                      # those that decide, with how many slots each is true for
found.willing, found.rejected_by_job, found.reject_job, found.if_drained       # counts of slots
found.takers, found.obstacles    # slots that could take it now, and why the other willing ones cannot
found.change                     # of a job that suits no slot: the single change that would help most
found.sentences()                # what is wrong, and what could be changed
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import ClassAd, Expr
from pool.classad.eval.expression import node_of
from pool.explaining.analysis import (
    UNITS,
    Analysis,
    Attribute,
    Best,
    ConditionRow,
    NumberedCondition,
    counted,
)
from pool.explaining.clauses import (
    Clause,
    bound_of,
    compared_attribute,
    conjuncts,
    deciding,
    failing_alone,
    take_apart,
    weigh,
)
from pool.explaining.slot_tests import EachSlot, MakeTests, SlotTests, may_drain
from pool.matching.offers import free_of
from pool.slots.provision.carve import Rounding, fit_request
from pool.slots.provision.resources import STANDARD

_REQUEST: Final = "request"
_BUSY: Final = frozenset(("Claimed", "Matched", "Preempting"))


def analyze(job: ClassAd, slots: Iterable[ClassAd], tests: MakeTests = EachSlot) -> Analysis:
    """Compare a job with the pool's slots (dynamic slots are seen as part of their partitionable ones)."""
    # What a dynamic slot has is its partitionable slot's when drained: counted once, it is told once.
    targets = [slot for slot in slots if not slot.eval_bool("DynamicSlot", False)]
    stored = job.get("Requirements")
    requirements = stored if isinstance(stored, Expr) else Expr(node_of(stored))
    clauses = take_apart(requirements, job)
    now = tests(targets)
    later = now.drained()
    weigh(clauses, len(targets), lambda one: now.meet(one.expr, job), lambda one: later.meet(one.expr, job))
    accepted = now.accepted(job)
    willing = accepted & now.accepting(job)
    if_drained = (later.accepted(job) & later.accepting(job)) - willing
    refused = accepted - willing - if_drained
    obstacles = _obstacles(job, targets, willing, now)
    return Analysis(
        requirements=requirements.text,
        clauses=tuple(NumberedCondition(clause.number, clause.text) for clause in clauses),
        table=tuple(_row(clause, clauses) for clause in deciding(clauses)),
        attributes=_attributes(job, requirements),
        slots=len(targets),
        machines=len({name if isinstance(name, str) else "" for name in now.values("Machine")}),
        rejected_by_job=len(targets) - len(willing) - len(if_drained) - len(refused),
        reject_job=len(refused),
        willing=len(willing),
        if_drained=len(if_drained),
        best=_best(clauses, later),
        refusals=tuple(_refusals(job, targets, refused, now)),
        takers=obstacles.pop("", 0),
        obstacles=tuple(f"{counted(count)} would match, but {said}." for said, count in obstacles.items()),
        may_drain=any(map(may_drain, targets)),
        change="" if willing or if_drained else _best_change(job, clauses, later, len(targets)),
    )


def _obstacles(job: ClassAd, slots: Sequence[ClassAd], willing: Collection[int], tests: SlotTests) -> dict[str, int]:
    counts: dict[str, int] = {}
    for rows in tests.alike(_read_of_slots(job, tests), willing):
        obstacle = _obstacle(job, slots[rows[0]])
        counts[obstacle] = counts.get(obstacle, 0) + len(rows)
    return counts


def _read_of_slots(job: ClassAd, tests: SlotTests) -> set[str]:
    """What an obstacle is told by: a slot's state, what it has left, and what the job's requests read of it."""
    resources = {*STANDARD}
    for listed in {one for one in tests.values("MachineResources") if isinstance(one, str)}:
        resources |= {*split_list(listed)}
    names = {"Offline", "PartitionableSlot", "State", "MachineResources", *resources}
    for name in resources:
        names |= {f"Consumption{name}", *job.references(f"Request{name}")[1]}
    return names


def _obstacle(job: ClassAd, slot: ClassAd) -> str:
    """Why a slot that would have the job, and the job it, cannot take it now; empty when it can."""
    if slot.eval_bool("Offline", False):
        return "its machine is asleep"
    if not slot.eval_bool("PartitionableSlot", False):
        busy = slot.eval_str("State", "") in _BUSY
        return "other jobs are using them now: the job waits until they end, or have to give way" if busy else ""
    try:
        fit_request(job, slot, free_of(slot), Rounding())
    except UserError as error:
        return f"cannot give what the job asks for: {error}"
    return ""


def _row(clause: Clause, clauses: Sequence[Clause]) -> ConditionRow:
    said, joins = clause.reduced(clauses), bool(clause.op)
    if clause.constant is not None:
        return ConditionRow(clause.number, None, None, clause.constant, said, joins)
    return ConditionRow(clause.number, len(clause.matched), len(clause.drained), None, said, joins)


def _attributes(job: ClassAd, requirements: Expr) -> tuple[Attribute, ...]:
    names = sorted(requirements.references(job)[0], key=str.lower)
    return tuple(Attribute(name, job.text(name), UNITS.get(name.lower(), "")) for name in names if name in job)


def _best(clauses: Sequence[Clause], empty: SlotTests) -> tuple[Best, ...]:
    """For conditions that nobody meets: the greatest amount that is there, as "Memory is 8192"."""
    found: dict[str, str] = {}
    for clause in clauses:
        name = compared_attribute(clause)
        if clause.matched or clause.op or name is None:
            continue
        values = [value for value in empty.values(name) if isinstance(value, int | float)]
        if values:
            found[name] = f"{name} is {max(values):g}" if max(values) < 1e6 else f"{name} is {max(values)}"
    return tuple(Best(name, said) for name, said in found.items())


class _Change(NamedTuple):
    """What could be otherwise, the slots that would suit the job then, and which of their numbers it is about."""

    said: str
    rows: frozenset[int]
    attribute: str = ""
    least: bool = True


def _best_change(job: ClassAd, clauses: Sequence[Clause], empty: SlotTests, everybody: int) -> str:
    """The change that makes most slots suit the job, when nobody uses them; of equal ones, that of the first clause."""
    parts = conjuncts(clauses)
    accepting = empty.accepting(job)
    changes = []
    for part, alone in zip(parts, failing_alone(parts, everybody), strict=True):
        bound, without = bound_of(part, job), f"Without {Expr(part.node).text}"
        if bound is None:
            changes.append(_Change(without, alone & accepting))
        elif bound.least and bound.limit and (asked := _number(job.eval(bound.limit))) is not None:
            rows = _asking_less(job, bound.limit, bound.attribute, empty, strict=bound.strict)
            changes.append(_Change(f"{without} ({bound.limit} is {asked:.15g})", rows, bound.attribute))
        else:
            changes.append(_Change(without, alone & accepting, bound.attribute, bound.least))
    changes += _smaller_requests(job, empty)
    best = max(changes, key=lambda one: len(one.rows))
    return _said(best, empty) if best.rows else ""


def _smaller_requests(job: ClassAd, empty: SlotTests) -> Iterable[_Change]:
    """What the slots compare in their own Requirements, whether a clause of the job does or not."""
    for name in job:
        resource = name[len(_REQUEST) :]
        if name.lower().startswith(_REQUEST) and (asked := _number(job.eval(name))) is not None:
            yield _Change(
                f"With a smaller {name} (it is {asked:.15g})", _asking_less(job, name, resource, empty), resource
            )


def _asking_less(
    job: ClassAd, request: str, attribute: str, empty: SlotTests, *, strict: bool = False
) -> frozenset[int]:
    """The slots that would suit the job if it asked for as little as the smallest of all slots has."""
    # Nothing at all is no smaller amount but another request: without a GPU, say.
    amounts = [amount for value in empty.values(attribute) if (amount := _number(value)) is not None and amount > 0]
    if not amounts or min(amounts) - strict >= job.eval_float(request, 0.0):
        return frozenset()
    smaller = ClassAd({request: min(amounts) - strict}, parent=job)
    return empty.accepted(smaller) & empty.accepting(smaller)


def _said(change: _Change, empty: SlotTests) -> str:
    said = f"{change.said}, {counted(len(change.rows))} would suit"
    values = empty.values(change.attribute) if change.attribute else []
    amounts = [
        amount for row, value in enumerate(values) if row in change.rows and (amount := _number(value)) is not None
    ]
    if not amounts:
        return f"{said}."
    most = f"the largest has {max(amounts):.15g}" if change.least else f"the smallest has {min(amounts):.15g}"
    return f"{said}; {most}."


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _refusals(job: ClassAd, slots: Sequence[ClassAd], refused: frozenset[int], tests: SlotTests) -> list[str]:
    """The conditions of slots that the job does not meet; equal ones are told once, with how many slots have them."""
    counts: dict[str, int] = {}
    left = set(refused)
    for name in ("Start", "WithinResourceLimits", "Requirements") if refused else ():
        failing = {row for row in left if name in slots[row]} - tests.have(name, job)
        left -= failing
        alike: dict[str, list[int]] = {}
        for row in sorted(failing):
            alike.setdefault(slots[row].text(name), []).append(row)
        for text, rows in alike.items():
            stored = slots[rows[0]][name]
            parts = _failing(stored, job, slots[rows[0]], rows, tests) if isinstance(stored, Expr) else {}
            for row in rows:
                part = parts.get(row, f"{name} ({text})") or name
                counts[part] = counts.get(part, 0) + 1
    return [f"{counted(count)}: {part} does not hold for the job." for part, count in counts.items()]


def _failing(stored: Expr, job: ClassAd, slot: ClassAd, rows: Collection[int], tests: SlotTests) -> dict[int, str]:
    """The part of the expression, which all these slots have, that is not true for the job, for each of them."""
    truths = [tests.say(clause.expr, job, rows) for clause in take_apart(stored, slot)]
    said: dict[tuple[bool, ...], str] = {}
    found: dict[int, str] = {}
    for row in rows:
        pattern = tuple(row in holds for holds in truths)
        if pattern not in said:
            said[pattern] = _untrue(stored, slot, pattern)
        found[row] = said[pattern]
    return found


def _untrue(stored: Expr, slot: ClassAd, pattern: Sequence[bool]) -> str:
    """The conditions that decide among those that are not true, where `pattern` says which are."""
    clauses = take_apart(stored, slot)
    for clause in clauses:
        clause.constant = None

    def holds(clause: Clause) -> frozenset[int]:
        return frozenset((0,)) if pattern[clause.number] else frozenset()

    weigh(clauses, 1, holds, holds)
    return " and ".join(clause.text for clause in deciding(clauses) if not clause.matched and not clause.op)
