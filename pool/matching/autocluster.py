"""Jobs that look alike: the attributes that a match can depend on, and one number for each set of their values.

The significant attributes are those that a job's own Requirements and Rank read, those that slots' expressions read of
a job, and the negotiator's own. Jobs that agree in all of them are matched once, together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pool.classad import ClassAd

ALWAYS: Final = frozenset(
    {
        "ConcurrencyLimits",
        "DiskUsage",
        "FlockTo",
        "ImageSize",
        "JobUniverse",
        "NiceUser",
        "Owner",
        "Rank",
        "RequestCpus",
        "RequestDisk",
        "RequestGPUs",
        "RequestMemory",
        "Requirements",
        "User",
    }
)
"""Attributes that are significant whatever the slots say (SCHEDD's own and the default START's)."""

SLOT_EXPRESSIONS: Final = ("Requirements", "Start", "Rank", "WithinResourceLimits", "IsValidCheckpointPlatform")


def read_by_slots(slots: Iterable[ClassAd]) -> frozenset[str]:
    """The job attributes that the slots' expressions look at. Slots with equal texts are looked at once."""
    seen: set[tuple[str, ...]] = set()
    found: set[str] = set()
    for slot in slots:
        texts = tuple(slot.text(name) if name in slot else "" for name in SLOT_EXPRESSIONS)
        if texts not in seen:
            seen.add(texts)
            for name in SLOT_EXPRESSIONS:
                if name in slot:
                    found |= slot.references(name)[1]
    return frozenset(found)


class Autoclusters:
    """Numbers for sets of values; a number is never used again for another set."""

    def __init__(self, significant: Iterable[str] = ()) -> None:
        self._numbers: dict[tuple[str, ...], int] = {}
        self._last = 0
        self.significant: tuple[str, ...] = ()
        self.attend_to(significant)

    def attend_to(self, significant: Iterable[str]) -> bool:
        """Set which attributes matter beside ALWAYS; whether that is news, so that all numbers are void."""
        by_key = {name.lower(): name for name in sorted({*ALWAYS, *significant}, reverse=True)}
        wanted = tuple(by_key[key] for key in sorted(by_key))
        if [name.lower() for name in wanted] == [name.lower() for name in self.significant]:
            return False
        self.significant = wanted
        self._numbers.clear()
        return True

    def of(self, job: ClassAd) -> int:
        """The job's autocluster."""
        names = {*self.significant, *self._own_reads(job)}
        values = tuple(f"{name}={job.text(name)}" for name in sorted(names, key=str.lower) if name in job)
        number = self._numbers.get(values)
        if number is None:
            self._last += 1
            number = self._numbers[values] = self._last
        return number

    def ad(self, job: ClassAd) -> ClassAd:
        """What of the job a match can depend on."""
        return job.project({*self.significant, *self._own_reads(job)})

    @staticmethod
    def _own_reads(job: ClassAd) -> set[str]:
        """The job's own attributes that its Requirements and Rank read."""
        return {name for which in ("Requirements", "Rank") if which in job for name in job.references(which)[0]}
