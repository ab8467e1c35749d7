"""Who looks after the connections that this process has opened: one task of the event loop for all of them.

A schedd has one to each startd, so a task with a timer for each would cost more than what is said on them.
"""

from __future__ import annotations

import trio

from protocol.rpc.peer import Peer
from protocol.rpc.silence import SILENCE_S
from protocol.security.credentials import Security


def keep(peer: Peer, security: Security) -> None:
    """Look at this connection now and then until it is closed: whether it is silent, or its other side revoked."""
    pause_s = (peer.silence_s or SILENCE_S) / 6
    keepers = _keepers()
    keeper = keepers.get(pause_s)
    if keeper is None:
        keeper = keepers[pause_s] = _Keeper(pause_s)
        trio.lowlevel.spawn_system_task(keeper.run, keepers, name="connections opened here")
    keeper.add(peer, security)


class _Keeper:
    """The connections that are looked at equally often."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._peers: dict[Peer, Security] = {}

    def add(self, peer: Peer, security: Security) -> None:
        self._peers[peer] = security
        peer.on_close(self._drop)

    def _drop(self, peer: Peer) -> None:
        self._peers.pop(peer, None)

    async def run(self, keepers: dict[float, _Keeper]) -> None:
        while self._peers:
            await trio.sleep(self._pause_s)
            now = trio.current_time()
            for peer in list(self._peers):
                peer.look(now)
            for security in dict.fromkeys(self._peers.values()):
                security.heed_revocations()
        del keepers[self._pause_s]


_of_loop: trio.lowlevel.RunVar[dict[float, _Keeper]] = trio.lowlevel.RunVar("keepers of connections")


def _keepers() -> dict[float, _Keeper]:
    try:
        return _of_loop.get()
    except LookupError:
        keepers: dict[float, _Keeper] = {}
        _of_loop.set(keepers)
        return keepers
