"""A connection to the pool's collector: of several, to the first that answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from daemons.daemon_core.locate import collector_addresses
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from protocol.rpc import endpoints
from protocol.wire.address import Address


@asynccontextmanager
async def collector_connected(start: DaemonStart) -> AsyncGenerator[endpoints.Peer, None]:
    """For the time of the block: this host's collector, or the first of COLLECTOR_HOST that answers.

    PoolError, of the first that was asked, where none does.
    """
    async with AsyncExitStack() as stack:
        yield await _first(start, stack, collector_addresses(start.config))


async def _first(start: DaemonStart, stack: AsyncExitStack, addresses: list[Address]) -> endpoints.Peer:
    refused: PoolError | None = None
    for address in addresses:
        try:
            return await stack.enter_async_context(
                endpoints.connected(address, security=start.security, network=start.world.network)
            )
        except PoolError as error:
            refused = refused or error
    assert refused is not None
    raise refused
