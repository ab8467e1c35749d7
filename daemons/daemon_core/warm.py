"""What is done once, before the first fork, so that no daemon has to: messages, knobs, a first event loop.

What a process learns in its first moments it writes into its own memory: a copy for each of a dozen processes, and all
around it pages that it shared until then. Learnt before the fork, it is shared by all of them. Nothing here knows a
secret or the host's configuration: a zygote holds no key.
"""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
from functools import cache

import trio

from daemons.base.log import Log
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.source import ConfigSource
from daemons.daemon_core.world import World
from pool.base.errors import PoolError
from pool.config import load_config
from protocol.security.credentials import Security
from protocol.wire.kinds import fields_of
from protocol.wire.message import MESSAGES

SUBSYSTEMS = ("MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD")


@cache
def warm_up() -> None:
    """Do it all, once; nothing is left but what was learnt."""
    for kind in list(MESSAGES.values()):
        fields_of(kind)
    # OpenSSL reads its configuration at the first context, which takes milliseconds.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for subsystem in SUBSYSTEMS:
        with contextlib.suppress(PoolError, OSError):  # the daemon itself will say what is wrong with this host
            _be_born(subsystem)


def _be_born(subsystem: str) -> None:
    """The first steps of a daemon, as far as they need nothing of this host."""
    world = World.real()
    config = load_config([], overrides={"LOCAL_DIR": os.devnull}, environ={}, subsystem=subsystem)
    start = DaemonStart(subsystem.lower(), ConfigSource(), world, log=Log(None), config=config, security=Security())
    start.own_ad().long()
    trio.run(_breathe)


async def _breathe() -> None:
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGHUP):
            nursery.start_soon(trio.sleep, 0)
