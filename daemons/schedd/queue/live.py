"""Those who reach into running jobs: the owner with tools, and the nodes of a parallel job into each other.

Their requests go to the job's starter, its answers come back.
"""

from __future__ import annotations

from typing import TypeVar

from daemons.schedd.core.core import Core, whole
from daemons.schedd.core.selection import may_manage
from daemons.schedd.execution.shadow import Shadow
from daemons.schedd.execution.starters import shadow_of
from pool.base.errors import PeerError, UserError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.jobs.vocabulary.nodes import size_of
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import AT_ACCESS_POINT, Universe
from protocol.messages.live import (
    NotRunning,
    OpenShell,
    ResizeShell,
    RunOnNode,
    ShellInput,
    ShellOutput,
    TailFiles,
    Tails,
)
from protocol.rpc.endpoints import ConnectionLost, Peer, RemoteError, TimedOut
from protocol.rpc.service import Answer, SendItem, answer
from protocol.wire.message import Done, Request, replace

R = TypeVar("R")

WITHOUT_STARTER = AT_ACCESS_POINT | {Universe.GRID}
"""Universes whose jobs no starter runs."""


class Live:
    """The handlers."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def answers(self) -> list[Answer]:
        """Looking into running jobs."""
        return [
            answer(TailFiles, self.tail, stops_with_caller=True),
            answer(OpenShell, self.open_shell),
            answer(ShellInput, self.shell_input),
            answer(ResizeShell, self.resize_shell),
            answer(RunOnNode, self.run_on_node),
        ]

    async def tail(self, peer: Peer, request: TailFiles) -> Tails:
        """The end of a job's files."""
        shadow = self._shadow(peer, request.job_id)
        try:
            return await self._ask(shadow, replace(request, activation=shadow.activation))
        except UserError as error:
            raise UserError(f"Failed to peek at file from starter: {error}") from None

    async def open_shell(self, peer: Peer, request: OpenShell, send: SendItem[ShellOutput]) -> None:
        """A shell in the job's surroundings; it ends with either connection."""
        shadow = self._shadow(peer, request.job_id, request.node)
        enabled, ad = self._core.settings.ssh_to_job, self._core.queue.ad(shadow.job)
        if enabled is not None and enabled.eval(ad) is not True:
            raise UserError(f"Job {request.job_id} is denied by SCHEDD_ENABLE_SSH_TO_JOB.")
        starter = await self._starter(shadow)
        self._core.log.always(f"{peer.identity} opens a shell in job {request.job_id}", command=request.command)
        await _pass_on(starter, replace(request, activation=shadow.activation), send)

    async def run_on_node(self, peer: Peer, request: RunOnNode, send: SendItem[ShellOutput]) -> None:
        """A command of one node of a parallel job on another; it ends with either connection."""
        asking = shadow_of(self._core, peer, request.activation)
        gang = self._core.executions.gangs.get(asking.job) if asking is not None else None
        if asking is None or gang is None:
            raise PeerError(f"{request.activation} is no node of a running parallel job")
        shadow = gang.nodes.get(request.node)
        if shadow is None:
            raise NotRunning(f"Node {request.node} of job {asking.job.id} is not running.")
        await _pass_on(
            await self._starter(shadow), replace(request, job_id=asking.job.id, activation=shadow.activation), send
        )

    async def shell_input(self, peer: Peer, request: ShellInput) -> Done:
        """What is typed."""
        shadow = self._shadow(peer, request.job_id, request.node)
        return await self._ask(shadow, replace(request, activation=shadow.activation), timeout=None)

    async def resize_shell(self, peer: Peer, request: ResizeShell) -> Done:
        """A terminal's new size."""
        shadow = self._shadow(peer, request.job_id, request.node)
        return await self._ask(shadow, replace(request, activation=shadow.activation))

    # ---- the way to the starter

    async def _ask(self, shadow: Shadow, request: Request[R], timeout: float | None = 30.0) -> R:
        try:
            return await (await self._starter(shadow)).call(request, timeout=timeout)
        except PeerError as error:
            raise _as_ours(error, shadow.job.id) from None

    def _shadow(self, peer: Peer, id: JobId, node: int | None = None) -> Shadow:
        """The job's execution, if the peer may have to do with it; `node`: of one of its nodes, None: of its first."""
        job = self._core.queue.get(id)
        if job is None:
            raise UserError(f"No such job: {id}")
        if not may_manage(self._core, peer)(job):
            raise UserError(f"{peer.identity} is not authorized for access to the starter for job {id}")
        ad = self._core.queue.ad(job)
        if ad.eval_int("JobUniverse", Universe.VANILLA) in WITHOUT_STARTER:
            raise UserError(f"Job {id} does not support remote access.")
        sizes = {one: size_of(self._core.queue.ad(one)) for one in whole(job)}
        size = sum(sizes.values())
        if node is None:
            node = sum(count for one, count in sizes.items() if one.proc < job.proc)
        if not 0 <= node < size:
            raise UserError(f"Job {id} has no node {node}: it has {size}.")
        gang = self._core.executions.gangs.get(job)
        shadow = gang.nodes.get(node) if gang is not None else self._core.executions.shadow_of.get(job)
        if shadow is None or (shadow.starter is None and not shadow.is_resting):
            raise NotRunning(_why_not(id, ad, job.status))
        return shadow

    @staticmethod
    async def _starter(shadow: Shadow) -> Peer:
        starter = await shadow.awake()
        if starter is None:
            raise NotRunning(f"The starter of job {shadow.job.id} cannot be reached now.")
        return starter


async def _pass_on(starter: Peer, request: OpenShell | RunOnNode, send: SendItem[ShellOutput]) -> None:
    """All that a shell prints."""
    try:
        async with starter.stream(request) as items:
            async for item in items:
                await send(item)
    except PeerError as error:
        raise _as_ours(error, request.job_id) from None


def _why_not(id: JobId, ad: ClassAd, status: JobStatus) -> str:
    said = f"Job {id} is not running."
    if status is JobStatus.HELD:
        said += f" It is on hold: {ad.eval_str('HoldReason') or 'no reason is known'}"
    return said


def _as_ours(error: PeerError, id: JobId) -> PeerError | UserError:
    """The starter's error, as the tool shall see it."""
    if isinstance(error, ConnectionLost | TimedOut):
        return NotRunning(f"The connection to the starter of job {id} was lost.")
    if isinstance(error, RemoteError):
        return NotRunning(str(error)) if error.code == NotRunning.__name__ else UserError(str(error))
    return error
