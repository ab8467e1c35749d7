"""A host's side of belonging to a pool: it takes up its next certificate, and learns which certificates were revoked.

The host's master stays connected to the central manager's, which says what is new (`registrar`). What has come is on
disk when it is used: all processes of the host look at the files (`credentials`, `revoked`). Without the central
manager the host goes on with what it has; it is told what it missed as soon as it is connected again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from daemons.base.sync import Backoff
from daemons.daemon_core.locate import central_master
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from protocol.messages.master import MemberNews, WatchMembership
from protocol.rpc import endpoints

RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 60.0


async def belong(start: DaemonStart) -> None:
    """Stay in touch with the central manager as long as this process runs."""
    backoff = Backoff(RETRY_FIRST_S, RETRY_MAX_S)
    while True:
        try:
            central = central_master(start.config)
            async with endpoints.connected(central, security=start.security, network=start.world.network) as master:
                backoff.reset()
                await _listen(start, master)
        except (PoolError, OSError) as error:
            start.log.always(f"No news of the pool's hosts: {error}")
            await backoff.wait()


async def _listen(start: DaemonStart, master: endpoints.Peer) -> None:
    """Do what the news ask for; returns when the connection is to be made anew, with another certificate."""
    async with master.stream(WatchMembership()) as news:
        async for item in news:
            await start.world.threads.run_sync(_take, start, item)
            # The connection was made with the old one; a new one proves that the new one works.
            if item.certificate:
                start.log.always("This host's certificate was renewed.")
                return


def _take(start: DaemonStart, news: MemberNews) -> None:
    from protocol.security import keys

    directory = start.config.path("KEYS")
    if news.revoked:
        keys.install_revocation_list(directory, news.revoked.encode("ascii"), Path(start.run_dir, "revoked"))
    if news.certificate:
        ca, key = start.security.own_ca(), keys.host_key(directory)
        keys.install_host_certificate(directory, news.certificate, ca, key=key)
