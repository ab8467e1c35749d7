"""Frames: a length of four bytes, then that many bytes. Sans-IO: bytes in, frames out.

The limit is checked as soon as the length is known, so that nobody makes this side keep more than it agreed to.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from pool.base.errors import PeerError

_LENGTH = Struct(">I")
HEADER_BYTES = _LENGTH.size


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


HEAD_BYTES: Final = 96
"""How much of a long frame has come when it is looked at."""
LONG_BYTES: Final = 64 * 1024
ROOM_BYTES_MAX: Final = 4 * 1024 * 1024
"""A frame of at most this length gets room for all of it at its beginning."""


class FrameReader:
    """Cuts a byte stream into frames of at most `bytes_max`; the limit may be raised once a peer is known.

    `judge(length, head)` raises PeerError for a long frame that is not to be taken, by its first bytes.
    """

    __slots__ = ("_buffer", "_came", "_judge", "_judged", "_wanted", "bytes_max", "taken")

    def __init__(self, bytes_max: int, judge: Callable[[int, bytes], None] = lambda length, head: None) -> None:
        self.bytes_max = bytes_max
        self.taken = 0
        self._judge = judge
        self._judged = False
        self._buffer = bytearray()
        self._wanted = -1  # length of the frame under way; -1 while its header is incomplete
        self._came = -1  # how much of a buffer that has room for its whole frame has come; -1: all that it has

    def whole(self, data: bytes | bytearray | memoryview) -> bytes | None:
        """The frame, where what was received is exactly one that is short: nearly always. Otherwise it is to be fed."""
        if self._buffer or type(data) is not bytes or not HEADER_BYTES < len(data) <= LONG_BYTES:
            return None
        length = len(data) - HEADER_BYTES
        if length > self.bytes_max or data[:HEADER_BYTES] != _LENGTH.pack(length):
            return None
        self.taken += 1
        return data[HEADER_BYTES:]

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what was received."""
        assert self._came < 0, "the rest of this frame goes into its room"
        self._buffer += data

    def room(self) -> memoryview | None:
        """Where the rest of a long frame under way goes; None where what comes is to be fed."""
        if self._came < 0:
            have, end = len(self._buffer), HEADER_BYTES + self._wanted
            if not (self._judged and LONG_BYTES < self._wanted <= ROOM_BYTES_MAX and have < end):
                return None
            whole = bytearray(end)
            whole[:have] = self._buffer
            self._buffer, self._came = whole, have
        return memoryview(self._buffer)[self._came :]

    def filled(self, count: int) -> None:
        """So many bytes have come into the room."""
        self._came += count
        if self._came == len(self._buffer):
            self._came = -1

    def next(self) -> bytes | memoryview | None:
        """The next whole frame, or None until more bytes come; PeerError when one is too long or empty."""
        if self._came >= 0:
            return None
        buffer = self._buffer
        if self._wanted < 0:
            if len(buffer) < HEADER_BYTES:
                return None
            (length,) = _LENGTH.unpack_from(buffer)
            if not 0 < length <= self.bytes_max:
                raise PeerError(f"a frame of {length} bytes", expected=f"1 to {self.bytes_max}")
            self._wanted = length
            self._judged = length <= LONG_BYTES
        if not self._judged:
            if len(buffer) < HEADER_BYTES + HEAD_BYTES:
                return None
            self._judge(self._wanted, bytes(buffer[HEADER_BYTES : HEADER_BYTES + HEAD_BYTES]))
            self._judged = True
        end = HEADER_BYTES + self._wanted
        if len(buffer) < end:
            return None
        payload: bytes | memoryview
        if self._wanted > LONG_BYTES:
            # Not copied: what is behind it, which is less, begins a buffer of its own.
            payload, self._buffer = memoryview(buffer)[HEADER_BYTES:end], buffer[end:]
        else:
            # One copy instead of two: a slice of a bytearray is one already.
            payload = bytes(memoryview(buffer)[HEADER_BYTES:end])
            del buffer[:end]
        self._wanted = -1
        self.taken += 1
        return payload

    @property
    def missing(self) -> int:
        """How much of the frame under way has not come; 0 where its length is not known."""
        have = len(self._buffer) if self._came < 0 else self._came
        return HEADER_BYTES + self._wanted - have if self._wanted >= 0 else 0

    @property
    def long_bytes(self) -> int:
        """The length of the frame under way, when it is a long one; else 0."""
        return self._wanted if self._wanted > LONG_BYTES else 0

    @property
    def partial(self) -> bool:
        """Whether a frame has begun that is not complete."""
        return bool(self._buffer)
