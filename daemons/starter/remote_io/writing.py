"""What a job has written to one file at home, on its way there.

Small writes become one, large ones go as they come, several at a time. A program is answered as soon as its bytes are
here, for as long as not too many are (`Budget`). What failed at home is the next answer that it gets for the file: of a
write, of fsync, of close; if there is none, it is the reason for which the job is held. A write may not hear it, for
the kernel divides a large one and tells only how much of it was taken: so the next fsync or close says it again. Rules:
bytes for the same place arrive in their order, and so does what is appended.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from daemons.base.sync import Signal

PIECE_BYTES: Final = 1024 * 1024
"""One write at home."""
LINGER_S: Final = 1.0
"""How long bytes wait for more of them."""
STILL_S: Final = 10.0
"""How long nothing may come home until a close is answered."""
UNSENT: Final = -1


class Budget:
    """How many bytes all files of a job may have under way."""

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._changed = Signal()

    def has(self, size: int) -> bool:
        """Whether there is room."""
        return self._used == 0 or self._used + size <= self._most

    async def take(self, size: int) -> None:
        """Wait for room."""
        await self._changed.until(lambda: self.has(size))
        self._used += size

    def take_now(self, size: int) -> None:
        """Where there is room."""
        self._used += size

    def give_back(self, size: int) -> None:
        """They are at home, or lost."""
        self._used -= size
        self._changed.fire()


class _Piece:
    """Bytes under way."""

    def __init__(self, at: int, size: int) -> None:
        self.at, self.end = at, at + size

    def meets(self, other: _Piece) -> bool:
        """Whether the order of the two matters: appended bytes meet all others."""
        return UNSENT in (self.at, other.at) or (self.at < other.end and other.at < self.end)


Send = Callable[[bytes, int], Awaitable[int]]
"""Write bytes at a place, UNSENT for the end of the file; where the file ends by then, or OSError."""


class Writing:
    """One file's."""

    def __init__(self, send: Send, nursery: trio.Nursery, budget: Budget) -> None:
        self._send, self._nursery, self._budget = send, nursery, budget
        self._waiting: list[bytes | memoryview] = []
        self._at, self._size = 0, 0
        self._under_way: list[_Piece] = []
        self._lingers = False
        self._changed = Signal()
        self._error = 0
        self._repeats = 0
        """An error that a write was told, and perhaps not its program."""
        self._delivered, self._delivered_at = 0, -math.inf
        self.end = 0
        """How large the file is at least, once all is there."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is on its way, and nothing is to be told."""
        return not self._waiting and not self._under_way and not self._error and not self._repeats

    @property
    def has_bytes(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._waiting or self._under_way)

    def has_had_bytes(self, since: float) -> bool:
        """Whether anything has been on its way since then."""
        return self.has_bytes or self._delivered_at >= since

    @property
    def error(self) -> int:
        """The errno that nobody was told yet."""
        return self._error

    async def write(self, data: bytes | memoryview, at: int) -> None:
        """Take the bytes; OSError is what has become of earlier ones."""
        if self._error:
            number, self._error = self._error, 0
            self._repeats = number
            raise OSError(number, os.strerror(number))
        await self._budget.take(len(data))
        self._add(data, at)

    def write_now(self, data: bytes | memoryview, at: int) -> bool:
        """Take the bytes if that takes no waiting, and nothing is to be told."""
        if self._error or not self._budget.has(len(data)):
            return False
        self._budget.take_now(len(data))
        self._add(data, at)
        return True

    def _add(self, data: bytes | memoryview, at: int) -> None:
        follows = self._at == UNSENT if at == UNSENT else self._at >= 0 and at == self._at + self._size
        if self._waiting and (not follows or self._size + len(data) > PIECE_BYTES):
            self.start()
        if not self._waiting:
            self._at = at
            if not self._lingers:
                self._lingers = True
                self._nursery.start_soon(self._start_later)
        self._waiting.append(data)
        self._size += len(data)
        if at != UNSENT:
            self.end = max(self.end, at + len(data))
        if self._size >= PIECE_BYTES:
            self.start()

    async def _start_later(self) -> None:
        await trio.sleep(LINGER_S)
        self._lingers = False
        self.start()

    def start(self) -> None:
        """Send what waits for more."""
        if self._waiting:
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            piece = _Piece(self._at, len(data))
            before = [one for one in self._under_way if one.meets(piece)]
            self._under_way.append(piece)
            self._nursery.start_soon(self._deliver, data, piece, before)

    async def _deliver(self, data: bytes, piece: _Piece, before: list[_Piece]) -> None:
        try:
            await self._changed.until(lambda: not any(one in self._under_way for one in before))
            # What follows a failure is lost with it: a file with a hole would look whole.
            if not self._error:
                end = await self._send(data, piece.at)
                self.end = max(self.end, end)
        except OSError as error:
            self._error = self._error or error.errno or errno.EIO
        finally:
            self._under_way.remove(piece)
            self._delivered += 1
            self._delivered_at = trio.current_time()
            self._budget.give_back(len(data))
            self._changed.fire()

    async def settle(self) -> None:
        """Wait until nothing is on its way."""
        self.start()
        await self._changed.until(lambda: not self._under_way)

    async def finish(self) -> None:
        """The same; OSError is what has become of it."""
        await self.settle()
        self._tell()

    async def close(self) -> None:
        """The same, but not for longer than bytes come home.

        Files are closed in the middle of an execve, too, and until that is answered the kernel keeps everybody waiting
        who looks at the process. What fails later is told later.
        """
        delivered = -1
        while delivered != self._delivered:
            delivered = self._delivered
            with trio.move_on_after(STILL_S):
                await self.finish()
                break

    def _tell(self) -> None:
        number = self._error or self._repeats
        self._error = self._repeats = 0
        if number:
            raise OSError(number, os.strerror(number))
