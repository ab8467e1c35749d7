"""Tokens that the pool's CA signed: every host can check them, and none but the central manager can make them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from protocol import keys
from protocol.auth import holder_key, possession
from protocol.auth.idtoken import BadToken, Token, create_token, take_apart
from protocol.identity import Greeting

NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _new_ca(tmp_path_factory.mktemp("ca"))


def _new_ca(directory: Path) -> Path:
    keys.make_ca(directory, "pool.test")
    return directory


def a_token(ca: Path, **changes: object) -> str:
    values: dict[str, object] = {"subject": "alice@pool.test", "issuer": "pool.test", "now": NOW, "id": "1"}
    return create_token((ca / "ca.key").read_bytes(), **{**values, "key_id": "CA", **changes})  # type: ignore[arg-type]


HANDSHAKE = possession.Transcript(trust_domain="pool.test", greeting=Greeting(nonce=b"n" * 32), binding=b"here")


def check(text: str, ca: Path, **secrets: bytes) -> Token:
    """What a server learns that is shown this text; its fourth part, where it has one, proves that it is held."""
    statement, private = ".".join(text.split(".")[:3]), take_apart(text).holder_key or b"k" * 32
    proof = holder_key.sign(private, HANDSHAKE.said_by("client", b"c", statement))
    shown = {"token": statement, "nonce": b"c", "proof": proof}
    token, _ = possession.check(shown, HANDSHAKE, secrets, now=NOW, ca=(ca / "ca.pem").read_text())
    return token


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_the_certificate_is_enough_to_check_what_the_ca_signed(ca: Path) -> None:
    token = check(a_token(ca, scopes=["READ"]), ca)
    assert (token.subject, token.key_id, token.scopes) == ("alice@pool.test", "CA", ("condor:/READ",))


def test_another_ca_signs_nothing_here(ca: Path, tmp_path: Path) -> None:
    with pytest.raises(BadToken, match="signature does not hold"):
        check(a_token(_new_ca(tmp_path)), ca)


def test_a_changed_statement_does_not_hold(ca: Path) -> None:
    head, _, signature, _ = a_token(ca).split(".")
    claims = part({"sub": "root@pool.test", "iss": "pool.test", "iat": NOW})
    with pytest.raises(BadToken, match="signature does not hold"):
        check(f"{head}.{claims}.{signature}", ca)


@pytest.mark.parametrize("signature", [b"", b"x", b"\0" * 64, b"\xff" * 64, b"\0" * 65])
def test_any_bytes_may_stand_where_the_signature_should(ca: Path, signature: bytes) -> None:
    head, claims, _, _ = a_token(ca).split(".")
    encoded = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    with pytest.raises(BadToken, match="signature does not hold"):
        check(f"{head}.{claims}.{encoded}", ca)


def test_the_certificate_cannot_be_used_as_a_secret_key(ca: Path) -> None:
    claims = part({"sub": "root@pool.test", "iss": "pool.test", "iat": NOW})
    for name in ("CA", "POOL"):
        signed = f"{part({'alg': 'HS256', 'kid': name})}.{claims}"
        mac = hmac.new((ca / "ca.pem").read_bytes(), signed.encode(), hashlib.sha256).digest()
        with pytest.raises(BadToken, match=r"signed with 'HS256'|no signing key"):
            check(f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}", ca)


def test_a_signing_keys_name_takes_no_signature_of_the_ca(ca: Path) -> None:
    _, claims, signature, _ = a_token(ca).split(".")
    with pytest.raises(BadToken, match="signed with 'ES256'"):
        check(f"{part({'alg': 'ES256', 'kid': 'POOL'})}.{claims}.{signature}", ca, POOL=b"k" * 32)


def test_without_a_certificate_nothing_of_the_ca_holds(ca: Path) -> None:
    with pytest.raises(BadToken, match="signature does not hold"):
        possession.check(possession.prove(a_token(ca), HANDSHAKE).proof, HANDSHAKE, {}, now=NOW)
