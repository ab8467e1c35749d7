"""Jobs that wait for a slot, in groups as a schedd has them: of one submitter, kind and priority.

The highest priority goes first, then whoever came first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from pool.simulate.workload import RecordedJob


class Group(NamedTuple):
    """Jobs of a submitter that are alike."""

    kind: int
    prio: int


class Waiting:
    """All who wait."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Group, deque[tuple[int, RecordedJob]]]] = {}
        self._orders: dict[str, list[Group]] = {}
        """Each submitter's groups, those first that go first; absent where that has to be looked at again."""
        self._kinds: Counter[int] = Counter()
        self._serial = 0

    def add(self, job: RecordedJob) -> None:
        """One more."""
        self._serial += 1
        groups, group = self._groups.setdefault(job.submitter, {}), Group(job.kind, job.prio)
        if group not in groups:
            groups[group] = deque()
            self._orders.pop(job.submitter, None)
        groups[group].append((self._serial, job))
        self._kinds[job.kind] += 1

    def take(self, submitter: str, group: Group) -> RecordedJob:
        """The next job of a group; it waits no more."""
        groups = self._groups[submitter]
        _, job = groups[group].popleft()
        if not groups[group]:
            del groups[group]
            if not groups:
                del self._groups[submitter]
        self._orders.pop(submitter, None)
        self._kinds[job.kind] -= 1
        if not self._kinds[job.kind]:
            del self._kinds[job.kind]
        return job

    def first(self, submitter: str, fits: Callable[[int], bool]) -> RecordedJob | None:
        """The submitter's next job among the kinds that fit; it waits no more."""
        for group in self.order(submitter):
            if fits(group.kind):
                return self.take(submitter, group)
        return None

    def order(self, submitter: str) -> list[Group]:
        """The submitter's groups, those first that go first."""
        order = self._orders.get(submitter)
        if order is None:
            groups = self._groups.get(submitter, {})
            order = self._orders[submitter] = sorted(groups, key=lambda one: (-one.prio, groups[one][0][0]))
        return order

    def requests(self) -> Iterator[tuple[str, Group, int]]:
        """Submitter, group and how many: of each submitter those first that go first."""
        for submitter in self._groups:
            for group in self.order(submitter):
                yield submitter, group, self.count(submitter, group)

    def count(self, submitter: str, group: Group) -> int:
        """How many of a group wait."""
        return len(self._groups.get(submitter, {}).get(group, ()))

    def submitters(self) -> Collection[str]:
        """All who have waiting jobs."""
        return self._groups.keys()

    def kinds(self) -> Collection[int]:
        """The kinds of all waiting jobs."""
        return self._kinds.keys()

    def __contains__(self, submitter: object) -> bool:
        return submitter in self._groups

    def __bool__(self) -> bool:
        return bool(self._groups)
