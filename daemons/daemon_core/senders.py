"""Whose ads a peer may give: a host of the pool its own, its central manager and who runs the pool any."""

from __future__ import annotations

from typing import Final

from pool.hosts.daemon_names import Texts, belongs
from protocol.rpc.endpoints import Peer
from protocol.security import needs
from protocol.wire.address import Address

ADDRESSES: Final = (
    "MyAddress", "StartdIpAddr", "ScheddIpAddr", "MasterIpAddr", "CollectorIpAddr", "NegotiatorIpAddr",
)  # fmt: skip


def bound_to(peer: Peer) -> str:
    """The host of which alone the peer may speak; "" for one that may speak of any."""
    # Only a host's certificate names a host; tokens and accounts of this machine name people.
    return peer.host_name if peer.method == "SSL" and needs.CENTRAL not in peer.duties else ""


def may_give(peer: Peer, ad: Texts) -> bool:
    """Whether the ad is one of the peer's own, or the peer may give any."""
    host = bound_to(peer)
    return not host or (belongs(ad, host) and _leads_to(ad, host))


def _leads_to(ad: Texts, host: str) -> bool:
    """Whether the ad's addresses name the host: clients check the server's certificate by it."""
    texts = (ad.eval_str(name, "") for name in ADDRESSES)
    return all(Address.parse(text).server_name.casefold() == host.casefold() for text in texts if text)
