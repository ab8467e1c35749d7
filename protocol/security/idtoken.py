"""TOKEN: signed statements of who somebody is, after HTCondor's IDTOKENS (manual page admin-manual/security).

A token names its subject (`alice@pool`), its issuer (the trust domain), when it was made and when it ends, as a JSON
Web Token does (RFC 7519). It may carry scopes (`condor:/READ`), which only take levels away. With a signing key
(HS256), whoever has it can make tokens and check them; those that the pool's CA signed (ES256, key `CA`) can be checked
by every host of the pool. The latter name a key of their holder (RFC 7800), whose private half is a fourth part of the
token's text.

This module reads what a token states, which is all that its holder needs. Who makes or checks one needs `signed_token`.
How a token is shown: `possession`.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pool.base.errors import PeerError
from protocol.security.authorize import Level, implied
from protocol.wire.message import Record

SCOPE_PREFIX: Final = "condor:/"
TOKEN_BYTES_MAX: Final = 8192
CLOCK_SKEW_S: Final = 60.0
CA_KEY: Final = "CA"
RENEW: Final = "make a new one with condor_token_create"
TIME_MAX: Final = 253402300800  # the end of the year 9999


class BadToken(PeerError):
    """A token that does not prove what it says."""


class Parts(Record):
    """A token taken apart, nothing of it checked. `holder_key` is private, and never leaves the holder."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: str
    signature: bytes
    holder_key: bytes

    @property
    def key_id(self) -> str:
        """The name of the key that signed it."""
        return str(self.header.get("kid", "POOL"))


class IdToken(Record):
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


def holder_key_of(parts: Parts) -> bytes:
    """The public key of the holder that a token of the CA names; BadToken for one that names none."""
    confirmation = parts.claims.get("cnf")
    jwk = confirmation.get("jwk") if isinstance(confirmation, dict) else None
    try:
        if isinstance(jwk, dict) and jwk.get("crv") == "Ed25519":
            return _unb64(str(jwk.get("x")))
    except ValueError:
        pass
    raise BadToken(f"the token names no key of its holder: {RENEW}")


def read(parts: Parts, *, issuer: str, now: float) -> IdToken:
    """The token's statement when its issuer and times hold; BadToken says which does not."""
    token = _token(parts)
    if token.issuer != issuer:
        raise BadToken(f"the token was issued by {token.issuer[:80]!r}", expected=repr(issuer))
    check_times(token, now)
    if token.issued_at > now + CLOCK_SKEW_S:
        raise BadToken(f"the token was issued {token.issued_at - now:.0f} s in the future")
    return token


def check_times(token: IdToken, now: float) -> None:
    """BadToken when it has expired."""
    if token.expires_at is not None and now >= token.expires_at:
        raise BadToken(f"the token expired {now - token.expires_at:.0f} s ago")


def read_token(text: str) -> IdToken:
    """What a token states, its signature unchecked: for its holder."""
    return _token(take_apart(text))


def lacks_holder_key(text: str) -> bool:
    """Whether this is a token of the CA without its holder's key, as they once were: nothing proves who holds it."""
    parts = take_apart(text)
    return parts.key_id == CA_KEY and not parts.holder_key


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


def _token(parts: Parts) -> IdToken:
    claims = parts.claims
    subject, issuer = claims.get("sub"), claims.get("iss")
    issued, expires = claims.get("iat", 0), claims.get("exp")
    scope, duty, identifier = claims.get("scope", ""), claims.get("duty", ""), claims.get("jti", "")
    texts_are_texts = all(isinstance(text, str) for text in (subject, issuer, scope, duty, identifier))
    times_are_times = all(_is_time(time) for time in (issued, expires or 0))
    if not texts_are_texts or not times_are_times or not is_user(subject):
        raise BadToken("the token's statements are malformed")
    return IdToken(
        subject=str(subject),
        issuer=str(issuer),
        issued_at=float(issued),
        expires_at=None if expires is None else float(expires),
        scopes=tuple(str(scope).split()),
        key_id=parts.key_id,
        id=str(identifier),
        duty=str(duty),
        claims=claims,
    )


def _is_time(value: object) -> bool:
    # True is a number to Python, and NaN is less than nothing.
    return isinstance(value, int | float) and not isinstance(value, bool) and -TIME_MAX < value < TIME_MAX


def take_apart(text: str) -> Parts:
    """The parts of a token, or of what is shown of it; BadToken when it is neither."""
    texts = text.split(".")
    # Two parts where the signature is kept back, three as JWTs have it, four with the holder's key.
    if len(text) > TOKEN_BYTES_MAX or not 2 <= len(texts) <= 4:
        raise BadToken("not a token", expected="three parts with dots between them")
    try:
        header, claims = json.loads(_unb64(texts[0])), json.loads(_unb64(texts[1]))
        signature, holder_key = (_unb64(part) for part in [*texts, "", ""][2:4])
    except (ValueError, Base64Error, RecursionError):
        raise BadToken("not a token", expected="base64url and JSON") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise BadToken("not a token", expected="JSON objects")
    return Parts(
        header=header,
        claims=claims,
        signed=f"{texts[0]}.{texts[1]}",
        signature=signature,
        holder_key=holder_key,
    )


def b64(data: bytes) -> str:
    """base64url without padding, as JWTs have it."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
