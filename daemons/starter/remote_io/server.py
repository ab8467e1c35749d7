"""Answers the kernel for one mounted directory: reads its requests off the device, and has each done by a task.

Rules: no more requests are in hand than REQUESTS_MAX, and the kernel keeps the rest. A process that was interrupted
waits no longer than INTERRUPTED_S for an answer (EINTR). When the mount is gone, so is the device, and this ends.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from daemons.base.log import Log
from daemons.host.namespaces import READ_AHEAD_KB
from protocol.fuse import wire
from protocol.fuse.wire import Asked, Op, TooOld

WRITE_BYTES_MAX: Final = 1024 * 1024
READ_BYTES_MAX: Final = 1024 * 1024
REQUESTS_MAX: Final = 128
INTERRUPTED_S: Final = 1.0
MOUNT_LOOK_S: Final = 0.002
"""How often a device that is not mounted yet is looked at: it says EPERM, and nothing tells when that is over."""
_GONE: Final = frozenset({errno.ENODEV, errno.EBADF, errno.ECONNABORTED})
_PASSING: Final = frozenset({errno.EINTR, errno.ENOENT})
"""A request was taken back while it was being read."""

Body = bytes | list[memoryview] | None
"""What belongs to an answer, in one piece or several; None where nothing does."""
Operation = Callable[[Asked], Awaitable[Body]]
"""What is done for a request. OSError says no."""
AtOnce = Callable[[Asked], Body]
"""The same where it takes no waiting; None where it may take some."""
HELD_S: Final = 0.005
"""How long requests are done so one after another before others of this process have their turn."""
MORE_MS: Final = 1
"""How long the next one of a program that writes on is waited for, which takes less than a turn of the loop."""


def open_device() -> int:
    """The kernel's end of a file system that is going to be mounted; OSError where there is none."""
    return os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)


class Server:
    """One device's."""

    def __init__(self, device: int, log: Log) -> None:
        self._device, self._log = device, log
        self._poll = select.poll()
        self._poll.register(device, select.POLLIN)
        self._turn_at, self._in_a_row = 0.0, 0
        self._under_way: dict[int, trio.CancelScope] = {}
        self._room = trio.CapacityLimiter(REQUESTS_MAX)
        self._buffer = bytearray(WRITE_BYTES_MAX + wire.HEAD_BYTES_MAX)
        self.begun = trio.Event()
        """It is mounted, or has been."""
        self.ended = trio.Event()

    async def run(
        self, operations: dict[int, Operation], at_once: dict[int, AtOnce], forget: Callable[[Asked], None]
    ) -> None:
        """Until the mount is gone."""
        self._operations, self._at_once, self._forget = operations, at_once, forget
        try:
            async with trio.open_nursery() as nursery:
                while (asked := await self._next()) is not None:
                    await self._take(asked, nursery)
                nursery.cancel_scope.cancel()
        finally:
            self.ended.set()

    async def _next(self) -> Asked | None:
        while True:
            if time.perf_counter() - self._turn_at > HELD_S:
                await trio.lowlevel.checkpoint()
                self._turn_at = time.perf_counter()
            try:
                size = os.readv(self._device, [self._buffer])
            except BlockingIOError:
                if self._in_a_row > 1 and self._poll.poll(MORE_MS):
                    continue
                # Not before the mount: who begins to wait for the device by then is not woken (epoll).
                await trio.lowlevel.wait_readable(self._device)
                self._turn_at, self._in_a_row = time.perf_counter(), 0
                continue
            except OSError as error:
                if error.errno in _PASSING:
                    continue
                if error.errno == errno.EPERM and not self.begun.is_set():
                    await trio.sleep(MOUNT_LOOK_S)
                    continue
                if error.errno in _GONE:
                    return None
                raise
            return wire.read_request(memoryview(bytes(memoryview(self._buffer)[:size])))

    async def _take(self, asked: Asked, nursery: trio.Nursery) -> None:
        if asked.op == Op.INIT:
            self._begin(asked)
        elif asked.op in (Op.FORGET, Op.BATCH_FORGET):
            self._forget(asked)
        elif asked.op == Op.INTERRUPT:
            nursery.start_soon(self._interrupt, asked.fields(wire.NUMBER_IN)[0])
        elif (at_once := self._at_once.get(asked.op)) is not None and (body := at_once(asked)) is not None:
            self._answer(asked, body)
            self._in_a_row += 1
        elif (operation := self._operations.get(asked.op)) is None:
            self._reply(wire.refusal(asked.unique, errno.ENOSYS))
        else:
            # What is not taken waits in the kernel, which lets go of it at once when the process is killed.
            token, self._in_a_row = object(), 0
            await self._room.acquire_on_behalf_of(token)
            nursery.start_soon(self._serve, asked, operation, token)

    def _begin(self, asked: Asked) -> None:
        self.begun.set()
        try:
            body = wire.init(
                asked,
                write_bytes_max=WRITE_BYTES_MAX,
                read_bytes_max=READ_BYTES_MAX,
                read_ahead=READ_AHEAD_KB << 10,
                page_bytes=os.sysconf("SC_PAGE_SIZE"),
            )
        except TooOld as error:
            self._log.error("Files cannot be served", error)
            self._reply(wire.refusal(asked.unique, errno.EPROTO))
            return
        self._answer(asked, body)

    async def _serve(self, asked: Asked, operation: Operation, token: object) -> None:
        with trio.CancelScope() as scope:
            self._under_way[asked.unique] = scope
            try:
                body = await operation(asked)
            except OSError as error:
                self._reply(wire.refusal(asked.unique, error.errno or errno.EIO))
            except Exception as error:  # costs this operation, and neither the job nor its starter
                self._log.error("A file operation has failed", error)
                self._reply(wire.refusal(asked.unique, errno.EIO))
            else:
                self._answer(asked, body)
            finally:
                del self._under_way[asked.unique]
                self._room.release_on_behalf_of(token)
        if scope.cancelled_caught:
            self._reply(wire.refusal(asked.unique, errno.EINTR))

    async def _interrupt(self, unique: int) -> None:
        await trio.sleep(INTERRUPTED_S)
        scope = self._under_way.get(unique)
        if scope is not None:
            scope.cancel()

    def changed(self, node: int) -> None:
        """Have the kernel ask again what a file is."""
        self._reply(wire.changed(node))

    def _answer(self, asked: Asked, body: Body) -> None:
        parts = body if type(body) is list else [body or b""]
        self._reply(wire.header(asked.unique, sum(map(len, parts))), *parts)

    def _reply(self, *parts: bytes | memoryview) -> None:
        try:
            os.writev(self._device, parts)
        except OSError as error:
            if error.errno not in _GONE | _PASSING:
                self._log.error("An answer about a file was not taken", error)
