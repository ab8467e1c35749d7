"""What the negotiator's ad and its log say of its last cycles.

Source: HTCondor manual, "Negotiator ClassAd Attributes". Of HTCondor's phases, the first is here the snapshot, the
fourth the matching and the handing out; to filter slots and to sort submitters are parts of these. Nothing is
prefetched: schedds say what they want before a cycle begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from daemons.base.log import Log
from pool.classad import ClassAd, Value
from pool.matching import CyclePlan, Snapshot

SILENT_MAX_S: Final = 60.0
"""How long cycles that come to the same leave no line."""


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """When a cycle began (wall time), how long it took, how long of that its snapshot, and both in processor time."""

    began_at: float
    took_s: float
    snapshot_s: float
    cpu_s: float
    snapshot_cpu_s: float


class Cycles:
    """The last cycles, of which the ad shows `shown`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kept: deque[dict[str, Value]] = deque()
        self._ended_at: float | None = None
        self._said: dict[str, int] = {}
        self._said_at = 0.0
        self._alike = 0
        """Cycles since then that came to the same, and matched nothing."""

    def note(
        self,
        snapshot: Snapshot,
        plan: CyclePlan,
        times: CycleTimes,
        slots: tuple[int, int],
        failed: set[str],
        shown: int,
    ) -> None:
        """A cycle is over; `slots` counts all and those that nobody has, `failed` are the submitters whose
        schedd did not take what it was offered."""
        ended_at = times.began_at + times.took_s
        period = max(0.0, ended_at - (self._ended_at if self._ended_at is not None else times.began_at))
        self._ended_at = ended_at
        self._kept.appendleft(dict(_attributes(snapshot, plan, times, slots, failed, period)))
        while len(self._kept) > shown:
            self._kept.pop()
        self._say(snapshot, plan, times.took_s, ended_at)

    def _say(self, snapshot: Snapshot, plan: CyclePlan, took_s: float, now: float) -> None:
        """A line for each cycle; those that came to nothing new are counted in the next one."""
        figures = {
            "slots": len(snapshot.slots),
            "idle_jobs": sum(request.count for request in snapshot.requests),
            "matches": len(plan.matches),
            "rejections": len(plan.rejections),
        }
        if figures == self._said and not plan.matches and 0 <= now - self._said_at < SILENT_MAX_S:
            self._alike += 1
            return
        alike = {"alike_before": self._alike} if self._alike else {}
        self._log.always("Negotiation cycle.", **figures, seconds=took_s, **alike)
        self._said, self._said_at, self._alike = figures, now, 0

    def put_into(self, ad: ClassAd) -> None:
        """The cycles as attributes of the negotiator's ad, the last one with a 0 behind its names."""
        for number, attributes in enumerate(self._kept):
            for name, value in attributes.items():
                ad[f"LastNegotiationCycle{name}{number}"] = value


def _attributes(
    snapshot: Snapshot, plan: CyclePlan, times: CycleTimes, slots: tuple[int, int], failed: set[str], period: float
) -> Iterator[tuple[str, Value]]:
    requests, matches = snapshot.requests, len(plan.matches)
    yield "Time", int(times.began_at)
    yield "End", int(times.began_at + times.took_s)
    yield "Period", round(period, 6)
    yield "Duration", round(times.took_s, 6)
    yield from _phases("Duration", times.snapshot_s, times.took_s - times.snapshot_s)
    yield from _phases("CpuTime", times.snapshot_cpu_s, times.cpu_s - times.snapshot_cpu_s)
    yield "CpuTime", round(times.cpu_s, 6)
    yield "TotalSlots", slots[0]
    yield "TrimmedSlots", slots[1]
    yield "CandidateSlots", len(snapshot.slots)
    yield "SlotShareIter", plan.rounds
    yield "Pies", plan.turns
    yield "PieSpins", plan.turns
    yield "NumSchedulers", len({request.schedd for request in requests})
    yield "ActiveSubmitterCount", len({request.submitter for request in requests})
    yield "NumIdleJobs", sum(request.count for request in requests)
    yield "NumJobsConsidered", matches + sum(one.unmatched for one in plan.rejections)
    yield "Matches", matches
    yield "Rejections", len(plan.rejections)
    yield "MatchRate", round(matches / times.took_s, 6) if times.took_s > 0 else 0.0
    yield "MatchRateSustained", round(matches / period, 6) if period > 0 else 0.0
    yield "SubmittersShareLimit", ", ".join(sorted(plan.at_limit))
    yield "SubmittersFailed", ", ".join(sorted(failed))
    yield "SubmittersOutOfTime", ", ".join(sorted(plan.out_of_time))
    yield "ScheddsOutOfTime", ", ".join(sorted(plan.schedds_out_of_time))


def _phases(what: str, first_s: float, last_s: float) -> Iterator[tuple[str, float]]:
    for phase, seconds in (
        ("Phase1", first_s),
        ("Phase2", 0.0),
        ("Phase3", 0.0),
        ("Phase4", last_s),
        ("Prefetch", 0.0),
    ):
        yield f"{phase}{what}", round(max(0.0, seconds), 6)
