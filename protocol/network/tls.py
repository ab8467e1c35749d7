"""TLS over a trio stream: the handshakes of `tls_context`'s rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from pool.base.errors import PeerError
from protocol.network.channel import Channel
from protocol.security.identity import Certificate, Link
from protocol.security.other_pools import OtherPools
from protocol.security.tls_context import check_server, reason, server_link
from protocol.security.x509 import read_certificate
from protocol.wire.address import Address
from protocol.wire.message import replace

if TYPE_CHECKING:
    from protocol.security.credentials import Security


async def connect(stream: trio.SocketStream, security: Security, address: Address) -> Channel:
    """Shake hands as a client."""
    context = security.tls_client()
    # `https_compatible`: a peer that closes without a farewell of TLS is none the worse, for the protocol has its own.
    secured = trio.SSLStream(stream, context, server_hostname=address.server_name, https_compatible=True)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        raise PeerError(f"no TLS with {address}: {reason(error)}") from None
    certificate = check_server(_certificate(secured, context.others), address, security)
    return Channel(secured, server_link(address, security, certificate, secured.getpeercert(binary_form=True)))


async def accept(stream: trio.SocketStream, security: Security, link: Link) -> Channel:
    """Shake hands as a server; `link` is what the socket told."""
    context = security.tls_server()
    secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        raise PeerError(f"no TLS with the client: {reason(error)}") from None
    certificate = _certificate(secured, context.others)
    if certificate is not None:
        certificate = replace(certificate, der=secured.getpeercert(binary_form=True))
    return Channel(secured, replace(link, certificate=certificate, verified=True, binding=context.binding))


def _certificate(stream: trio.SSLStream[trio.SocketStream], others: OtherPools) -> Certificate | None:
    peer = stream.getpeercert()
    return others.placed(read_certificate(peer), stream.getpeercert(binary_form=True)) if peer else None
