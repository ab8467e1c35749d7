"""Making and checking tokens: JSON Web Tokens (RFC 7519) under a signature (RFC 7515), by PyJWT.

The name of a token's key (`kid`) decides how it is signed, never its header's `alg` (RFC 8725, 3.1): the key `CA` by
ES256 (RFC 7518, 3.4), where the pool's CA certificate is enough to check; every other name by HS256, with that signing
key of the pool (of 32 bytes or more: RFC 7518, 3.2). So no public key can pass for a secret one, and no token comes
without a signature. Header parameters that are critical and not understood make a token void (RFC 7515, 4.1.11).

Who imports this module pays for `cryptography` and for PyJWT: those who make tokens, and servers that are shown one.
Who merely holds a token needs `idtoken` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from pool.base.errors import UserError
from protocol.security import holder_key
from protocol.security.idtoken import CA_KEY, CLOCK_SKEW_S, SCOPE_PREFIX, BadToken, Parts, b64

SIGNING_KEY_BYTES_MIN: Final = 32
LIFETIME_S_MAX: Final = 100 * 365 * 86400.0
NO_SIGNATURE: Final = "the token's signature does not hold"

_CHECKED: Final[Any] = {
    "require": ["sub", "iss"],
    "verify_exp": False,  # `idtoken.check_times` does, now and whenever the connection is judged again
    "verify_iat": False,  # so does `idtoken.read`
    "verify_aud": False,  # a pool's tokens are for all of its daemons
    "enforce_minimum_key_length": True,
}


def create_token(
    key: bytes,
    *,
    subject: str,
    issuer: str,
    now: float,
    id: str,
    lifetime_s: float | None = None,
    scopes: Iterable[str] = (),
    key_id: str = "POOL",
    duty: str = "",
    host: str = "",
    uses: int = 1,
) -> str:
    """A signed token. `scopes` are levels (READ) or whole scopes (condor:/READ); `duty` makes it one to join with.

    One to join with is for `uses` hosts, or for the host of this name alone.

    The key named `CA` is the CA's private key (PEM); any other is a signing key.
    """
    if len(key) < SIGNING_KEY_BYTES_MIN:
        raise UserError("the signing key is too short", expected=f"{SIGNING_KEY_BYTES_MIN} bytes or more")
    if lifetime_s is not None and not lifetime_s <= LIFETIME_S_MAX:  # also what is no number
        raise UserError(f"a lifetime of {lifetime_s:g} s", expected=f"at most {LIFETIME_S_MAX:g}, or none")
    claims: dict[str, Any] = {"sub": subject, "iss": issuer, "iat": int(now), "jti": id}
    if lifetime_s is not None and lifetime_s >= 0:
        claims["exp"] = int(now + lifetime_s)
    whole = [scope if ":" in scope else f"{SCOPE_PREFIX}{scope.upper()}" for scope in scopes]
    if whole:
        claims["scope"] = " ".join(whole)
    if duty:
        claims |= {"duty": duty, "uses": uses, **({"host": host} if host else {})}
    if key_id != CA_KEY:
        return _signed(claims, key, "HS256", key_id)
    public, private = holder_key.new()
    claims["cnf"] = {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64(public)}}
    return f"{_signed(claims, key, 'ES256', key_id)}.{b64(private)}"


def _signed(claims: dict[str, Any], key: bytes, algorithm: str, key_id: str) -> str:
    try:
        text: str = jwt.encode(claims, key, algorithm=algorithm, headers={"kid": key_id})
    except (jwt.InvalidKeyError, ValueError, TypeError) as error:
        raise UserError(f"the key {key_id!r} cannot sign: {error}", expected=f"a key for {algorithm}") from None
    return text


def check_ca_signature(parts: Parts, ca: str) -> None:
    """Whether the pool's CA (its certificate, PEM) made this; BadToken when not."""
    _expect_algorithm(parts, "ES256")
    try:
        key = x509.load_pem_x509_certificate(ca.encode()).public_key()
    except ValueError:
        raise BadToken(NO_SIGNATURE) from None
    if not isinstance(key, EllipticCurvePublicKey):
        raise BadToken(NO_SIGNATURE)
    _check(f"{parts.signed}.{b64(parts.signature)}", key, "ES256")


def signature_by(parts: Parts, keys: Mapping[str, bytes]) -> bytes:
    """The signature that the named signing key gives these statements, which their holder must know."""
    _expect_algorithm(parts, "HS256")
    key = keys.get(parts.key_id)
    if key is None:
        raise BadToken(f"no signing key {parts.key_id[:40]!r} here")
    by_secret = jwt.get_algorithm_by_name("HS256")
    try:
        signature: bytes = by_secret.sign(parts.signed.encode("ascii", "replace"), by_secret.prepare_key(key))
    except jwt.InvalidKeyError as error:
        raise BadToken(f"the signing key {parts.key_id[:40]!r} is none: {error}") from None
    _check(f"{parts.signed}.{b64(signature)}", key, "HS256")
    return signature


def _expect_algorithm(parts: Parts, expected: str) -> None:
    algorithm = parts.header.get("alg")
    if algorithm != expected:
        raise BadToken(f"the token is signed with {str(algorithm)[:20]!r}", expected=expected)


def _check(text: str, key: bytes | EllipticCurvePublicKey, algorithm: str) -> None:
    """The signature, the header and the form of what is stated."""
    try:
        jwt.decode(text, key, algorithms=[algorithm], options=_CHECKED, leeway=CLOCK_SKEW_S)
    except jwt.InvalidSignatureError:
        raise BadToken(NO_SIGNATURE) from None
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise BadToken(f"the token does not hold: {str(error)[:200]}") from None
