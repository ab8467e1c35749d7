"""What every daemon answers: who is there, its own ad, and an administrator's orders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pool.base.errors import UserError
from pool.base.version import CONDOR_VERSION
from protocol.messages.common import AdReply, FetchLog, GetAd, LogPart, Ping, Pong, Reconfigure, SetLogLevel, Stop
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, SendItem, answer
from protocol.security.authorize import Level
from protocol.wire.message import DONE, Done

if TYPE_CHECKING:
    from daemons.daemon_core.run import DaemonStart
    from pool.config import Config

LOG_PART_BYTES: Final = 256 * 1024
HISTORIES: Final = ("STARTD_HISTORY", "NEGOTIATOR_MATCH_LOG")


class CommonServices:
    """The common requests of one daemon."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start

    def answers(self) -> list[Answer]:
        """What anybody asks, and an administrator orders."""
        return [
            answer(Ping, self.ping),
            answer(GetAd, self.get_ad),
            answer(Reconfigure, self.reconfigure),
            answer(Stop, self.stop),
            answer(SetLogLevel, self.set_log_level),
            answer(FetchLog, self.fetch_log),
        ]

    async def ping(self, peer: Peer, request: Ping) -> Pong:
        """Say who the caller is to us."""
        return Pong(
            daemon=self._start.name,
            version=CONDOR_VERSION,
            identity=peer.identity,
            method=peer.method,
            levels=[level.value for level in Level if peer.allows(level)],
        )

    async def get_ad(self, peer: Peer, request: GetAd) -> AdReply:
        """The daemon's ad as it is now."""
        ad = self._start.own_ad()
        return AdReply(ad=ad.project(request.projection) if request.projection else ad)

    async def reconfigure(self, peer: Peer, request: Reconfigure) -> Done:
        """Read the configuration again; an error in it goes to the caller, and the old one stays."""
        self._start.reconfigure()
        return DONE

    async def stop(self, peer: Peer, request: Stop) -> Done:
        """Begin to end."""
        self._start.stop(request.how)
        return DONE

    async def set_log_level(self, peer: Peer, request: SetLogLevel) -> Done:
        """Choose the categories of the log, until the next reconfiguration."""
        self._start.log.set_level(request.level)
        self._start.log.capture_logging()
        return DONE

    async def fetch_log(self, peer: Peer, request: FetchLog, send: SendItem[LogPart]) -> None:
        """Send a log of this host, as long as it is when its end is reached."""
        path, run = log_path(self._start.config, request.name), self._start.world.threads.run_sync
        try:
            # Logs may be on a file system that hangs; O_NONBLOCK is for one that was replaced by a pipe.
            fd = await run(os.open, path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from None
        try:
            while data := await run(os.read, fd, LOG_PART_BYTES):
                await send(LogPart(data=data))
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from None
        finally:
            os.close(fd)


def log_path(config: Config, name: str) -> str:
    """The file that `SUBSYSTEM[.EXTENSION]` means; UserError when it means none."""
    subsystem, dot, extension = name.partition(".")
    if "/" in extension or not subsystem.replace("_", "").isalnum():
        raise UserError(f"{name!r} is not the name of a log")
    knob = subsystem.upper() if subsystem.upper() in HISTORIES else f"{subsystem.upper()}_LOG"
    path = config.str(knob, default="")
    if not path:
        raise UserError(f"{knob} is not set on this host")
    return path + dot + extension
