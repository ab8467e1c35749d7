"""Jobs that wait for a slot: by submitter and kind, the highest priority first, then whoever came first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from pool.simulate.workload import RecordedJob

Entry = tuple[int, int, RecordedJob]


class Waiting:
    """All who wait."""

    def __init__(self) -> None:
        self._heaps: dict[str, dict[int, list[Entry]]] = {}
        self._serial = 0

    def add(self, job: RecordedJob) -> None:
        """One more."""
        # Those of equal priority keep the order in which they came.
        self._serial += 1
        heap = self._heaps.setdefault(job.submitter, {}).setdefault(job.kind, [])
        heapq.heappush(heap, (-job.prio, self._serial, job))

    def take(self, submitter: str, kind: int) -> RecordedJob:
        """The next job of a kind; it waits no more."""
        kinds = self._heaps[submitter]
        _, _, job = heapq.heappop(kinds[kind])
        if not kinds[kind]:
            del kinds[kind]
            if not kinds:
                del self._heaps[submitter]
        return job

    def first(self, submitter: str, fits: Callable[[int], bool]) -> RecordedJob | None:
        """The submitter's next job among the kinds that fit; it waits no more."""
        kinds = self._heaps.get(submitter, {})
        for kind in sorted(kinds, key=lambda kind: kinds[kind][0][:2]):
            if fits(kind):
                return self.take(submitter, kind)
        return None

    def requests(self) -> Iterator[tuple[str, int, int, int]]:
        """Submitter, kind, how many and priority: of each submitter those first that go first."""
        for submitter, kinds in self._heaps.items():
            for kind, heap in sorted(kinds.items(), key=lambda one: one[1][0][:2]):
                yield submitter, kind, len(heap), -heap[0][0]

    def of(self, submitter: str) -> int:
        """How many of the submitter's wait."""
        return sum(len(heap) for heap in self._heaps.get(submitter, {}).values())

    def __bool__(self) -> bool:
        return bool(self._heaps)
