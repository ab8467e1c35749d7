"""Watches over a running program: it is ended when its memory or its disk is used up, and that is then why it ended."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.cgroup import ControlGroup
from daemons.starter.launch.bare import BareBody
from daemons.starter.launch.body import Body
from daemons.starter.report.result import ActivationResult
from daemons.starter.watch.disk import Disk
from daemons.starter.watch.figures import Figures
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.execute.exit import Exited, Hold, over_memory, over_polled_memory
from pool.jobs.vocabulary.endings import Ending

OOM_NOTICE_S: Final = 1.0
"""The kernel's notice comes before the kill; how long that is waited for."""
OOM_PAUSE_S: Final = 0.01
MIB: Final = 1 << 20


class Watches:
    """One activation's."""

    def __init__(
        self, group: ControlGroup, disk: Disk, figures: Figures, job_id: JobId, log: Log, *, memory_poll_s: float = 1.0
    ) -> None:
        self._group, self._disk, self._figures = group, disk, figures
        self._job_id, self._log = job_id, log
        self._memory_poll_s = memory_poll_s
        self._out_of_memory = False
        self._over_memory: Hold | None = None
        self._out_of_disk: Hold | None = None
        self._no_disk = ""

    @property
    def disk_is_enforced(self) -> bool:
        """Whether there is a limit of disk to watch."""
        return self._disk.enforced

    async def memory(self, body: BareBody, limit_bytes: int) -> None:
        """A job that has too much memory is ended as a whole: the kernel has ended one of its processes, or, where the
        kernel does not watch, it was seen to have it."""
        if self._group.limits_memory:
            await self._until_out_of_memory(body)
        elif limit_bytes:
            await self._poll_memory(body, limit_bytes)

    async def _poll_memory(self, body: BareBody, limit_bytes: int) -> None:
        while True:
            await trio.sleep(self._memory_poll_s)
            used = await body.memory(limit_bytes)
            if used > limit_bytes:
                self._over_memory = hold = over_polled_memory(limit_bytes >> 20, -(-used // MIB))
                self._log.always("The job has too much memory", job=self._job_id, reason=hold.reason)
                await body.end()
                return

    async def _until_out_of_memory(self, body: BareBody) -> None:
        descriptor = self._group.oom_descriptor() if self._group.works else None
        if descriptor is None:
            return
        while True:
            if not self._group.oom_killed():  # as it may have been while the starter rested
                await trio.lowlevel.wait_readable(descriptor)
                os.eventfd_read(descriptor)
            with trio.move_on_after(OOM_NOTICE_S):
                while not self._group.oom_killed():  # noqa: ASYNC110 (a file of the kernel)
                    await trio.sleep(OOM_PAUSE_S)
            if self._group.oom_killed():
                self._out_of_memory = True
                self._log.always("The job is out of memory", job=self._job_id)
                # The kernel has killed one of its processes, perhaps not the first: a job that lacks one is not left to
                # run on.
                body.signal(signal.SIGKILL)
                return

    async def disk(self, body: Body) -> None:
        """A job that has used up its disk is ended, and one whose machine has: what it writes from now on is lost."""
        while True:
            if trouble := self._disk.trouble():
                self._no_disk = trouble
                self._log.always("The machine has no disk for the job", job=self._job_id, reason=trouble)
                await body.end()
                return
            began = time.monotonic()
            self._figures.measure_disk()
            if (over := self._figures.over_disk()) is not None:
                self._out_of_disk = over
                self._log.always("The job has used up its disk", job=self._job_id, reason=over.reason)
                await body.end()
                return
            await self._disk.pause(time.monotonic() - began)

    def note_memory(self, body: Body) -> None:
        """The program has ended: was it for want of memory? An engine says so itself."""
        if isinstance(body, BareBody):
            self._out_of_memory = self._out_of_memory or self._group.oom_killed()

    def verdict(self, end: Exited, slot: ClassAd, limit_bytes: int, *, always_hold: bool) -> ActivationResult | None:
        """What a program has come to that has used up what it had; None when it has ended by itself."""
        if self._over_memory is not None:
            return ActivationResult.held(self._over_memory)
        if self._out_of_memory:
            limit = limit_bytes >> 20 or (slot.eval_int("Memory") or 0)
            used = max(self._group.peak() >> 20, self._figures.usage.resident_mb)
            if limit_bytes:  # processes' sizes count what they share more than once
                used = min(used, limit)
            hold = over_memory(limit, used, always_hold=always_hold)
            if hold is None:
                return ActivationResult(Ending.EVICTED, reason="The machine ran out of memory")
            return ActivationResult.held(hold)
        if self._no_disk:
            return ActivationResult(Ending.FAILED, reason=f"This machine has no disk for the job: {self._no_disk}")
        failed = end.signal is not None or end.code != 0
        over = self._out_of_disk or (self._figures.over_disk() if failed else None)
        return ActivationResult.held(over) if over is not None else None
