"""The starter leaves a job that only runs to its keeper: when, and what it leaves behind.

Source: this pool's own; `rest/` has both sides of what is handed over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

import trio

from daemons.base.faults import fault
from daemons.starter.chirp.job import ChirpJob
from daemons.starter.files.outputs import Outputs
from daemons.starter.launch.context import Context
from daemons.starter.report.local_link import Link
from daemons.starter.rest.kept import Kept, Look, Used
from daemons.starter.rest.state import Course, Rest, kept_stamps, needs
from daemons.starter.running import ProgramRuns
from daemons.starter.watch.figures import Figures
from daemons.starter.watch.leaving import Leaving
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.execute.scratch import LATEST_LOOK_S
from protocol.messages.starter import MayRest, RunJob, StarterAwake
from protocol.wire import codec

TELL_S: Final = 5.0
"""How long a job's end may wait until its schedd knows that the starter is awake."""
EXTRA_BYTES_MAX: Final = 32 * 1024
"""How much a job may have set by chirp that its keeper tells in the starter's place."""


@dataclass
class Resting:
    """One activation's."""

    context: Context
    request: RunJob
    link: Link
    running: ProgramRuns
    figures: Figures
    chirp: ChirpJob
    leaving: Leaving
    visitors: Callable[[], int]
    """How many look into the job."""

    async def when_alone(self, kept: Kept, job: ClassAd, course: Course, limit: int, outputs: Outputs | None) -> None:
        """Go when the job has been left alone for a while; `limit` is its memory's, in bytes."""
        context, request = self.context, self.request
        if need := needs(course):
            context.log.full("The starter stays with its job", job=request.job_id, because=need)
            return
        while True:
            await trio.sleep(context.settings.rest_after_s)
            fault("starter.wants_rest")
            if self._is_alone:
                try:
                    await self._ask(kept, job, limit, outputs)
                finally:
                    await self._stay()

    async def _ask(self, kept: Kept, job: ClassAd, limit: int, outputs: Outputs | None) -> None:
        """Go if nobody minds; returns when the starter is to stay."""
        context, request = self.context, self.request
        # The schedd first: it must not take the end of the connection for a loss.
        if not await self.link.rests():
            return
        fault("starter.rest_told")
        try:
            await context.startd.call(MayRest(activation=request.activation))
        except PeerError as error:
            context.log.full(f"The starter does not rest: {error}", job=request.job_id)
            return
        fault("starter.may_rest")
        # An order may have come before the answer did.
        if self._is_alone:
            with suppress(OSError):  # no descriptor more, say
                self._go(kept, job, limit, outputs)

    async def _stay(self) -> None:
        """Tell whoever may take it for one that rests: also when the job ended while an answer was on its way."""
        with trio.move_on_after(TELL_S, shield=True), suppress(PeerError):
            await self.context.startd.notify(StarterAwake(activation=self.request.activation))
            await self.link.rests_not()

    @property
    def _is_alone(self) -> bool:
        """Whether nobody wants anything of the job or its starter now."""
        running, server = self.running, self.context.chirp
        return (
            self.link.told is not None
            and self.leaving.told is None
            and not (running.suspended or running.shells.any or self.visitors())
            and not (server is not None and server.is_busy)
            and len(codec.pack(self.chirp.delayed_ad())) <= EXTRA_BYTES_MAX
        )

    def _go(self, kept: Kept, job: ClassAd, limit: int, outputs: Outputs | None) -> NoReturn:
        """Nothing is awaited from here on: what ends now is collected by the keeper, or is in what it is told."""
        context, body, executing = self.context, self.running.body, self.link.told
        assert body is not None
        assert executing is not None
        cookie, listeners = context.chirp.kept() if context.chirp is not None else ("", {})
        rest = Rest(
            request=self.request,
            job=job,
            settings=context.settings.pack(),
            executing=executing,
            pid=body.watched.pid,
            memory_limit=limit,
            group_before=context.group.before(),
            of_devices=self.figures.of_devices,
            moved=ClassAd(self.figures.moved),
            delayed={name: value.text for name, value in self.chirp.delayed.items()},
            stamps=kept_stamps(outputs.before) if outputs is not None else None,
            chirp_cookie=cookie,
            chirp_at=list(listeners),
        )
        context.log.full("The starter rests", job=self.request.job_id, pid=body.watched.pid)
        kept.rest_now(rest.pack(), self._look(rest), list(listeners.values()))

    def _look(self, rest: Rest) -> Look:
        context, body, settings = self.context, self.running.body, self.context.settings
        assert body is not None
        return Look(
            activation=self.request.activation,
            pid=rest.pid,
            ended=body.watched.status if body.watched.ended.is_set() else None,
            sandbox=self.running.sandbox,
            tree_version=settings.trees.version,
            tree_mounts=[[name, path] for name, path in settings.trees.mounts],
            group=settings.group,
            counts_cache=settings.counts_cache,
            group_before=rest.group_before,
            memory_limit=rest.memory_limit,
            reserved_disk_mb=settings.reserved_disk_mb,
            see_s=settings.group_look_s if context.group.works else settings.processes_look_s,
            tell_s=settings.update_s,
            memory_poll_s=settings.memory_poll_s,
            disk_s=LATEST_LOOK_S if self.request.slot_ad.eval_int("Disk") else 0.0,
            used=list(Used.of(self.figures.usage)),
            collected=list(context.processes.ended),
            extra=codec.pack(self.chirp.delayed_ad()),
        )
