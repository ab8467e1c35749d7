"""What waits to be sent on one connection, and the task that sends it: all that was said since its last turn.

Over a unix socket nearly everything is sent where it is said, since the kernel takes it at once. So the writer's task
is begun when there is something that only a task can send, and ends when the connection has been quiet for a while: of
ten thousand connections nearly all are quiet.
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
REST_S: Final = 2.0
"""After how long without a word the writer ends."""


class Outbox:
    """The bytes that a connection has to send. `lost` makes the error of who waits when it is closed.

    `begin_writer` is to start a task that runs `write`.
    """

    __slots__ = (
        "_begin_writer",
        "_connection",
        "_drained",
        "_idle_writer",
        "_is_closed",
        "_is_open",
        "_lost",
        "_send_now",
        "_stream",
        "_writer_scope",
        "_writing",
        "said_at",
        "sending_since",
    )

    def __init__(
        self,
        connection: Connection,
        stream: trio.abc.Stream,
        *,
        lost: Callable[[], ConnectionLost],
        begin_writer: Callable[[], None],
    ) -> None:
        self.said_at = trio.current_time()
        self.sending_since: float | None = None
        """Since when a piece waits to be taken by the other side."""
        self._connection = connection
        self._stream = stream
        self._send_now = stream.send_now if isinstance(stream, UnixStream) else None
        self._lost = lost
        self._begin_writer = begin_writer
        self._idle_writer: trio.lowlevel.Task | None = None
        self._writer_scope: trio.CancelScope | None = None
        self._drained: trio.Event | None = None
        """There while somebody waits until something was sent."""
        self._is_open = self._is_closed = False
        self._writing = False
        """The writer has something to do, or is about to begin."""

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
        if self._writing or not self._is_open or not self._connection.pending_bytes:
            return
        # Over TLS this is not possible: what the socket takes depends on what TLS makes of it.
        if self._send_now is not None:
            self._connection.send_with(self._send_now)
            self.said_at = trio.current_time()
            if not self._connection.pending_bytes:
                return
        if self._idle_writer is not None:
            self._wake(self._idle_writer)
        else:
            self._writing = True
            self._begin_writer()

    def _wake(self, writer: trio.lowlevel.Task) -> None:
        self._idle_writer, self._writing = None, True
        trio.lowlevel.reschedule(writer)

    async def room(self) -> None:
        """Wait while too much is unsent; ConnectionLost when it never will be sent."""
        while not self._connection.is_closed and self.is_high:
            await self.drained()
        if self._connection.is_closed:
            raise self._lost()

    async def drained(self) -> None:
        """Wait until something was sent, or the connection has ended."""
        if not self._is_closed:
            if self._drained is None:
                self._drained = trio.Event()
            await self._drained.wait()

    def open(self) -> None:
        """From now on what is said is sent."""
        self._is_open = True
        self.kick()

    async def write(self) -> None:
        """Send what waits, whenever something waits, until `rest` or the end; raises what the stream raises."""
        connection = self._connection
        with trio.CancelScope() as self._writer_scope:
            while self._is_open and connection.pending_bytes:
                while connection.pending_bytes:
                    await self._send_all(connection.take())
                    self.said_at = trio.current_time()
                    self._tell_drained()
                self._writing = False
                await self._wait_for_words()
        self._writing = False

    def rest(self, now: float) -> None:
        """Called now and then: end a writer that has had nothing to do for a while."""
        if self._idle_writer is not None and now - self.said_at >= REST_S:
            self._wake(self._idle_writer)

    def close(self) -> None:
        """Nothing more will be sent: whoever waits goes on."""
        self._is_open, self._is_closed = False, True
        if self._writer_scope is not None:
            self._writer_scope.cancel()
        self._tell_drained()

    def _tell_drained(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None:
            drained.set()

    async def _send_all(self, data: bytearray | bytes | memoryview) -> None:
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
