"""Whose a claim is, and where its starter calls back: an access point of another pool names places of its pool only."""

from __future__ import annotations

from protocol.messages.startd import ActivateClaim, RequestClaim
from protocol.rpc.endpoints import Peer
from protocol.wire.address import of_pool
from protocol.wire.message import replace


def claim_of_caller(peer: Peer, asked: RequestClaim) -> RequestClaim:
    """What is asked, with the addresses that its starter is to call as ones of the caller's pool."""
    early = asked.early
    if early is not None:
        early = replace(early, agent_address=of_pool(early.agent_address, peer.pool))
    return replace(asked, shadow_address=of_pool(asked.shadow_address, peer.pool), early=early)


def job_of_caller(peer: Peer, asked: ActivateClaim) -> ActivateClaim:
    """The same of a job, which has the address of its files as well."""
    return replace(
        asked,
        shadow_address=of_pool(asked.shadow_address, peer.pool),
        agent_address=of_pool(asked.agent_address, peer.pool),
    )
