"""The key that a token of the pool's CA names, and that its holder signs with (Ed25519).

The module is imported when such a token is made, shown or checked: `cryptography` costs a tool some 15 ms.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def new() -> tuple[bytes, bytes]:
    """A new key: its public half, and its private one."""
    key = Ed25519PrivateKey.generate()
    return key.public_key().public_bytes_raw(), key.private_bytes_raw()


def sign(private: bytes, data: bytes) -> bytes:
    """The holder's signature; ValueError when that is no key."""
    return Ed25519PrivateKey.from_private_bytes(private).sign(data)


def holds(public: bytes, data: bytes, signature: bytes) -> bool:
    """Whether the holder of this key signed the data."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
