"""TOKEN: signed statements of who somebody is (JWT), after HTCondor's IDTOKENS.

A token names its subject (`alice@pool`), its issuer (the trust domain), when it was made and when it ends. It may carry
scopes (`condor:/READ`), which only take levels away. With a signing key (HS256), whoever has it can make tokens and
check them; those that the pool's CA signed (ES256, key `CA`) can be checked by every host of the pool.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from pathlib import Path

from pool.errors import PeerError, UserError
from pool.hints import Any, Final, Iterable, Iterator, Mapping
from protocol.authorize import Level, implied
from protocol.message import Record

SCOPE_PREFIX: Final = "condor:/"
TOKEN_BYTES_MAX: Final = 8192
CLOCK_SKEW_S: Final = 60.0
SIGNING_KEY_BYTES_MIN: Final = 32
CA_KEY: Final = "CA"


class BadToken(PeerError):
    """A token that does not prove what it says."""


class Token(Record):
    """What a token states, once its signature holds."""

    subject: str
    issuer: str
    issued_at: float
    expires_at: float | None
    scopes: tuple[str, ...]
    key_id: str
    id: str
    duty: str = ""
    claims: Mapping[str, Any] = {}  # everything it states

    def limit(self, levels: frozenset[Level]) -> frozenset[Level]:
        """The levels that the scopes leave."""
        scoped = [scope.removeprefix(SCOPE_PREFIX) for scope in self.scopes if scope.startswith(SCOPE_PREFIX)]
        if not scoped:
            return levels
        return levels & implied(Level(name) for name in scoped if name in Level.__members__)


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
    claims: dict[str, Any] = {"sub": subject, "iss": issuer, "iat": int(now), "jti": id}
    if lifetime_s is not None and lifetime_s >= 0:
        claims["exp"] = int(now + lifetime_s)
    whole = [scope if ":" in scope else f"{SCOPE_PREFIX}{scope.upper()}" for scope in scopes]
    if whole:
        claims["scope"] = " ".join(whole)
    if duty:
        claims |= {"duty": duty, "uses": uses, **({"host": host} if host else {})}
    algorithm = "ES256" if key_id == CA_KEY else "HS256"
    signed = f"{_encode({'alg': algorithm, 'kid': key_id, 'typ': 'JWT'})}.{_encode(claims)}"
    return f"{signed}.{_b64(_sign_as_ca(key, signed) if key_id == CA_KEY else _sign(key, signed))}"


def verify_token(text: str, keys: Mapping[str, bytes], *, issuer: str, now: float, ca: str = "") -> Token:
    """The token's statement when its signature, issuer and times hold; BadToken says which does not.

    `ca` is the certificate (PEM) of the pool's CA.
    """
    header, claims, signed, signature = _take_apart(text)
    _check_signature(header, signed, signature, keys, ca)
    token = _token(header, claims)
    if token.issuer != issuer:
        raise BadToken(f"the token was issued by {token.issuer[:80]!r}", expected=repr(issuer))
    if token.expires_at is not None and now >= token.expires_at:
        raise BadToken(f"the token expired {now - token.expires_at:.0f} s ago")
    if token.issued_at > now + CLOCK_SKEW_S:
        raise BadToken(f"the token was issued {token.issued_at - now:.0f} s in the future")
    return token


def _check_signature(
    header: Mapping[str, Any], signed: str, signature: bytes, keys: Mapping[str, bytes], ca: str
) -> None:
    """The key's name decides how it signs, so that no public key can pass for a secret one."""
    algorithm, name = header.get("alg"), str(header.get("kid", "POOL"))
    expected = "ES256" if name == CA_KEY else "HS256"
    if algorithm != expected:
        raise BadToken(f"the token is signed with {str(algorithm)[:20]!r}", expected=expected)
    if name == CA_KEY:
        from protocol.auth import signature as ca_signature

        good = bool(ca) and ca_signature.holds(ca, signed.encode("ascii", "replace"), signature)
    else:
        key = keys.get(name)
        if key is None:
            raise BadToken(f"no signing key {name[:40]!r} here")
        good = hmac.compare_digest(signature, _sign(key, signed))
    if not good:
        raise BadToken("the token's signature does not hold")


def _sign_as_ca(key: bytes, signed: str) -> bytes:
    from protocol.auth import signature as ca_signature

    return ca_signature.sign(key, signed.encode("ascii", "replace"))


def read_token(text: str) -> Token:
    """What a token states, its signature unchecked: for its holder."""
    header, claims, _, _ = _take_apart(text)
    return _token(header, claims)


def held_tokens(directories: Iterable[str]) -> Iterator[str]:
    """The tokens of these directories' files, by file name; files that cannot be read are passed over."""
    for directory in directories:
        try:
            files = sorted(path for path in Path(directory).iterdir() if not path.name.startswith("."))
        except OSError:
            continue
        for path in files:
            try:
                lines = path.read_text("ascii", "replace").splitlines()
            except OSError:
                continue
            yield from (line.strip() for line in lines if line.strip() and not line.startswith("#"))


def is_user(subject: object) -> bool:
    """Whether a token may state this: `user@domain`. What has a slash is a host, and proves itself by certificate."""
    return isinstance(subject, str) and "@" in subject and "/" not in subject


def read_signing_key(path: str) -> bytes:
    """The bytes of a signing key file."""
    return Path(path).read_bytes()


def _token(header: Mapping[str, Any], claims: Mapping[str, Any]) -> Token:
    subject, issuer = claims.get("sub"), claims.get("iss")
    issued, expires = claims.get("iat", 0), claims.get("exp")
    scope, duty, identifier = claims.get("scope", ""), claims.get("duty", ""), claims.get("jti", "")
    texts_are_texts = all(isinstance(text, str) for text in (subject, issuer, scope, duty, identifier))
    times_are_times = all(isinstance(t, int | float) and not isinstance(t, bool) for t in (issued, expires or 0))
    if not texts_are_texts or not times_are_times or not is_user(subject):
        raise BadToken("the token's statements are malformed")
    return Token(
        subject=str(subject),
        issuer=str(issuer),
        issued_at=float(issued),
        expires_at=None if expires is None else float(expires),
        scopes=tuple(str(scope).split()),
        key_id=str(header.get("kid", "POOL")),
        id=str(identifier),
        duty=str(duty),
        claims=claims,
    )


def _take_apart(text: str) -> tuple[dict[str, Any], dict[str, Any], str, bytes]:
    parts = text.split(".")
    if len(text) > TOKEN_BYTES_MAX or len(parts) != 3:
        raise BadToken("not a token", expected="three parts with dots between them")
    try:
        header, claims, signature = json.loads(_unb64(parts[0])), json.loads(_unb64(parts[1])), _unb64(parts[2])
    except (ValueError, Base64Error, RecursionError):
        raise BadToken("not a token", expected="base64url and JSON") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise BadToken("not a token", expected="JSON objects")
    return header, claims, f"{parts[0]}.{parts[1]}", signature


def _sign(key: bytes, signed: str) -> bytes:
    return hmac.new(key, signed.encode("ascii", "replace"), hashlib.sha256).digest()


def _encode(value: Mapping[str, Any]) -> str:
    return _b64(json.dumps(value, separators=(",", ":")).encode())


def _b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
