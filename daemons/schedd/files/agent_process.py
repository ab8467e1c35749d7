"""Starts the file agents: forked by the schedd's zygote, each as the user whose files it opens."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from daemons.agent.main import socket_name
from daemons.base.layout import PASSAGE, passage
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.world import ChildProcess, ZygoteLike
from daemons.host import sandbox
from daemons.host.child_settings import agent_payload
from daemons.schedd.files.agents import NoAgent
from daemons.schedd.files.transfer_turns import TransferTurns
from protocol.network.channel import Channel
from protocol.network.shared_port import endpoint
from protocol.rpc import endpoints
from protocol.rpc.connection import ConnectionLimits
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Service
from protocol.security.identity import Link
from protocol.wire.message import Request

if TYPE_CHECKING:
    from daemons.schedd.core.job_tasks import JobTasks

R = TypeVar("R")

GOODBYE_S: Final = 2.0
LIMITS: Final = ConnectionLimits(frame_bytes_max=256 * 1024)
"""An agent's answers are short; it is a user's process, and shall not fill the memory of everybody's schedd."""
DIRECTORY: Final = "agents"


def own_directory(run: Path) -> Path:
    """RUN/agents, where this account alone makes names; whatever is there before the first agent is removed."""
    directory = run / DIRECTORY
    passage(directory)
    directory.chmod(PASSAGE)
    for left in directory.iterdir():
        if left.is_dir() and not left.is_symlink():
            sandbox.remove(str(left))
        else:
            left.unlink(missing_ok=True)
    return directory


class AgentProcess:
    """One agent's process, and the connection that it was born with."""

    def __init__(
        self, process: ChildProcess, peer: Peer, address: str, endpoint: str, is_outdated: Callable[[], bool]
    ) -> None:
        self._process = process
        self._is_outdated = is_outdated
        self._peer = peer
        self.address = address
        self._made: tuple[str, ...] = (address, endpoint)

    @property
    def closed(self) -> trio.Event:
        """Set when it is gone."""
        return self._peer.closed

    @property
    def is_outdated(self) -> bool:
        """Whether this host's certificate was renewed since it was started."""
        return self._is_outdated()

    async def call(self, request: Request[R], *, timeout: float) -> R:
        """Ask it something."""
        return await self._peer.call(request, timeout=timeout)

    async def aclose(self) -> None:
        """End it. What it made in RUN before it became the user, it cannot remove itself."""
        await self._peer.aclose()
        with trio.move_on_after(GOODBYE_S):
            await self._process.wait()
        # Also after it has gone by itself: its socket and its endpoint in RUN are removed there.
        await self.kill()

    async def kill(self) -> None:
        """End it by force; returns when it has ended, which a process that waits for a disk may take long to do."""
        self._peer.abort("it was ended")
        # By the zygote's pidfd: the number may not be its own any more.
        self._process.kill()
        await self._process.wait()
        made, self._made = self._made, ()  # soon there may be another's of the same names
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)


class StartAgents:
    """Makes agents, by user."""

    def __init__(
        self,
        start: DaemonStart,
        zygote: ZygoteLike,
        tasks: JobTasks,
        transfers: TransferTurns,
        service: Callable[[str], Service],
    ) -> None:
        self._start = start
        self._zygote = zygote
        self._tasks = tasks
        self._transfers = transfers
        self._service = service
        self._directory = own_directory(start.run_dir)

    async def __call__(self, owner: str) -> AgentProcess:
        """An agent for this user: his own account where the pool is root's, else the pool's account."""
        if os.getuid() == 0:
            path, payload = self._as_user(owner)
        else:
            path = str(self._directory / f"{os.getuid()}-{owner}.sock")
            payload = agent_payload(
                self._start.config,
                account="",
                uid=os.getuid(),
                gid=os.getgid(),
                groups=os.getgroups(),
                path=path,
            )
        security = self._start.security
        # Before the fork: a certificate that comes meanwhile must make the agent outdated, not be missed.
        shown = security.certificate_stamp()
        process = await self._zygote.fork("agent", payload)
        try:
            channel = Channel(process.channel, Link(kind="pair", label=f"the file agent of {owner}", verified=True))
            peer = await endpoints.open_pair(
                self._tasks.nursery,
                channel,
                parent=True,
                security=security,
                service=self._service(owner),
                silence_s=self._transfers.agent_timeout_s,
                limits=LIMITS,
            )
            peer.on_close(self._transfers.gone)
        except BaseException:
            process.kill()
            raise
        return AgentProcess(
            process,
            peer,
            path,
            endpoint(str(self._start.run_dir), socket_name(path)),
            is_outdated=lambda: security.certificate_stamp() != shown,
        )

    def _as_user(self, owner: str) -> tuple[str, bytes]:
        try:
            entry = pwd.getpwnam(owner)
        except KeyError:
            raise NoAgent(f"there is no account {owner!r} on this host to write files as") from None
        path = str(self._directory / f"{entry.pw_uid}.sock")
        return path, agent_payload(
            self._start.config,
            account=owner,
            uid=entry.pw_uid,
            gid=entry.pw_gid,
            groups=sorted(set(os.getgrouplist(owner, entry.pw_gid))),
            path=path,
        )
