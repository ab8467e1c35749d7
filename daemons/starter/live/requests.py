"""What tools ask of the running job, as its schedd passes it on; the schedd has made sure that they may."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from daemons.starter.launch.body import Scene
from daemons.starter.live.shell import Shells
from daemons.starter.live.tail import tail
from pool.base.errors import UserError
from pool.classad import ClassAd, expr
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
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer
from protocol.wire.message import DONE, Done


class Visited(Protocol):
    """A job that can be visited."""

    visitors: int
    """How many look into it."""

    @property
    def scene(self) -> Scene | None:
        """Its surroundings, while its program runs."""

    @property
    def shells(self) -> Shells:
        """Those of its visitors."""


class Live:
    """The handlers. `present` is the running job of an activation."""

    def __init__(
        self, present: Callable[[str], Visited | None], *, ssh_to_job: str, peek_job: str, takes_commands: bool
    ) -> None:
        self._present = present
        self._ssh_to_job, self._peek_job = ssh_to_job, peek_job
        self._takes_commands = takes_commands

    def answers(self) -> list[Answer]:
        """What comes on the connection to the schedd."""
        return [
            answer(TailFiles, self.tail, stops_with_caller=True),
            answer(OpenShell, self.open_shell),
            answer(ShellInput, self.shell_input),
            answer(ResizeShell, self.resize_shell),
            answer(RunOnNode, self.run_on_node),
        ]

    async def tail(self, _peer: Peer, request: TailFiles) -> Tails:
        """The end of the job's files."""
        job, scene = self._job(request.activation)
        if not allows(self._peek_job, scene.slot, scene.job):
            raise UserError("Rejecting request, because ENABLE_PEEK_JOB=false")
        job.visitors += 1
        try:
            return await tail(scene, request, lambda: job.scene is not scene)
        finally:
            job.visitors -= 1

    async def open_shell(self, _peer: Peer, request: OpenShell, send: SendItem[ShellOutput]) -> None:
        """A shell in the job's surroundings, until its end or the caller's."""
        job, scene = self._job(request.activation)
        if not allows(self._ssh_to_job, scene.slot, scene.job):
            raise UserError(f"Job {request.job_id} is denied by ENABLE_SSH_TO_JOB on {scene.slot.eval_str('Name')}.")
        job.visitors += 1
        try:
            await job.shells.serve(scene, request, send)
        finally:
            job.visitors -= 1

    async def run_on_node(self, _peer: Peer, request: RunOnNode, send: SendItem[ShellOutput]) -> None:
        """A command of another node of the same job, until its end or the caller's."""
        job, scene = self._job(request.activation)
        if not self._takes_commands:
            raise UserError(f"Node {request.node} is denied by ENABLE_CHIRP on {scene.slot.eval_str('Name')}.")
        shell = OpenShell(job_id=request.job_id, shell=secrets.token_hex(16), command=request.command)
        await job.shells.serve(scene, shell, send)

    async def shell_input(self, _peer: Peer, request: ShellInput) -> Done:
        """What is typed."""
        job, _ = self._job(request.activation)
        await job.shells.feed(request.shell, request.data, over=request.over)
        return DONE

    def resize_shell(self, _peer: Peer, request: ResizeShell) -> Done:
        """The terminal has another size."""
        job, _ = self._job(request.activation)
        job.shells.resize(request.shell, request.rows, request.columns)
        return DONE

    def _job(self, activation: str) -> tuple[Visited, Scene]:
        job = self._present(activation)
        if job is None or job.scene is None:
            raise NotRunning("The job's program does not run now.")
        return job, job.scene


def allows(expression: str, slot: ClassAd, job: ClassAd) -> bool:
    """Whether an expression over the machine's ad (MY) and the job's (TARGET) holds."""
    text = expression.strip()
    # Nearly always it is that one word, which needs no parser.
    return text.lower() == "true" or (bool(text) and expr(text).eval(slot, job) is True)
