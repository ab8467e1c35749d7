"""Speaks with a QEMU by its monitor (QMP): one command after another, each with a limit.

QEMU listens in a directory of the sandbox that only the job's account can enter; as soon as it has answered, the name
is taken away, so that nobody else finds it. What it says is read with a bound, and events are passed over.

Source: QEMU's "QEMU Machine Protocol Specification" and "QEMU QMP Reference Manual".
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final

import trio

from daemons.host.account import Account, acting_as
from pool.base.errors import PoolError

LINE_BYTES_MAX: Final = 1 << 20
PIECE_BYTES: Final = 1 << 16


class MonitorError(PoolError):
    """QEMU did not do it; the message says why."""


class Monitor:
    """One QEMU's."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self._socket = trio.socket.from_stdlib_socket(connection)
        self._timeout_s = timeout_s
        self._heard = b""
        self._one_at_a_time = trio.Lock()
        self._number = 0

    async def greet(self) -> None:
        """Begin: QEMU says who it is, and listens from then on."""
        with self._limit("greet"):
            await self._line()
        await self.do("qmp_capabilities")

    async def do(self, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Have it carry this out; its answer. MonitorError when it refuses, is gone, or takes too long."""
        async with self._one_at_a_time:
            self._number += 1
            order = {"execute": command, "id": self._number, "arguments": dict(arguments or {})}
            with self._limit(command):
                try:
                    await self._send(json.dumps(order).encode() + b"\n")
                    return await self._answer()
                except OSError as error:
                    raise MonitorError(f"QEMU is gone: {error.strerror}") from None

    async def give(self, name: str, descriptor: int) -> None:
        """Have it keep this descriptor of ours, by a name."""
        async with self._one_at_a_time:
            self._number += 1
            order = {"execute": "getfd", "id": self._number, "arguments": {"fdname": name}}
            given = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor.to_bytes(4, sys.byteorder))]
            with self._limit("getfd"):
                try:
                    data = json.dumps(order).encode() + b"\n"
                    await self._send(data[await self._socket.sendmsg([data], given) :])
                    await self._answer()
                except OSError as error:
                    raise MonitorError(f"QEMU is gone: {error.strerror}") from None

    async def job(self, command: str, arguments: Mapping[str, Any], pause_s: float) -> None:
        """The same with what QEMU does as a job of its own; returns when that is done."""
        name = f"job{self._number}"
        await self.do(command, {"job-id": name, **arguments})
        with self._limit(command):
            while True:
                found = [one for one in await self.do("query-jobs") if one.get("id") == name]
                if not found or found[0].get("status") == "concluded":
                    break
                await trio.sleep(pause_s)
        await self.do("job-dismiss", {"id": name})
        if found and (reason := found[0].get("error")):
            raise MonitorError(f"{command}: {reason}")

    def close(self) -> None:
        """Speak with it no more."""
        self._socket.close()

    def _limit(self, command: str) -> _Limit:
        return _Limit(self._timeout_s, command)

    async def _send(self, data: bytes) -> None:
        while data:
            data = data[await self._socket.send(data) :]

    async def _answer(self) -> Any:
        while True:
            said = await self._line()
            if said.get("id") != self._number:
                continue  # an event, or the answer to a command that was given up
            if "error" in said:
                raise MonitorError(str(said["error"].get("desc", "QEMU refuses"))[:PIECE_BYTES])
            return said.get("return")

    async def _line(self) -> dict[str, Any]:
        while b"\n" not in self._heard:
            if len(self._heard) > LINE_BYTES_MAX:
                raise MonitorError("QEMU says more than it may")
            piece = await self._socket.recv(PIECE_BYTES)
            if not piece:
                raise MonitorError("QEMU is gone")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise MonitorError("QEMU says what is no answer")
        return said


class _Limit:
    """A cancel scope whose end is an error with a name."""

    def __init__(self, seconds: float, command: str) -> None:
        self._scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        self._said = f"QEMU has not answered to {command} within {seconds:g} s"

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *raised: Any) -> bool:
        caught = bool(self._scope.__exit__(*raised))
        if self._scope.cancelled_caught:
            raise MonitorError(self._said)
        return caught


def connect(account: Account, path: str, timeout_s: float) -> Monitor | None:
    """The monitor at this path, whose name is gone then; None while QEMU does not listen yet."""
    directory, name = os.path.split(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with acting_as(account):
            there = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                made.connect(f"/proc/self/fd/{there}/{name}")  # the path itself may be too long for a socket
                os.unlink(name, dir_fd=there)
            finally:
                os.close(there)
    except (FileNotFoundError, ConnectionRefusedError):
        made.close()
        return None
    except BaseException:
        made.close()
        raise
    made.setblocking(False)
    return Monitor(made, timeout_s)
