"""TLS 1.3 between the hosts of a pool, with the pool's own CA.

Every client checks that the server's certificate is the CA's, and that it was made for the name connected to; only then
does it show a token. A server asks for a certificate and does without: hosts show theirs, users have none.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

from pool.base.errors import PeerError
from protocol.security.identity import Certificate, Link
from protocol.security.other_pools import ANY, POOLS_DIRECTORY, OtherPools, read_others
from protocol.security.x509 import is_for
from protocol.wire.address import Address

if TYPE_CHECKING:
    from protocol.security.credentials import Security


NO_OTHERS = OtherPools({})


class TrustingContext(ssl.SSLContext):
    """A context, and the other pools whose certificates it lets pass."""

    others: OtherPools = NO_OTHERS


class ServerContext(TrustingContext):
    """A context for accepting, and the binding of the channels that it makes."""

    binding: bytes = b""


def binding(certificate: bytes | None) -> bytes:
    """What both ends of a TLS channel know of it: the server's certificate (DER), as in RFC 5929, tls-server-end-point.

    TLS has made sure that the server has its key, so no other server can have a channel of the same binding.
    """
    import hashlib

    return b"tls-server-end-point:" + hashlib.sha256(certificate or b"").digest()


def client_context(security: Security) -> TrustingContext:
    """For connecting: the server must show the CA's certificate; ours is shown when this process has one to show."""
    context = TrustingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # `check_server` does, with the names that a pool uses
    context.verify_mode = ssl.CERT_REQUIRED
    _trust(context, security)
    if security.shows_certificate:
        context.load_cert_chain(*security.host_certificate_files)
    return context


def server_context(security: Security) -> ServerContext:
    """For accepting: a client may show the CA's certificate, and authenticates otherwise when it does not."""
    if not security.has_host_certificate:
        raise PeerError("this process can read no host certificate, so it cannot accept TLS connections")
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # connections are kept, so nothing is ever resumed
    _trust(context, security)
    context.load_cert_chain(*security.host_certificate_files)
    with open(security.host_certificate_files[0], encoding="ascii") as file:
        context.binding = binding(ssl.PEM_cert_to_DER_cert(_first(file.read())))
    return context


def _first(pem: str) -> str:
    """The first certificate of a file: the host's own."""
    end = "-----END CERTIFICATE-----"
    return pem[pem.index("-----BEGIN CERTIFICATE-----") :].partition(end)[0] + end


def _trust(context: TrustingContext, security: Security) -> None:
    own = security.ca_pem()
    settings = security.settings
    directories = [os.path.join(settings.keys, POOLS_DIRECTORY)] if settings.keys else []
    context.others = read_others([*directories, *settings.pool_directories], own=security.trust_domain, own_pem=own)
    try:
        context.load_verify_locations(cadata="\n".join([own, *context.others.pems.values()]))
    except ssl.SSLError as error:
        raise PeerError(f"the pool CA's certificate cannot be read: {error.reason or error}") from None


def check_server(certificate: Certificate | None, address: Address, security: Security) -> Certificate:
    """The server's certificate, when it is for the name that was connected to, and was not revoked."""
    if certificate is None or not certificate.host:
        raise PeerError(f"{address} shows no certificate")
    if not is_for(certificate, address.server_name):
        raise PeerError(
            f"the certificate of {address} is for {', '.join(certificate.names)}", expected=repr(address.server_name)
        )
    if address.pool not in (ANY, certificate.pool):
        of = certificate.pool or "this pool"
        raise PeerError(f"the certificate of {address} is of {of}", expected=address.pool or "this pool's")
    security.revoked.check(certificate)
    return certificate


def server_link(address: Address, security: Security, certificate: Certificate, der: bytes | None) -> Link:
    """What a client knows of the channel to a server whose certificate it has checked; `der` is the whole of that."""
    return Link(
        kind="tls",
        label=str(address),
        certificate=certificate,
        host=address.host,
        verified=True,
        shown=security.shows_certificate,
        binding=binding(der),
    )


def reason(error: BaseException) -> str:
    """Why a handshake failed, in the words of OpenSSL where it has some."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate does not hold: {cause.verify_message}"
        if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return "the connection was cut"
        if isinstance(cause, ssl.SSLError):
            return (cause.reason or str(cause)).lower().replace("_", " ")
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return "the connection was cut"
