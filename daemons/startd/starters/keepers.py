"""The startd's side of keepers: the line to one (`daemons/starter/rest/keeper.py` has the words), and the free ones.

A keeper whose starter has ended well waits for the next one on a machine in use, so that jobs that are over soon do not
pay for what only jobs that last have.
"""

from __future__ import annotations

import array
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgpack
import trio

from daemons.base.sync import first_of
from daemons.daemon_core.world import ChildProcess
from daemons.starter.rest.kept import WORD_BYTES_MAX, Used, unpacked
from pool.classad import ClassAd, Expr
from protocol.messages.starter import JobInfo
from protocol.network.unix_stream import UnixStream
from protocol.wire import codec

FREE_MAX: Final = 16
"""How many keepers without a starter are kept; each has more than a megabyte."""


class KeeperLine:
    """One keeper's; it speaks while its starter rests, and when that has ended."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = trio.socket.from_stdlib_socket(ours)
        self.free = trio.Event()
        """Its starter has ended, and it can have another."""

    async def hear(
        self, wake: Callable[[str], None], told: Callable[[JobInfo], None], metric: Callable[[], Expr | None]
    ) -> None:
        """Until it is free or gone: `wake` takes why a starter is wanted, `told` what the job uses.

        `metric` is MemoryUsage.
        """
        try:
            while packet := await self._socket.recv(WORD_BYTES_MAX):
                word = unpacked(packet)
                if "free" in word:
                    self.free.set()
                    return
                if "wake" in word:
                    wake(word["wake"])
                else:
                    told(_info(word["activation"], Used(*word["used"]), metric(), codec.unpack(word["extra"])))
        except (OSError, trio.ClosedResourceError):
            pass

    async def call(self) -> UnixStream:
        """The channel to a starter that it is to fork now; OSError when it is gone."""
        ours, theirs = socket.socketpair()
        try:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))
            await self._socket.sendmsg([msgpack.packb({"wake": True})], [rights])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return UnixStream(ours)

    def close(self) -> None:
        """It is gone."""
        self._socket.close()


@dataclass(eq=False)
class KeptStarter:
    """A starter's process: that of its keeper, which may outlive it."""

    keeper: ChildProcess
    channel: trio.abc.Stream
    line: KeeperLine
    born_with: bytes

    @property
    def pid(self) -> int:
        """As everybody knows the starter."""
        return self.keeper.pid

    async def wait(self) -> int | None:
        """The status of its end; None when nobody could learn it."""
        statuses: list[int | None] = []

        async def gone() -> None:
            statuses.append(await self.keeper.wait())

        await first_of(gone, self.line.free)
        return statuses[0] if statuses else 0

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Both."""
        self.keeper.kill(signum)


class FreeKeepers:
    """Those that wait for another starter to be wanted."""

    def __init__(self) -> None:
        self._free: list[KeptStarter] = []

    def add(self, starter: KeptStarter) -> None:
        """Its starter has ended, and nothing of it is left."""
        self._free.append(starter)
        if len(self._free) > FREE_MAX:
            self._free.pop(0).line.close()

    async def starter(self, born_with: bytes) -> KeptStarter | None:
        """One that begins now, of a keeper that was born with this; None where there is none."""
        for one in reversed([one for one in self._free if one.born_with == born_with]):
            self._free.remove(one)
            one.line.free = trio.Event()
            try:
                return KeptStarter(one.keeper, await one.line.call(), one.line, born_with)
            except OSError:  # it was killed
                one.line.close()
        return None

    def let_go(self) -> None:
        """They are not wanted any more, and end."""
        for one in self._free:
            one.line.close()
        self._free.clear()


def _info(activation: str, used: Used, metric: Expr | None, extra: ClassAd) -> JobInfo:
    """As the starter would have told it."""
    ad = replace(used.usage(), memory_metric=metric).ad()
    ad.update(extra)
    return JobInfo(activation=activation, ad=ad, sandbox_kib=-(-used.disk_now // 1024))
