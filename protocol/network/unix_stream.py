"""A unix socket as a trio stream, over which open files can be handed over as well (SCM_RIGHTS).

A descriptor travels with the bytes that were given to `send_all` after it, or with earlier ones; they come in the order
in which they were sent. Whoever has not said that it takes descriptors gets none: the kernel closes them.
"""

from __future__ import annotations

import array
import errno
import os
import socket
from typing import Final

import trio

AT_ONCE_MAX: Final = 8
"""How many descriptors one message carries, and how many wait to be sent before a sender has to wait."""
WAITING_MAX: Final = 256
"""How many may have come that nobody has asked for yet; a peer that sends more is cut off."""
_PAUSE_S: Final = 0.02
_SIZE: Final = array.array("i").itemsize
_FILES_BYTES: Final = socket.CMSG_SPACE(AT_ONCE_MAX * _SIZE)


class OpenFile:
    """A descriptor that has come or will go; closed when it is dropped."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Give the descriptor back; again is fine."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class UnixStream(trio.abc.Stream):
    """One connected unix socket. One task sends and one receives at a time."""

    __slots__ = ("_came", "_socket", "_takes", "_to_send")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._to_send: list[OpenFile] = []  # few at most; an empty deque has room for 64, on every connection
        self._came: list[OpenFile] = []
        self._takes = False

    # ---- files

    def take_files(self) -> None:
        """From now on keep the descriptors that come, for `next_file`."""
        self._takes = True

    def attach(self, file: OpenFile) -> None:
        """Hand this file over with the next bytes, or before them; closed here when it has gone."""
        self._to_send.append(file)

    @property
    def is_loaded(self) -> bool:
        """Whether as many files wait to be sent as should."""
        return len(self._to_send) >= AT_ONCE_MAX

    def next_file(self) -> OpenFile | None:
        """The next file that has come."""
        return self._came.pop(0) if self._came else None

    # ---- bytes

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of this, and what is attached."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with memoryview(data) as view:
            sent = 0
            while sent < len(view):
                try:
                    sent += self._send(view[sent:])
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._socket)
                except OSError as error:
                    if error.errno != errno.ETOOMANYREFS:
                        raise self._broken(error) from error
                    await trio.sleep(_PAUSE_S)  # this account has too many files on their way: some are being taken
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the kernel takes at once, and how much that was; what is wrong with the socket `send_all` tells."""
        try:
            return self._send(data)
        except OSError:
            return 0

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        if not self._to_send:
            return self._socket.send(data)
        # The kernel takes 253 at a time (SCM_MAX_FD), but a reader must have room for as many as a message brings.
        count = min(len(self._to_send), AT_ONCE_MAX)
        numbers = array.array("i", [self._to_send[at].descriptor for at in range(count)])
        sent = self._socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
        gone, self._to_send = self._to_send[:count], self._to_send[count:]
        for file in gone:
            file.close()
        return sent

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room."""
        try:
            await trio.lowlevel.wait_writable(self._socket)
        except OSError as error:
            raise self._broken(error) from error

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What has come; empty at the end."""
        wanted = max_bytes or 65536
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)  # first: a reader is nearly always ahead of its peer
                return self._receive(wanted)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(error) from error

    async def receive_into(self, room: memoryview) -> int:
        """Put what has come there, and how much that is; 0 at the end."""
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                return self._receive_there(room)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(error) from error

    def _receive(self, wanted: int) -> bytes:
        if not self._takes:
            return self._socket.recv(wanted)
        data, ancillary, _, _ = self._socket.recvmsg(wanted, _FILES_BYTES, socket.MSG_CMSG_CLOEXEC)
        self._keep(ancillary)
        return data

    def _receive_there(self, room: memoryview) -> int:
        if not self._takes:
            return self._socket.recv_into(room)
        count, ancillary, _, _ = self._socket.recvmsg_into([room], _FILES_BYTES, socket.MSG_CMSG_CLOEXEC)
        self._keep(ancillary)
        return count

    def _keep(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, raw in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(raw[: len(raw) - len(raw) % _SIZE])
                self._came.extend(OpenFile(number) for number in numbers)
        if len(self._came) > WAITING_MAX:
            self._came.clear()
            raise OSError(errno.EPROTO, "more files than were asked for")

    async def aclose(self) -> None:
        """Close the socket, and every file that is still here."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        self._to_send.clear()
        self._came.clear()
        await trio.lowlevel.checkpoint()

    def _broken(self, error: OSError) -> Exception:
        if self._socket.fileno() < 0:
            return trio.ClosedResourceError("this socket was already closed")
        return trio.BrokenResourceError(f"socket connection broken: {error}")
