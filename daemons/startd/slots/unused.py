"""Ends the daemons of a host that nobody has claimed for STARTD_NOCLAIM_SHUTDOWN seconds, as borrowed hosts want it."""

from __future__ import annotations

import trio

from daemons.daemon_core.locate import socket_of
from daemons.daemon_core.run import EXIT_FOR_GOOD, DaemonStart
from daemons.startd.slots.slot import Slots
from pool.base.errors import PoolError
from protocol.messages.common import Stop, StopHow
from protocol.rpc import endpoints
from protocol.wire.address import Address


async def end_when_unused(start: DaemonStart, slots: Slots, polling_s: float) -> None:
    """Watch for claims; without any for too long, have the master stop all of the host's daemons, this one included."""
    used_at = trio.current_time()
    while True:
        await trio.sleep(polling_s)
        limit_s = start.config.seconds("STARTD_NOCLAIM_SHUTDOWN")
        if any(slot.claim is not None for slot in slots):
            used_at = trio.current_time()
        elif limit_s and trio.current_time() - used_at > limit_s:
            start.log.always(f"No slot was claimed for {limit_s:.0f} seconds; this host leaves the pool.")
            await _stop_all(start)
            return


async def _stop_all(start: DaemonStart) -> None:
    address = Address.unix(str(socket_of(start.config, "master")))
    try:
        async with endpoints.connected(address, network=start.world.network, security=start.security) as master:
            await master.call(Stop(how=StopHow.GRACEFUL))
    except PoolError as error:
        start.log.always(f"The master cannot be told; only the startd ends: {error}")
        start.exit_status = EXIT_FOR_GOOD
        start.stop(StopHow.GRACEFUL)
