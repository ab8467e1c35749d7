"""A submitter's groups of waiting jobs in the order in which they are served: by priority, then by id of the next job.

A claim asks for the first job that fits its slot, at the end of each job; so the order is kept, not made anew. Where
one priority has a single group, which is nearly always, there is nothing to keep.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.priority import Priority

if TYPE_CHECKING:
    from pool.jobs.waiting.groups import WaitingGroup

Fits = Callable[[Job, int], bool]
"""Whether a job, and with it all of its autocluster, may be taken."""
STALE_MAX: Final = 64
"""Entries of a heap beyond two for each group, before they are made anew."""


class Level:
    """Groups of one priority, by autocluster.

    The heap has an entry for each group at or below the id of its next job: an entry that is below is put right when
    it comes to the top, so that a job that leaves costs nothing here.
    """

    __slots__ = ("_heap", "_serial", "groups")

    def __init__(self) -> None:
        self.groups: dict[int, WaitingGroup] = {}
        self._heap: list[tuple[int, int, int, WaitingGroup]] = []
        self._serial = 0

    def note(self, group: WaitingGroup) -> None:
        """The group's next job may be an earlier one than before."""
        job = group.first()
        if job is None:
            return
        if len(self._heap) > 2 * len(self.groups) + STALE_MAX:
            self._heap.clear()
            for other in self.groups.values():
                if other is not group:
                    self._push(other.first(), other)
        self._push(job, group)

    def _push(self, job: Job | None, group: WaitingGroup) -> None:
        if job is not None:
            self._serial += 1
            heapq.heappush(self._heap, (job.cluster.id, job.proc, self._serial, group))

    def first(self, fits: Fits) -> Job | None:
        """The next job of the first group that fits."""
        if len(self.groups) == 1:
            (group,) = self.groups.values()
            job = group.first()
            return job if job is not None and fits(job, group.autocluster) else None
        passed: dict[WaitingGroup, tuple[int, int, int, WaitingGroup]] = {}
        try:
            return self._search(fits, passed)
        finally:
            for entry in passed.values():
                heapq.heappush(self._heap, entry)

    def _search(self, fits: Fits, passed: dict[WaitingGroup, tuple[int, int, int, WaitingGroup]]) -> Job | None:
        while self._heap:
            entry = heapq.heappop(self._heap)
            group, job = entry[3], entry[3].first()
            if job is None or group in passed or self.groups.get(group.autocluster) is not group:
                continue
            at = (job.cluster.id, job.proc)
            if at == entry[:2]:
                passed[group] = entry
                if fits(job, group.autocluster):
                    return job
            elif at > entry[:2]:  # else it has another entry
                self._push(job, group)
        return None


class Order:
    """All groups of a submitter."""

    __slots__ = ("_levels", "_priorities")

    def __init__(self) -> None:
        self._levels: dict[Priority, Level] = {}
        self._priorities: list[Priority] = []
        """Of the levels, the highest last."""

    def __bool__(self) -> bool:
        return bool(self._levels)

    def put(self, group: WaitingGroup) -> None:
        """One more group; or one of which the next job may be earlier than before."""
        level = self._levels.get(group.priority)
        if level is None:
            level = self._levels[group.priority] = Level()
            insort(self._priorities, group.priority)
        level.groups[group.autocluster] = group
        level.note(group)

    def drop(self, group: WaitingGroup) -> None:
        """The group waits no longer, or is of another autocluster from now on."""
        level = self._levels.get(group.priority)
        if level is None or level.groups.get(group.autocluster) is not group:
            return
        del level.groups[group.autocluster]
        if not level.groups:
            del self._levels[group.priority]
            del self._priorities[bisect_left(self._priorities, group.priority)]

    def first(self, fits: Fits) -> Job | None:
        """The job that goes first among those that fit."""
        for priority in reversed(self._priorities):
            job = self._levels[priority].first(fits)
            if job is not None:
                return job
        return None
