"""What every daemon answers: who is there, its own ad, and an administrator's orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.version import VERSION
from protocol.authorize import Level
from protocol.message import DONE, Done
from protocol.messages.common import AdReply, GetAd, Ping, Pong, Reconfigure, SetLogLevel, Stop
from protocol.rpc import Peer

if TYPE_CHECKING:
    from daemons.run import DaemonStart


class CommonServices:
    """Handlers of the common requests, put on the daemon's service at its start."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        service = start.service
        service.on(Ping, self.ping, level=Level.READ)
        service.on(GetAd, self.get_ad, level=Level.READ)
        service.on(Reconfigure, self.reconfigure, level=Level.ADMINISTRATOR)
        service.on(Stop, self.stop, level=Level.ADMINISTRATOR)
        service.on(SetLogLevel, self.set_log_level, level=Level.ADMINISTRATOR)

    async def ping(self, peer: Peer, request: Ping) -> Pong:
        """Say who the caller is to us."""
        return Pong(
            daemon=self._start.name,
            version=VERSION,
            identity=peer.identity,
            method=peer.method,
            levels=[level.value for level in Level if peer.allows(level)],
        )

    async def get_ad(self, peer: Peer, request: GetAd) -> AdReply:
        """The daemon's ad as it is now."""
        return AdReply(ad=self._start.own_ad())

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
