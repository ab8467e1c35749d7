"""Checkpoints of one activation's program as it is: when one is taken, where it goes, and who hears that there is none.

    asked (the machine's PERIODIC_CHECKPOINT)  -> stand still, write down, keep at the access point, go on
    told to leave (not by condor_rm, not fast) -> stand still, write down, end; then kept as the job's last checkpoint

While a checkpoint is kept, the program stands still: its files are part of it, and must be as they were.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from daemons.base.log import Log
from daemons.starter.launch.body import Scene
from daemons.starter.launch.context import Context
from daemons.starter.launch.criu import dump, forget_images
from daemons.starter.report.local_link import Link
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.criu import FAILED
from protocol.messages.shadow import JobNotice, JobUpdate
from protocol.messages.starter import RunJob


@dataclass(frozen=True)
class Pen:
    """Who writes a program down: `write` has it stand still, `go_on` go on again; `forget` removes what was written."""

    write: Callable[[Scene], Awaitable[None]]
    go_on: Callable[[], None]
    forget: Callable[[Scene], None]


def criu_of(context: Context) -> Pen:
    """CRIU, for processes."""
    return Pen(
        write=partial(dump, context),
        go_on=context.processes.go_on,
        forget=lambda scene: forget_images(scene.sandbox, scene.account),
    )


class Images:
    """Those of one activation."""

    def __init__(self, pen: Pen, log: Log, request: RunJob, link: Link, keep: Callable[[], Awaitable[object]]) -> None:
        """`keep` has them kept at the access point, with the job's files."""
        self._pen, self._log, self._request, self._link, self._keep = pen, log, request, link, keep
        self._one_at_a_time = trio.Lock()
        self.waits = False
        """The program was written down to leave, and is to be kept."""
        self.are_kept = False
        """It is."""

    async def take_along(self, scene: Scene) -> bool:
        """Before the program leaves: whether it has been written down, and stands still."""
        async with self._one_at_a_time:
            self.waits = await self._taken(scene)
        return self.waits

    async def take(self, scene: Scene) -> None:
        """While the program runs: write it down and keep that; then it goes on."""
        async with self._one_at_a_time:
            if self.waits or not await self._taken(scene):
                return
            try:
                await self._keep()
            finally:
                self._pen.forget(scene)
                self._pen.go_on()

    async def _taken(self, scene: Scene) -> bool:
        log = self._log
        began = trio.current_time()
        try:
            await self._pen.write(scene)
        except (PoolError, OSError) as error:
            log.always("No checkpoint of the program", job=self._request.job_id, reason=str(error))
            await self._tell(str(error))
            self._pen.go_on()
            return False
        log.always("The program is written down", job=self._request.job_id, seconds=trio.current_time() - began)
        return True

    async def _tell(self, reason: str) -> None:
        request = self._request
        message = f"No checkpoint of the program was made: {reason}"
        await self._link.notice(JobNotice(job_id=request.job_id, activation=request.activation, message=message))
        ad = ClassAd({FAILED: reason})
        await self._link.update(JobUpdate(job_id=request.job_id, activation=request.activation, ad=ad))
