"""The process that serves one job's files: forked by the startd's zygote, its starter's word is all that it knows.

    find the starter's door -> hear what is to be served -> look for it at home -> serve
    -> the mount goes with the job's last process -> write what is left

The devices are this process's alone once they are mounted: when it dies, the kernel ends the mounts, and whoever waits
for them gets an error. It ends when its starter is gone, or has no use for it any more.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from functools import partial
from typing import Any, Final

import msgpack
import trio

from daemons.base.linux import name_process
from daemons.base.log import Log
from daemons.host.child_settings import StarterSettings
from daemons.process.zygote import Birth
from daemons.starter.remote_io.directory import HomeDirectory
from daemons.starter.remote_io.home import Home
from daemons.starter.remote_io.order import ServeOrder
from daemons.starter.remote_io.server import Server
from daemons.starter.remote_io.writing import Budget
from daemons.starter.report.line import SharedConnection
from daemons.starter.rest.kept import WORD_BYTES_MAX, hear, packed, say, unpacked
from protocol.files.facts import read_facts
from protocol.network.net import RealNetwork
from protocol.wire.kinds import decode
from protocol.wire.message import replace

STARTER_S: Final = 20.0
"""How long the starter may take to say what is to be served."""
GONE_S: Final = 10.0
"""How long the kernel may take to end a mount whose processes have ended."""
_CREDENTIALS: Final = struct.Struct("3i")


def peer_of(line: socket.socket | trio.socket.SocketType) -> tuple[int, int]:
    """The process at the other end, and its account."""
    pid, uid, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def child_main(birth: Birth) -> int:
    """What the zygote calls in the forked child."""
    name_process("condor_homes")
    born: dict[str, Any] = msgpack.unpackb(birth.payload)
    birth.channel.close()
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(STARTER_S)
    line.connect(born["door"])
    if peer_of(line)[1] != os.geteuid():
        return 1
    say(line, {"here": True})
    word, devices = hear(line)
    if "serve" not in word:  # the starter has ended meanwhile
        return 1
    line.setblocking(False)
    order = decode(ServeOrder, word["serve"])
    settings = replace(StarterSettings.unpack(born["settings"]), log_path=order.log_path)
    trio.run(Serving(order, settings, settings.begin(), line, devices).run)
    return 0


class Serving:
    """All of one job's directories."""

    def __init__(
        self, order: ServeOrder, settings: StarterSettings, log: Log, line: socket.socket, devices: list[int]
    ) -> None:
        self._order, self._settings, self._log = order, settings, log
        self._line, self._devices = trio.socket.from_stdlib_socket(line), devices
        self._servers: list[tuple[Server, HomeDirectory]] = []

    async def run(self) -> None:
        """Serve until the starter is gone, or has heard that all is written."""
        async with trio.open_nursery() as nursery:
            line = SharedConnection(nursery, self._settings.client_security(), RealNetwork())
            home = Home(self._order, line, self._log)
            nursery.start_soon(self._serve, home, nursery)
            while packet := await self._heard():
                if "settle" in unpacked(packet):
                    nursery.start_soon(self._settle)
            nursery.cancel_scope.cancel()

    async def _heard(self) -> bytes:
        try:
            return await self._line.recv(WORD_BYTES_MAX)
        except OSError:
            return b""

    async def _say(self, word: dict[str, Any]) -> None:
        try:
            await self._line.send(packed(word))
        except OSError:  # nobody hears it any more, and `run` knows that
            pass

    async def _serve(self, home: Home, nursery: trio.Nursery) -> None:
        number, reason = await self._lacking(home)
        await self._say({"lacks": [number, reason]})
        if reason:
            return
        order, half = self._order, self._order.cache_bytes // 2
        budget, ids = Budget(half), (order.uid, order.gid)
        for number, device in enumerate(self._devices):
            server = Server(device, self._log)
            directory = HomeDirectory(number, home, ids, nursery, half, budget, server.changed)
            self._servers.append((server, directory))
            nursery.start_soon(partial(server.run, directory.operations, directory.at_once, directory.forget))
        for server, _ in self._servers:
            await server.begun.wait()
        await self._say({"begun": True})

    async def _lacking(self, home: Home) -> tuple[int, int]:
        """The first directory that is not there, and why."""
        for number, _ in enumerate(self._order.paths):
            try:
                done = await home.ask(number, "stat")
                await home.ask(number, "access", numbers=(os.X_OK,))
            except OSError as error:
                return number, error.errno or 5
            if not stat.S_ISDIR(read_facts(done.data).mode):
                return number, 20
        return 0, 0

    async def _settle(self) -> None:
        number = 0
        with trio.move_on_after(GONE_S):
            for server, _ in self._servers:
                if server.begun.is_set():
                    await server.ended.wait()
        for _, directory in self._servers:
            number = await directory.settle() or number
        await self._say({"settled": number})
