"""The startd's end of the line to a starter's keeper (`daemons/starter/rest/keeper.py` has the words)."""

from __future__ import annotations

import array
import socket
from collections.abc import Callable
from dataclasses import replace

import msgpack
import trio

from daemons.starter.rest.kept import WORD_BYTES_MAX, Used, unpacked
from pool.classad import ClassAd, Expr
from protocol.messages.starter import JobInfo
from protocol.network.unix_stream import UnixStream
from protocol.wire import codec


class KeeperLine:
    """One keeper's; it speaks while its starter rests."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = trio.socket.from_stdlib_socket(ours)

    async def hear(
        self, wake: Callable[[str], None], told: Callable[[JobInfo], None], metric: Callable[[], Expr | None]
    ) -> None:
        """Until it is gone: `wake` takes why a starter is wanted, `told` what the job uses; `metric` is MemoryUsage."""
        try:
            while packet := await self._socket.recv(WORD_BYTES_MAX):
                word = unpacked(packet)
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


def _info(activation: str, used: Used, metric: Expr | None, extra: ClassAd) -> JobInfo:
    """As the starter would have told it."""
    ad = replace(used.usage(), memory_metric=metric).ad()
    ad.update(extra)
    return JobInfo(activation=activation, ad=ad, sandbox_kib=-(-used.disk_now // 1024))
