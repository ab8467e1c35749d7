"""Why a job gets no slot, by the negotiation itself: it is asked about this one job alone.

When the job would get a slot alone, but got none in the last cycle, others came before it, and it is told who they are;
when it would get none, either a bound says so (a quota, a ceiling, a limit), or nothing is free that suits it, and then
it is told why those who hold what suits it need not make way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pool.classad import ClassAd
from pool.explaining.analysis import counted
from pool.explaining.slot_tests import EachSlot, MakeTests, SlotTests
from pool.matching.bounds import NO_MATCH
from pool.matching.candidates import Evaluate, evaluate_each
from pool.matching.cycle import negotiate
from pool.matching.offers import holder_of
from pool.matching.preempt import (
    READ_OF_HOLDERS,
    READ_OF_RETIREMENT,
    Asker,
    PreemptionPolicy,
    Preempts,
    judge,
    standing,
)
from pool.matching.snapshot import NEWCOMER, JobRequest, Matched, Snapshot
from pool.matching.submitters import Submitters

SHOWN = 3
"""Submitters that are named."""


@dataclass(frozen=True, slots=True)
class Given:
    """A slot that a cycle gave away, with its ad of before."""

    submitter: str
    slot: ClassAd


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the last cycle had no slot for the job, and what cycles of the last minute gave to whom."""

    reason: str
    given: Sequence[Given] = ()


def why_not(
    snapshot: Snapshot,
    request: JobRequest,
    held: Sequence[ClassAd],
    refused: Refused | None,
    evaluate: Evaluate = evaluate_each,
    tests: MakeTests = EachSlot,
) -> list[str]:
    """Sentences. `held` are the ads of the slots that somebody has, `refused` what the last cycle said of it."""
    plan = negotiate(replace(snapshot, requests=[request]), evaluate)
    if plan.matches:
        return _would_match(snapshot, request, plan.matches[0], refused, tests)
    reason = plan.rejections[0].reason if plan.rejections else NO_MATCH
    if reason != NO_MATCH:
        return [sentence(reason)]
    stay = _holders_stay(snapshot, request, held, tests)
    first = _came_first(snapshot, request, refused, tests) if refused is not None and refused.reason == NO_MATCH else ""
    return [*stay, f"In the last minute other jobs came first{first}"] if first else stay


def sentence(reason: str) -> str:
    """A reason as a sentence by itself."""
    return f"{reason[0].upper()}{reason[1:]}."


def _suiting(slots: Sequence[ClassAd], job: ClassAd, tests: MakeTests) -> list[ClassAd]:
    """Those that would have the job, and the job them."""
    found = tests(slots)
    return [slots[row] for row in sorted(found.accepted(job) & found.accepting(job))]


def _would_match(
    snapshot: Snapshot, request: JobRequest, match: Matched, refused: Refused | None, tests: MakeTests
) -> list[str]:
    if refused is None:
        return ["The last cycle did not see the job yet: it is only a matter of time until the next."]
    if refused.reason != NO_MATCH:
        return [f"In the last cycle it got none: {refused.reason}. In the next one it should."]
    first = _came_first(snapshot, request, refused, tests)
    if first:
        return [f"{match.slot} suits it, but in the last minute other jobs came first{first}"]
    return [f"{match.slot} suits it, and is free since the last cycle: it is only a matter of time until the next."]


def _came_first(snapshot: Snapshot, request: JobRequest, refused: Refused, tests: MakeTests) -> str:
    """Who was given slots that suit the job, and how its submitter stands beside them; empty when nobody was."""
    # A partitionable slot is given several times, and looked at once.
    suiting = {id(slot) for slot in _suiting([one.slot for one in refused.given], request.ad, tests)}
    counts = Counter(one.submitter for one in refused.given if id(one.slot) in suiting)
    if not counts:
        return ""
    return f", by priority and share: {_named(counts, snapshot, 'to')}. {_stands(snapshot, request.submitter)}"


def _named(counts: Counter[str], snapshot: Snapshot, to: str) -> str:
    """How many slots are whose, most first."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    said = []
    for name, count in ordered[:SHOWN]:
        known = snapshot.standings.get(name)
        priority = f" (effective priority {known.priority:g})" if known else ""
        said.append(f"{counted(count)} {to} {name}{priority}")
    rest = sum(count for _, count in ordered[SHOWN:])
    return ", ".join([*said, f"{counted(rest)} {to} others"] if rest else said)


def _stands(snapshot: Snapshot, submitter: str) -> str:
    ours = snapshot.standings.get(submitter, NEWCOMER)
    return f"{submitter} has {counted(ours.slots)} at effective priority {ours.priority:g}; lower is better."


def _holders_stay(snapshot: Snapshot, request: JobRequest, held: Sequence[ClassAd], tests: MakeTests) -> list[str]:
    """Why those who hold slots that suit the job need not make way, and who they are."""
    asker = Asker(request.ad, request.submitter, Submitters(replace(snapshot, requests=[request])), snapshot.now)
    policy, holders = snapshot.settings.order.preemption, dict[str, Counter[str]]()
    for rows in _held_alike(tests(held), request.ad, policy):
        slot = held[rows[0]]
        found: list[object] = [standing(slot, asker, policy)]
        if found[0] is Preempts.BY_PRIORITY:  # each is asked about: PREEMPTION_REQUIREMENTS may read anything of it
            found = [judge(held[row], asker, policy) for row in rows]
        for one in found:
            why = one if isinstance(one, str) else f"{request.submitter} has the share that is due already"
            holders.setdefault(why, Counter())[holder_of(slot)] += len(rows) // len(found)
    said = [
        f"{counted(counts.total())} in use would suit it, but nobody has to make way: {why}."
        f" In use are {_named(counts, snapshot, 'by')}."
        for why, counts in sorted(holders.items(), key=lambda one: -one[1].total())
    ]
    return [*said, _stands(snapshot, request.submitter)] if said else []


def _held_alike(tests: SlotTests, job: ClassAd, policy: PreemptionPolicy) -> list[list[int]]:
    """The slots that suit the job, those together of whose holders `standing` says the same."""
    names = {*READ_OF_HOLDERS}
    if not policy.early and any(left != 0 for left in tests.values("RetirementTimeRemaining")):
        names |= {*READ_OF_RETIREMENT}
    return tests.alike(names, tests.accepted(job) & tests.accepting(job))
