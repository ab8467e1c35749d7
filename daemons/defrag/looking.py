"""Asks the collector for the pool's partitionable slots."""

from __future__ import annotations

from daemons.base.pace import Pace
from daemons.daemon_core.locate import collector_addresses
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from pool.defrag.policy import DefragPolicy
from pool.defrag.survey import ASKED_FOR, Survey
from protocol.messages.collector import QueryAds
from protocol.rpc import endpoints
from protocol.wire.address import Address


async def survey(start: DaemonStart, policy: DefragPolicy) -> Survey:
    """What there is now, of the first collector that answers; PoolError when none does."""
    refused: PoolError | None = None
    for address in collector_addresses(start.config):
        try:
            return await _survey(start, policy, address)
        except PoolError as error:
            refused = refused or error
    assert refused is not None
    raise refused


async def _survey(start: DaemonStart, policy: DefragPolicy, address: Address) -> Survey:
    found, pace, now = Survey(), Pace(), start.world.wall()
    async with endpoints.connected(address, security=start.security, network=start.world.network) as peer:
        # Whole ads: an expression of the policy may lead through any attribute of a slot to any other.
        async with peer.stream(QueryAds(ad_type="Machine", constraint=ASKED_FOR)) as batches:
            async for batch in batches:
                for ad in batch.ads:
                    found.add(ad, policy, now)
                    await pace.breathe()
    return found
