"""Where startds are now, by what the collector has heard: one that was restarted may have another port, or address."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from daemons.daemon_core.collectors import collector_connected
from daemons.daemon_core.locate import collector_at
from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError, UserError
from pool.classad import ClassAd
from pool.classad.syntax.unparse import quote
from protocol.messages.collector import QueryAds
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.security.other_pools import ANY
from protocol.wire.address import Address
from protocol.wire.message import replace


async def startd_of(start: DaemonStart, slot: ClassAd, pool: str = "") -> str:
    """The address that the startd of this slot, of this pool or another, has given last; empty when none is known."""
    machine, startd = slot.eval_str("Machine"), _startd(slot)
    if not machine or not startd:
        return ""
    query = QueryAds(
        ad_type="Machine",
        constraint=f"Machine == {quote(machine)}",
        projection=["Name", "MyAddress", "LastHeardFrom"],
    )
    newest, found = float("-inf"), ""
    try:
        async with _collector(start, pool) as peer:
            async with peer.stream(query) as batches:
                async for batch in batches:
                    for ad in batch.ads:
                        heard = ad.eval_float("LastHeardFrom", 0.0)
                        if _startd(ad) == startd and heard > newest:
                            newest, found = heard, ad.eval_str("MyAddress", "")
    except PoolError as error:
        start.log.full(f"The collector cannot say where {startd} is: {error}")
    return found


def _collector(start: DaemonStart, pool: str) -> AbstractAsyncContextManager[Peer]:
    """A connection to a collector of the pool."""
    if not pool:
        return collector_connected(start)
    there = replace(collector_at(start.config, pool), pool=ANY)
    return endpoints.connected(there, security=start.security, network=start.world.network)


def is_same_host(one: str, other: str) -> bool:
    """Whether two addresses are of one host: by the name that its certificate is for, or else by the address."""
    try:
        first, second = Address.parse(one), Address.parse(other)
    except UserError:
        return False
    return first.is_unix == second.is_unix and first.server_name == second.server_name


def _startd(slot: ClassAd) -> str:
    """The part of a slot's name that all slots of its startd share."""
    return slot.eval_str("Name", "").partition("@")[2]
