"""What waits to be sent on one connection, and the task that sends it: all that was said since its last turn.

Over a unix socket nearly everything is sent where it is said, since the kernel takes it at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from protocol.network.unix_stream import UnixStream
from protocol.rpc.connection import Connection
from protocol.rpc.remote import ConnectionLost

UNSENT_BYTES_HIGH: Final = 1024 * 1024
SENT_AT_ONCE_BYTES: Final = 1024 * 1024


class Outbox:
    """The bytes that a connection has to send. `lost` makes the error of who waits when it is closed."""

    def __init__(self, connection: Connection, stream: trio.abc.Stream, lost: Callable[[], ConnectionLost]) -> None:
        self.said_at = trio.current_time()
        self.sending_since: float | None = None
        """Since when a piece waits to be taken by the other side."""
        self._connection = connection
        self._stream = stream
        self._send_now = stream.send_now if isinstance(stream, UnixStream) else None
        self._lost = lost
        self._idle_writer: trio.lowlevel.Task | None = None
        self._drained = trio.Event()
        self._writing = False

    @property
    def is_empty(self) -> bool:
        """Whether all was sent."""
        return not (self._connection.pending_bytes or self._writing)

    @property
    def is_high(self) -> bool:
        """Whether so much waits that nothing should be added."""
        return self._connection.pending_bytes > UNSENT_BYTES_HIGH

    @property
    def has_room(self) -> bool:
        """Whether something can be said now."""
        return not (self._connection.pending_bytes > UNSENT_BYTES_HIGH or self._connection.is_closed)

    def kick(self) -> None:
        """Send what the kernel takes at once, which is nearly always all; have the writer send the rest."""
        task = self._idle_writer
        if task is None or not self._connection.pending_bytes:
            return
        # Over TLS this is not possible: what the socket takes depends on what TLS makes of it.
        if self._send_now is not None:
            self._connection.send_with(self._send_now)
            self.said_at = trio.current_time()
            if not self._connection.pending_bytes:
                return
        self._idle_writer = None
        trio.lowlevel.reschedule(task)

    async def room(self) -> None:
        """Wait while too much is unsent; ConnectionLost when it never will be sent."""
        while not self._connection.is_closed and self.is_high:
            await self._drained.wait()
        if self._connection.is_closed:
            raise self._lost()

    async def drained(self) -> None:
        """Wait until something was sent, or the connection has ended."""
        await self._drained.wait()

    async def write(self) -> None:
        """Send what waits, whenever something waits; raises what the stream raises."""
        connection = self._connection
        while True:
            while connection.pending_bytes:
                self._writing = True
                await self._send_all(connection.take())
                self._writing = False
                self.said_at = trio.current_time()
                drained, self._drained = self._drained, trio.Event()
                drained.set()
            await self._wait_for_words()

    def close(self) -> None:
        """Nothing more will be sent: whoever waits goes on."""
        self._drained.set()

    async def _send_all(self, data: bytearray) -> None:
        """In pieces, so that it shows whether the other side reads."""
        with memoryview(data) as view:
            for at in range(0, len(view), SENT_AT_ONCE_BYTES):
                self.sending_since = trio.current_time()
                await self._stream.send_all(view[at : at + SENT_AT_ONCE_BYTES])
        self.sending_since = None

    async def _wait_for_words(self) -> None:
        self._idle_writer = trio.lowlevel.current_task()

        def stop(_: object) -> trio.lowlevel.Abort:
            self._idle_writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(stop)
