"""Tokens: made, checked exactly, and limited by their scopes."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from pool.base.errors import UserError
from protocol.security import possession
from protocol.security.authorize import ALL_LEVELS, Level
from protocol.security.identity import Greeting
from protocol.security.idtoken import BadToken, IdToken, held_tokens, read_token
from protocol.security.signed_token import create_token

KEY = b"k" * 32
NOW = 1_700_000_000.0


def a_token(**changes: object) -> str:
    values: dict[str, object] = {"subject": "alice@pool.test", "issuer": "pool.test", "now": NOW, "id": "1"}
    return create_token(KEY, **{**values, **changes})  # type: ignore[arg-type]


def check(text: str, *, now: float = NOW, key: bytes = KEY, issuer: str = "pool.test") -> IdToken:
    """What a server learns that is shown this token."""
    handshake = possession.Transcript(trust_domain=issuer, greeting=Greeting(nonce=b"n" * 32), binding=b"here")
    token, _ = possession.check(possession.prove(text, handshake).proof, handshake, {"POOL": key}, now=now)
    return token


def forged(header: object, claims: object, signature: bytes = b"x") -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part(header)}.{part(claims)}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_a_token_says_who_and_until_when() -> None:
    token = check(a_token(lifetime_s=60, scopes=["read", "condor:/WRITE"]))
    assert (token.subject, token.issuer, token.expires_at) == ("alice@pool.test", "pool.test", NOW + 60)
    assert token.scopes == ("condor:/READ", "condor:/WRITE")


def test_a_token_is_the_jwt_that_others_make() -> None:
    header, claims, _ = (json.loads(base64.urlsafe_b64decode(part + "==")) if i < 2 else part
                         for i, part in enumerate(a_token(lifetime_s=5).split(".")))  # fmt: skip
    assert header == {"alg": "HS256", "kid": "POOL", "typ": "JWT"}
    assert claims == {
        "sub": "alice@pool.test",
        "iss": "pool.test",
        "iat": 1_700_000_000,
        "exp": 1_700_000_005,
        "jti": "1",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a token"),
        ("a.b", "not a token"),
        ("a.b.c", "not a token"),
        ("é.b.c", "not a token"),
        ("x" * 10_000, "not a token"),
        (forged([], {}), "JSON objects"),
        (forged({"alg": "none"}, {"sub": "a@b"}), "signed with 'none'"),
        (forged({"alg": "RS256"}, {"sub": "a@b"}), "signed with 'RS256'"),
        (forged({"alg": "HS256", "kid": "OTHER"}, {"sub": "a@b"}), "no signing key 'OTHER'"),
        (forged({"alg": "HS256"}, {"sub": "root@pool.test", "iss": "pool.test"}), "signature does not hold"),
    ],
)
def test_what_is_not_signed_here_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadToken, match=complaint):
        check(text)


def test_a_changed_claim_breaks_the_signature() -> None:
    header, claims, signature = a_token().split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "=="))
    changed["sub"] = "root@pool.test"
    other = base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()
    with pytest.raises(BadToken, match="signature does not hold"):
        check(f"{header}.{other}.{signature}")


def test_another_pools_key_does_not_do() -> None:
    with pytest.raises(BadToken, match="signature does not hold"):
        check(a_token(), key=b"o" * 32)


def test_another_trust_domain_does_not_do() -> None:
    with pytest.raises(BadToken, match=r"issued by 'pool\.test'"):
        check(a_token(), issuer="other.test")


def test_an_expired_token_is_refused() -> None:
    assert check(a_token(lifetime_s=60), now=NOW + 59)
    with pytest.raises(BadToken, match="expired 1 s ago"):
        check(a_token(lifetime_s=60), now=NOW + 61)
    assert check(a_token(), now=NOW + 10**9)  # without lifetime: for ever


@pytest.mark.parametrize("name", ["iat", "exp"])
@pytest.mark.parametrize("time", ["9" * 4000, "-" + "9" * 400, "1e999", "NaN", "-Infinity"])
def test_a_time_that_is_none_makes_no_token(name: str, time: str) -> None:
    claims = json.dumps({"sub": "alice@pool.test", "iss": "pool.test", "iat": 1, "exp": 2, name: 0})
    odd = claims.replace(f'"{name}": 0', f'"{name}": {time}')
    header, _, signature = a_token().split(".")
    body = base64.urlsafe_b64encode(odd.encode()).rstrip(b"=").decode()
    with pytest.raises(BadToken, match="statements are malformed"):
        read_token(f"{header}.{body}.{signature}")


def test_a_token_from_the_future_is_refused() -> None:
    assert check(a_token(), now=NOW - 30)  # clocks differ a little
    with pytest.raises(BadToken, match="in the future"):
        check(a_token(), now=NOW - 3600)


@pytest.mark.parametrize("subject", ["", "alice"])
def test_a_token_names_a_whole_identity(subject: str) -> None:
    with pytest.raises(BadToken, match="malformed"):
        check(a_token(subject=subject))


def test_scopes_only_take_away() -> None:
    assert read_token(a_token()).limit(ALL_LEVELS) == ALL_LEVELS
    assert read_token(a_token(scopes=["READ"])).limit(ALL_LEVELS) == {Level.READ}
    assert read_token(a_token(scopes=["WRITE"])).limit(ALL_LEVELS) == {Level.READ, Level.WRITE}
    assert read_token(a_token(scopes=["WRITE"])).limit(frozenset({Level.READ})) == {Level.READ}
    assert read_token(a_token(scopes=["NO_SUCH"])).limit(ALL_LEVELS) == frozenset()


def test_a_short_key_signs_nothing() -> None:
    with pytest.raises(UserError, match="too short"):
        create_token(b"short", subject="a@b", issuer="b", now=0, id="1")


def test_tokens_are_found_in_their_directories(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("# a comment\n\nsecond\nthird\n")
    (tmp_path / "a").write_text("first\n")
    (tmp_path / ".hidden").write_text("never\n")
    (tmp_path / "directory").mkdir()
    assert list(held_tokens([str(tmp_path / "missing"), str(tmp_path)])) == ["first", "second", "third"]
