"""Why a job gets no slot, by the negotiation itself: it is asked about this one job alone.

When the job would get a slot alone, but got none in the last cycle, others came before it; when it would get none,
either a bound says so (a quota, a ceiling, a limit), or nothing is free that suits it, and then it is told why those
who hold what suits it need not make way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pool.classad import ClassAd
from pool.matching.bounds import NO_MATCH
from pool.matching.candidates import Evaluate, evaluate_each
from pool.matching.cycle import negotiate
from pool.matching.preempt import Asker, judge
from pool.matching.slot_tests import EachSlot, MakeTests
from pool.matching.snapshot import JobRequest, Matched, Snapshot
from pool.matching.submitters import Submitters

SHOWN = 3
"""Submitters that are named."""


def why_not(
    snapshot: Snapshot,
    request: JobRequest,
    held: Sequence[ClassAd],
    refused: str | None,
    evaluate: Evaluate = evaluate_each,
    tests: MakeTests = EachSlot,
) -> list[str]:
    """Sentences. `held` are the ads of the slots that somebody has, `refused` why the last cycle had none for it."""
    plan = negotiate(replace(snapshot, requests=[request]), evaluate)
    if plan.matches:
        return _would_match(snapshot, request, plan.matches[0], refused)
    reason = plan.rejections[0].reason if plan.rejections else NO_MATCH
    if reason != NO_MATCH:
        return [f"{reason[0].upper()}{reason[1:]}."]
    found = tests(held)
    suiting = sorted(found.accepted(request.ad) & found.accepting(request.ad))
    return _holders_stay(snapshot, request, [held[row] for row in suiting])


def _would_match(snapshot: Snapshot, request: JobRequest, match: Matched, refused: str | None) -> list[str]:
    if refused is None:
        return ["The last cycle did not see the job yet: it is only a matter of time until the next."]
    ours = snapshot.standings.get(request.submitter)
    if refused != NO_MATCH or ours is None:
        return [f"In the last cycle it got none: {refused}. In the next one it should."]
    before = [
        (name, one)
        for name, one in snapshot.standings.items()
        if name != request.submitter
        and (one.use or one.slots)
        and one.priority * one.use <= ours.priority * (ours.use + 1)
    ]
    said = [f"{name} (effective priority {one.priority:g}, {one.slots} slots)" for name, one in before[:SHOWN]]
    others = f", such as those of {', '.join(said)}" if said else ""
    return [
        f"{match.slot} suits it, but in the last cycle other jobs came first by priority and share{others};"
        f" {request.submitter} has {ours.slots} slots at effective priority {ours.priority:g}."
    ]


def _holders_stay(snapshot: Snapshot, request: JobRequest, suiting: Iterable[ClassAd]) -> list[str]:
    """Why those who hold slots that suit the job need not make way."""
    asker = Asker(request.ad, request.submitter, Submitters(replace(snapshot, requests=[request])), snapshot.now)
    policy, counts = snapshot.settings.order.preemption, Counter[str]()
    for slot in suiting:
        found = judge(slot, asker, policy)
        counts[found if isinstance(found, str) else "the share of the submitter is used up"] += 1
    return [
        f"{count} slot{'' if count == 1 else 's'} in use would suit it, but nobody has to make way: {why}."
        for why, count in counts.most_common()
    ]
