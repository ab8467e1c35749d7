"""Proof that a token is held, without showing what would make somebody else its holder.

What goes over the wire is what the token states. That its sender holds it is proven over a `Transcript` of this one
handshake: the pool, the daemon asked for, a nonce of either side, and the channel (`Link.binding`: over TLS the
server's certificate, so that a server which passes the proof on to another must show that other's certificate).

    HS256   The secret is the token's signature, which only its holder and who has the signing key know. Each side
            proves it to the other by an HMAC, as in AKEP2, which HTCondor's IDTOKENS use.
    ES256   The statement goes with the signature of the pool's CA, and names a public key of the holder (`cnf` of
            RFC 7800); the holder signs with the private key, which is the fourth part of the token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, Final

from protocol.security import idtoken
from protocol.security.identity import Greeting
from protocol.security.idtoken import CA_KEY, BadToken, IdToken
from protocol.wire.message import Record

NONCE_BYTES: Final = 32
NOT_PROVEN: Final = "the token's signature does not hold, or it was proven for another connection"
_LABEL: Final = b"minipool proof of possession 1"


class Transcript(Record):
    """What one handshake is about; both sides know it."""

    trust_domain: str
    greeting: Greeting
    binding: bytes

    def said_by(self, side: str, nonce: bytes, statement: str) -> bytes:
        """The bytes that one side proves its secret over, with the client's nonce."""
        texts = (side, self.trust_domain, self.greeting.wanted, self.greeting.name, statement)
        parts = [_LABEL, self.binding, self.greeting.nonce, nonce, *(text.encode("utf-8", "replace") for text in texts)]
        # Each with its length: two different transcripts can never be the same bytes.
        return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


class ShownProof(Record):
    """What a client sends, and what the server must answer; nothing for a token that any host can check."""

    proof: Mapping[str, Any]
    answer: bytes = b""


def prove(token: str, handshake: Transcript) -> ShownProof:
    """Show what the token states, and that this side holds it; BadToken when it has no key to prove that with."""
    parts = idtoken.take_apart(token)
    if parts.key_id != CA_KEY:
        return prove_secret(parts.signature, parts.signed, handshake)
    if not parts.holder_key:
        raise BadToken("the token has no key of its holder")
    from protocol.security import holder_key

    nonce = os.urandom(NONCE_BYTES)
    statement = f"{parts.signed}.{idtoken.b64(parts.signature)}"
    try:
        signature = holder_key.sign(parts.holder_key, handshake.said_by("client", nonce, statement))
    except ValueError:
        raise BadToken("the key of the token's holder is malformed") from None
    return ShownProof(proof={"token": statement, "nonce": nonce, "proof": signature})


def prove_secret(secret: bytes, statement: str, handshake: Transcript) -> ShownProof:
    """Show the statement, and that this side knows the secret that goes with it; the server is to show that, too."""
    nonce = os.urandom(NONCE_BYTES)
    client, server = (_mac(secret, handshake, side, nonce, statement) for side in ("client", "server"))
    return ShownProof(proof={"token": statement, "nonce": nonce, "proof": client}, answer=server)


def check_secret(secret: bytes, shown: Mapping[str, Any], handshake: Transcript) -> bytes:
    """What to answer to who knows the secret; BadToken when it was not proven."""
    statement, nonce, proof = _read(shown)
    # In constant time, and with the side's name in it: the server's own proof cannot be sent back as the client's.
    if not hmac.compare_digest(proof, _mac(secret, handshake, "client", nonce, statement)):
        raise BadToken(NOT_PROVEN)
    return _mac(secret, handshake, "server", nonce, statement)


def check(
    shown: Mapping[str, Any], handshake: Transcript, keys: Mapping[str, bytes], *, now: float, ca: str = ""
) -> tuple[IdToken, bytes]:
    """What the token states when the proof, its issuer and its times hold, and what to answer; BadToken says why not.

    `keys` are this pool's signing keys, `ca` is the certificate (PEM) of its CA.
    """
    from protocol.security import signed_token

    statement, nonce, proof = _read(shown)
    parts, answer = idtoken.take_apart(statement), b""
    if parts.key_id == CA_KEY:
        from protocol.security import holder_key

        signed_token.check_ca_signature(parts, ca)
        said = handshake.said_by("client", nonce, statement)
        if not holder_key.holds(idtoken.holder_key_of(parts), said, proof):
            raise BadToken(NOT_PROVEN)
    else:
        answer = check_secret(signed_token.signature_by(parts, keys), shown, handshake)
    return idtoken.read(parts, issuer=handshake.trust_domain, now=now), answer


def _read(shown: Mapping[str, Any]) -> tuple[str, bytes, bytes]:
    statement, nonce, proof = shown.get("token"), shown.get("nonce"), shown.get("proof")
    if not isinstance(statement, str) or not isinstance(nonce, bytes) or not isinstance(proof, bytes):
        raise BadToken("a token without proof that its sender holds it")
    return statement, nonce, proof


def _mac(secret: bytes, handshake: Transcript, side: str, nonce: bytes, statement: str) -> bytes:
    return hmac.digest(secret, handshake.said_by(side, nonce, statement), hashlib.sha256)
