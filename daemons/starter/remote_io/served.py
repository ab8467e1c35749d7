"""A job's directories at home, served while its program runs, by a process of their own (`serving.py`).

    have the process forked -> it looks for the directories -> mount (daemons.host.namespaces) -> it serves
    -> the job's processes end -> it writes what is left

This process never waits for a file that is served: whatever becomes of home, the job can be told to leave. When the
server dies, the kernel fails all that waits for the mount, and the job is evicted.
"""

from __future__ import annotations

import array
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.account import Account
from daemons.starter.launch.context import Context
from daemons.starter.remote_io.order import ServeOrder
from daemons.starter.remote_io.server import open_device
from daemons.starter.remote_io.serving import peer_of
from daemons.starter.report.result import HoldJob
from daemons.starter.rest.kept import WORD_BYTES_MAX, packed, unpacked
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.exit import Hold, cannot_enter
from pool.execute.isolation import HomeMount
from pool.execute.remote_io import objection, trees
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.starter import RunJob, ServeHomes
from protocol.wire.kinds import encode

FORK_S: Final = 30.0
"""How long it may take until the server is there."""
SERVER_GONE: Final = "The process that served the job's files has ended."


class NoRemoteIo(PoolError):
    """This machine cannot serve a job's files; another may."""


class ServedHomes:
    """Those of one run of a program. `lost` is called when the server has died."""

    def __init__(self, request: RunJob, context: Context, account: Account, lost: Callable[[], None]) -> None:
        self._request, self._context, self._account, self._lost = request, context, account, lost
        self._devices: list[int] = []
        self._line: trio.socket.SocketType | None = None
        self._process = -1
        self._is_over = False
        self._answer, self._settled = trio.Event(), trio.Event()
        self._lacks, self._errno = (0, 0), 0
        self.is_lost = False
        self.mounts: tuple[HomeMount, ...] = ()

    async def begin(self, paths: Sequence[str], nursery: trio.Nursery) -> None:
        """Have them served. HoldJob where one of them is not there."""
        account = self._account
        self._line = line = await self._server()
        self._devices = [_device() for _ in paths]
        order = ServeOrder(
            activation=self._request.activation,
            address=self._request.agent_address,
            ticket=self._request.agent_ticket,
            paths=list(paths),
            uid=account.uid,
            gid=account.gid,
            cache_bytes=self._context.settings.remote_io_cache_mb << 20,
            log_path=str(self._context.log.path or ""),
        )
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self._devices))
        await line.sendmsg([packed({"serve": encode(order)})], [rights])
        nursery.start_soon(self._hear, line)
        await self._answer.wait()
        if self.is_lost:
            raise NoRemoteIo(SERVER_GONE)
        number, reason = self._lacks
        if reason:
            raise HoldJob(cannot_enter(paths[number], reason))
        self.mounts = tuple(
            HomeMount(path, device, account.uid, account.gid) for path, device in zip(paths, self._devices, strict=True)
        )

    async def _server(self) -> trio.socket.SocketType:
        """The line to it, once it is there."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.bind("")  # a name that nobody has
        door.listen()
        asked = ServeHomes(activation=self._request.activation, door=door.getsockname())
        with trio.move_on_after(FORK_S), trio.socket.from_stdlib_socket(door) as listener:
            pid = (await self._context.startd.call(asked, timeout=FORK_S)).pid
            while True:
                line, _ = await listener.accept()
                if peer_of(line) == (pid, os.geteuid()):  # anybody can knock
                    self._process = os.pidfd_open(pid)
                    return line
                line.close()
        raise NoRemoteIo(f"no process that serves the job's files (want_remote_io) was there within {FORK_S:g} s")

    async def _hear(self, line: trio.socket.SocketType) -> None:
        while packet := await _received(line):
            word = unpacked(packet)
            if "lacks" in word:
                self._lacks = word["lacks"]
                self._answer.set()
            elif "begun" in word:
                self._close_devices()
            elif "settled" in word:
                self._errno = word["settled"]
                self._settled.set()
        if not self._is_over:
            self.is_lost = True
            self._context.log.error(SERVER_GONE, activation=self._request.activation)
            self._lost()
        self.stop()

    async def settle(self) -> int:
        """The job's processes have ended: have the rest written. The errno of what no program was told, 0 for none."""
        assert self._line is not None
        with suppress(OSError):
            await self._line.send(packed({"settle": True}))
        await self._settled.wait()
        return self._errno

    def stop(self) -> None:
        """Nobody is served any more: whoever waits for the mount gets an error."""
        self._is_over = True
        if self._line is not None:
            self._line.close()
        if self._process >= 0:
            with suppress(ProcessLookupError):  # it has nothing more to do, and may be stuck
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.close(self._process)
            self._process = -1
        self._close_devices()
        self._answer.set()
        self._settled.set()

    def _close_devices(self) -> None:
        devices, self._devices = self._devices, []
        for device in devices:
            os.close(device)


async def _received(line: trio.socket.SocketType) -> bytes:
    try:
        return await line.recv(WORD_BYTES_MAX)
    except (OSError, trio.ClosedResourceError):
        return b""


def _device() -> int:
    try:
        return open_device()
    except OSError as error:
        raise NoRemoteIo(
            f"this machine cannot serve files for jobs (want_remote_io): /dev/fuse: {error.strerror}"
        ) from None


@asynccontextmanager
async def homes_for(
    request: RunJob,
    job: ClassAd,
    context: Context,
    account: Account,
    nursery: trio.Nursery,
    lost: Callable[[], None],
) -> AsyncIterator[ServedHomes]:
    """Serve the job's directories inside the `with`; what it wrote last is at home afterwards, if the job has the time.

    HoldJob where they cannot be served at all, and where something that was written is lost.
    """
    paths = trees(job)
    for path in paths:
        if reason := objection(path, context.settings.execute):
            raise HoldJob(
                Hold(f"The job's files cannot be where they are (want_remote_io): {reason}", HoldCode.IWD_ERROR)
            )
    homes = ServedHomes(request, context, account, lost)
    try:
        await homes.begin(paths, nursery)
        yield homes
        number = await homes.settle()
    finally:
        homes.stop()
    if number:
        raise HoldJob(_lost(context.log, number))


def _lost(log: Log, number: int) -> Hold:
    reason = f"What the job wrote last could not be written at home: (errno {number}) {os.strerror(number)}"
    log.always(reason)
    return Hold(reason, HoldCode.TRANSFER_OUTPUT_ERROR, number)
