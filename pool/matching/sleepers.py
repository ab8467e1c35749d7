"""Machines that sleep, in a cycle: they are wanted by the jobs that found no slot of a machine that is awake.

They come after all others, and take nothing away from anybody: a sleeper gives no slot, and whether it wakes nobody
knows. So a job runs where it can, and only what is left over has machines woken, within the same quotas and limits; a
machine is filled before another one is woken.

Source: HTCondor's manual, "Machine ClassAd Attributes" (MachineLastMatchTime): "when a job would have been matched".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pool.classad import ClassAd
from pool.matching.bounds import NO_MATCH
from pool.matching.offers import Offer
from pool.matching.snapshot import NEWCOMER, CyclePlan, JobRequest, Snapshot

ASLEEP: Final = "no slot that is awake suits it"
"""How the reason of a rejection begins that has a machine woken."""
JOBS_MAX: Final = 1000
"""Most jobs that one sleeping slot can be wanted by in a cycle."""

Negotiate = Callable[[Snapshot], CyclePlan]


def want_sleepers(plan: CyclePlan, snapshot: Snapshot, sleepers: Sequence[ClassAd], negotiate: Negotiate) -> None:
    """Let what the plan has no slot for look at the sleepers: `plan.wanted` has who would get which."""
    left = [one for one in plan.rejections if one.reason == NO_MATCH and not one.dear]
    if not left or not sleepers:
        return
    plan.wanted = negotiate(
        _after(plan, snapshot, [replace(one.request, count=one.unmatched) for one in left], sleepers)
    ).matches
    found: dict[tuple[str, str, int], str] = {}
    for matched in plan.wanted:
        found.setdefault(_key(matched.request), matched.slot)
    plan.rejections = [
        replace(one, reason=f"{ASLEEP}; {slot} does, whose machine is to be woken")
        if one.reason == NO_MATCH and (slot := found.get(_key(one.request)))
        else one
        for one in plan.rejections
    ]


def _key(request: JobRequest) -> tuple[str, str, int]:
    return request.schedd, request.submitter, request.autocluster


def _after(plan: CyclePlan, snapshot: Snapshot, left: list[JobRequest], sleepers: Sequence[ClassAd]) -> Snapshot:
    """What is left to decide from: who got a slot has it, as far as shares and limits go."""
    slots = Counter(matched.request.submitter for matched in plan.matches)
    standings = dict(snapshot.standings)
    for name, charge in plan.charges.items():
        before = standings.get(name, NEWCOMER)
        standings[name] = replace(before, use=before.use + charge, slots=before.slots + slots[name])
    used = Counter(snapshot.limits_used)
    for matched in plan.matches:
        used.update(matched.limits)
    return replace(
        snapshot,
        slots=[_offer(ad) for ad in sleepers],
        requests=left,
        standings=standings,
        parents=(),
        limits_used=used,
    )


def _offer(ad: ClassAd) -> Offer:
    """A sleeper as a slot that might be handed out, a partitionable one as often as it has cores."""
    name, partitionable = ad.eval_str("Name", ""), ad.eval_bool("PartitionableSlot") is True
    times = min(JOBS_MAX, max(1, int(ad.eval_float("Cpus") or 1))) if partitionable else 1
    address = ad.eval_str("MyAddress") or ad.eval_str("StartdIpAddr") or ""
    return Offer(name, ad, tuple(map(str, range(times))), address, partitionable, claimed=False)
