"""The raw bytes of files on one connection, and open files handed over instead of them (see `protocol.files.bulk`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from pool.base.errors import PeerError
from protocol.network.unix_stream import OpenFile, UnixStream
from protocol.rpc import events
from protocol.rpc.connection import Connection
from protocol.rpc.outbox import Outbox
from protocol.rpc.remote import ConnectionLost
from protocol.security.identity import Link

BULK_FRAMES_WAITING_MAX: Final = 4

Piece = events.Bulk | events.BulkHanded | events.BulkEnded | events.BulkFailed


class BulkLane:
    """Both directions of one connection's bulk bytes. `lost` makes the error of who waits when it is closed."""

    __slots__ = ("_connection", "_in", "_is_closed", "_link", "_lost", "_out", "_outbox", "_stream")

    def __init__(
        self,
        connection: Connection,
        outbox: Outbox,
        stream: trio.abc.Stream,
        link: Link,
        lost: Callable[[], ConnectionLost],
    ) -> None:
        self._connection = connection
        self._outbox = outbox
        self._stream = stream if isinstance(stream, UnixStream) else None
        self._link = link
        self._lost = lost
        self._is_closed = False
        self._in: trio.MemorySendChannel[Piece] | None = None
        self._out: trio.MemoryReceiveChannel[Piece] | None = None

    async def send(self, data: bytes | memoryview) -> None:
        """Raw bytes, as one frame."""
        await self._outbox.room()
        self._connection.bulk(data)
        self._outbox.kick()

    async def end(self, size: int, crc: int) -> None:
        """The file is complete."""
        await self._outbox.room()
        self._connection.bulk_end(size, crc)
        self._outbox.kick()

    async def fail(self, message: str) -> None:
        """The file cannot be sent to its end."""
        await self._outbox.room()
        self._connection.bulk_fail(message)
        self._outbox.kick()

    def take_files(self) -> bool:
        """From now on take files that are handed over open; False when this connection cannot carry any."""
        if self._stream is None:
            return False
        self._stream.take_files()
        return True

    def reaches(self, pid: int) -> bool:
        """Whether this process is at the other end itself, by the kernel's word: it can be handed open files."""
        credentials = self._link.credentials
        return bool(pid) and self._stream is not None and credentials is not None and credentials.pid == pid

    async def hand_over(self, descriptor: int, size: int) -> None:
        """Give the peer this open file, instead of its `size` bytes; it is closed here."""
        file = OpenFile(descriptor)
        await self._outbox.room()
        assert self._stream is not None
        while self._stream.is_loaded and not self._connection.is_closed:
            await self._outbox.drained()
        if self._connection.is_closed:
            raise self._lost()
        self._connection.bulk_handed(size)
        self._stream.attach(file)
        self._outbox.kick()

    async def next(self) -> Piece:
        """The next piece of a file; ConnectionLost when none can come."""
        try:
            return await self._receiver().receive()
        except trio.EndOfChannel:
            raise self._lost() from None

    async def put(self, piece: Piece) -> None:
        """One more piece has come; waits while too many wait to be taken."""
        self._receiver()
        assert self._in is not None
        if type(piece) is events.BulkHanded:
            piece = events.BulkHanded(piece.size, self._next_file())
        await self._in.send(piece)

    def close(self) -> None:
        """No more will come."""
        self._is_closed = True
        if self._in is not None:
            self._in.close()

    def _receiver(self) -> trio.MemoryReceiveChannel[Piece]:
        if self._out is None:
            self._in, self._out = trio.open_memory_channel[Piece](BULK_FRAMES_WAITING_MAX)
            if self._is_closed:
                self._in.close()
        return self._out

    def _next_file(self) -> OpenFile:
        file = self._stream.next_file() if self._stream is not None else None
        if file is None:
            raise PeerError("a file was announced as handed over, and did not come")
        return file
