"""ES256: signatures of the pool's CA under tokens. Its certificate, which every host has, is enough to check them."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

_HALF = 32  # bytes of each of the two numbers that a signature over P-256 is


def sign(key_pem: bytes, data: bytes) -> bytes:
    """The signature as JWTs carry it: both numbers, one after the other."""
    key = serialization.load_pem_private_key(key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("the CA's key is not an elliptic curve key")
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big")


def holds(ca_pem: str, data: bytes, signature: bytes) -> bool:
    """Whether the CA of this certificate signed the data."""
    if len(signature) != 2 * _HALF:
        return False
    key = x509.load_pem_x509_certificate(ca_pem.encode()).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        return False
    numbers = (int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big"))
    try:
        key.verify(encode_dss_signature(*numbers), data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
