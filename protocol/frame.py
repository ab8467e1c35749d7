"""Frames: a length of four bytes, then that many bytes. Sans-IO: bytes in, frames out.

The limit is checked as soon as the length is known, so that nobody makes this side keep more than it agreed to.
"""

from __future__ import annotations

from struct import Struct

from pool.errors import PeerError

_LENGTH = Struct(">I")
HEADER_BYTES = _LENGTH.size


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into frames of at most `bytes_max`; the limit may be raised once a peer is known."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()
        self._wanted = -1  # length of the frame under way; -1 while its header is incomplete

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what was received."""
        self._buffer += data

    def next(self) -> bytes | None:
        """The next whole frame, or None until more bytes come; PeerError when one is too long or empty."""
        buffer = self._buffer
        if self._wanted < 0:
            if len(buffer) < HEADER_BYTES:
                return None
            (length,) = _LENGTH.unpack_from(buffer)
            if not 0 < length <= self.bytes_max:
                raise PeerError(f"a frame of {length} bytes", expected=f"1 to {self.bytes_max}")
            self._wanted = length
        end = HEADER_BYTES + self._wanted
        if len(buffer) < end:
            return None
        payload = bytes(memoryview(buffer)[HEADER_BYTES:end])
        del buffer[:end]
        self._wanted = -1
        return payload

    @property
    def partial(self) -> bool:
        """Whether a frame has begun that is not complete."""
        return bool(self._buffer)
