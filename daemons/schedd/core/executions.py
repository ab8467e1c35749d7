"""Which jobs run, in slots and at the access point, and when the next ones may start and leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from pool.classad import ClassAd
from pool.jobs.queue.cluster import Job
from pool.jobs.waiting.pacing import Bursts

if TYPE_CHECKING:
    from daemons.schedd.core.access_point import AccessPoint
    from daemons.schedd.execution.gang import Gang
    from daemons.schedd.execution.shadow import Shadow


class Execution(Protocol):
    """A job that runs, as far as policy and users have to do with it."""

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """The job shall leave."""

    def check_policy(self) -> None:
        """Ask the job's periodic policy."""


class Executions:
    """All executions, by job and by activation."""

    def __init__(self, point: AccessPoint) -> None:
        self._point = point
        self.shadows: dict[str, Shadow] = {}
        """Those in slots, by their activation."""
        self.shadow_of: dict[Job, Shadow] = {}
        self.gangs: dict[Job, Gang] = {}
        """Those of parallel jobs; of each, node 0 is in `shadow_of` as well."""
        self.local: dict[Job, Execution] = {}
        """Those that have no slot (local and scheduler universe)."""
        self._expected: dict[str, tuple[str, trio.Event]] = {}
        """Those that may begin with claims that are being asked for: of each the claim, and when that is known."""
        self._starts, self._stops = Bursts(), Bursts()

    def of(self, job: Job) -> Execution | None:
        """The job's execution, while it has one."""
        return self.gangs.get(job) or self.shadow_of.get(job) or self.local.get(job)

    def nodes_of(self, job: Job) -> list[Shadow]:
        """The job's executions in slots: of a parallel job those of all nodes."""
        gang = self.gangs.get(job)
        if gang is not None:
            return gang.shadows()
        return [self.shadow_of[job]] if job in self.shadow_of else []

    def begins(self, job: Job, shadow: Shadow) -> None:
        """The job runs in a slot, or is about to."""
        self.shadows[shadow.activation] = self.shadow_of[job] = shadow

    @contextmanager
    def expecting(self, activation: str, claim: str) -> Iterator[None]:
        """Inside the block a claim is asked for whose startd may give a starter this execution with the grant."""
        self._expected[activation] = claim, trio.Event()
        try:
            yield
        finally:
            self._expected.pop(activation)[1].set()

    async def until_known(self, activation: str, claim: str | None) -> None:
        """Wait until this execution has begun, or will not, if it is one that may begin with that claim."""
        if (expected := self._expected.get(activation)) is not None and expected[0] == claim:
            await expected[1].wait()

    def pause_before_start(self, job_ad: ClassAd | None = None, slot_ad: ClassAd | None = None) -> float:
        """How long the next start of a job has to wait; the one after it waits as long as this job asks for."""
        settings = self._point.settings
        own = job_ad.eval_float("NextJobStartDelay", 0.0, slot_ad) if job_ad is not None else 0.0
        most = settings.next_start_delay_max_s
        return self._starts.book(
            self._point.now(),
            count=settings.start_count,
            delay_s=settings.start_delay_s,
            own_delay_s=max(0.0, min(own, most) if most else own),
        )

    @property
    def start_at_once(self) -> bool:
        """Whether the next start of a job need not wait for others'."""
        return self._starts.has_room(self._point.now(), delay_s=self._point.settings.start_delay_s)

    def pause_before_stop(self) -> float:
        """How long the next job that shall leave its slot is left alone."""
        settings = self._point.settings
        return self._stops.book(self._point.now(), count=settings.stop_count, delay_s=settings.stop_delay_s)
