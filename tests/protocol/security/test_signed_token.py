"""Tokens that the pool's CA signed: every host can check them, and none but the central manager can make them.

And what JSON Web Tokens are known to be attacked with (RFC 8725), for either kind of key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from protocol.security import holder_key, idtoken, keys, possession
from protocol.security.identity import Greeting
from protocol.security.idtoken import BadToken, IdToken, take_apart
from protocol.security.signed_token import create_token

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


EARLIER_CA = """-----BEGIN CERTIFICATE-----
MIIBqDCCAU2gAwIBAgIUFkdYlnCeQMYAUUy0K/Xm49MtBqAwCgYIKoZIzj0EAwIw
MDESMBAGA1UECgwJcG9vbC50ZXN0MRowGAYDVQQDDBFwb29sLnRlc3QgcG9vbCBD
QTAeFw0yNjExMjIxNjM5NTZaFw0zNjExMjAxNjM5NTZaMDAxEjAQBgNVBAoMCXBv
b2wudGVzdDEaMBgGA1UEAwwRcG9vbC50ZXN0IHBvb2wgQ0EwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAAQKphhyuf3DAqcS/v8l3CYl9WtPQVCGP3zh2ei81B2e85IQ
12P2dr+LXcXZDs2rT/NsPRU9GZ4D/Oa09uRfjT0jo0UwQzASBgNVHRMBAf8ECDAG
AQH/AgEAMA4GA1UdDwEB/wQEAwIBhjAdBgNVHQ4EFgQU9yuG+pdddKikmGIdL2bC
G2CZxWUwCgYIKoZIzj0EAwIDSQAwRgIhANmZ5iz78Y8DKma6+GLzALW9mvy4RItq
v+kkuZtbe80cAiEAiArlTP0Fa1LCoo0/cWKfDAbQYnjvTFdk09Wtzv8dOPc=
-----END CERTIFICATE-----
"""
EARLIER = {
    "POOL": (
        "eyJhbGciOiJIUzI1NiIsImtpZCI6IlBPT0wiLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJhbGljZUBwb29sLnRlc3QiLCJpc3MiOiJwb29sLnRlc3"
        "QiLCJpYXQiOjE3MDAwMDAwMDAsImp0aSI6IjEiLCJleHAiOjE3MDAwMDAwNjAsInNjb3BlIjoiY29uZG9yOi9SRUFEIn0.7S4BGEjfpuNHgyb_"
        "y9lkbEcscMtH3H381XIloBYRJaw"
    ),
    "CA": (
        "eyJhbGciOiJFUzI1NiIsImtpZCI6IkNBIiwidHlwIjoiSldUIn0.eyJzdWIiOiJhbGljZUBwb29sLnRlc3QiLCJpc3MiOiJwb29sLnRlc3QiLC"
        "JpYXQiOjE3MDAwMDAwMDAsImp0aSI6IjEiLCJjbmYiOnsiandrIjp7Imt0eSI6Ik9LUCIsImNydiI6IkVkMjU1MTkiLCJ4IjoieG9xUGJMTTV1"
        "N0JUNU5rZnd5MVU3MU1XckI5SGJ2TDRzZkdxU00wWklEayJ9fX0._ya1gwk6xkRgzpnZN9jtkf4oPfEUYEnK-EUiTMjldxFeg6DNIhmTwtgHtB"
        "OB2Vg_ZFWuj6Rv1CCRCjvk-sMSCg.B7VmORLfu3k8BzbUxiZLxyIppHLajmhHbpCx6qY4s0g"
    ),
}
"""Tokens, and a CA, of before they were made by a library."""
SIGNING_KEY = b"k" * 32


def check(text: str, ca: Path, **secrets: bytes) -> IdToken:
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


@pytest.mark.parametrize("key_id", ["POOL", "CA"])
def test_tokens_of_earlier_releases_hold(key_id: str) -> None:
    shown = possession.prove(EARLIER[key_id], HANDSHAKE)
    token, answer = possession.check(shown.proof, HANDSHAKE, {"POOL": SIGNING_KEY}, now=NOW, ca=EARLIER_CA)
    assert (token.subject, token.key_id, answer) == ("alice@pool.test", key_id, shown.answer)


def test_a_signing_key_makes_the_same_token_as_ever() -> None:
    text = create_token(
        SIGNING_KEY,
        subject="alice@pool.test",
        issuer="pool.test",
        now=NOW,
        id="1",
        scopes=["READ"],
        lifetime_s=60,
    )
    assert text == EARLIER["POOL"]


def signed_by(key_id: str, header: dict[str, object], claims: dict[str, object], ca: Path) -> str:
    """A token with this header, and a right signature."""
    if key_id == "POOL":
        signed = f"{part({'alg': 'HS256', 'kid': 'POOL', **header})}.{part(claims)}"
        signature = hmac.digest(SIGNING_KEY, signed.encode(), "sha256")
    else:
        public, private = holder_key.new()
        claims = {**claims, "cnf": {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": idtoken.b64(public)}}}
        signed = f"{part({'alg': 'ES256', 'kid': 'CA', **header})}.{part(claims)}"
        ca_key = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        r, s = decode_dss_signature(ca_key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{idtoken.b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}.{idtoken.b64(private)}"
    return f"{signed}.{idtoken.b64(signature)}"


GOOD = {"sub": "alice@pool.test", "iss": "pool.test", "iat": NOW}


@pytest.mark.parametrize("key_id", ["POOL", "CA"])
@pytest.mark.parametrize(
    ("header", "claims", "complaint"),
    [
        ({}, {}, ""),
        ({"crit": ["exp-policy"], "exp-policy": 1}, {}, "does not hold: .*crit|does not hold: .*[Uu]nsupported"),
        ({"b64": False, "crit": ["b64"]}, {}, "does not hold"),
        ({}, {"nbf": 4e9}, "does not hold: .*not yet valid"),
        ({}, {"jti": 5}, "does not hold|malformed"),
        ({"alg": "none"}, {}, "signed with 'none'"),
    ],
)
def test_a_right_signature_is_not_enough(
    key_id: str, header: dict[str, object], claims: dict[str, object], complaint: str, ca: Path
) -> None:
    shown = possession.prove(signed_by(key_id, header, {**GOOD, **claims}, ca), HANDSHAKE).proof
    certificate = (ca / "ca.pem").read_text()

    def checked() -> IdToken:
        return possession.check(shown, HANDSHAKE, {"POOL": SIGNING_KEY}, now=NOW, ca=certificate)[0]

    if not complaint:
        assert checked().subject == "alice@pool.test"
    else:
        with pytest.raises(BadToken, match=complaint):
            checked()


def test_a_short_signing_key_checks_nothing() -> None:
    shown = possession.prove(EARLIER["POOL"], HANDSHAKE).proof
    with pytest.raises(BadToken, match="below the minimum"):
        possession.check(shown, HANDSHAKE, {"POOL": b"k" * 31}, now=NOW)


def test_a_key_in_pem_is_no_secret(ca: Path) -> None:
    shown = possession.prove(EARLIER["POOL"], HANDSHAKE).proof
    with pytest.raises(BadToken, match="signing key 'POOL' is none"):
        possession.check(shown, HANDSHAKE, {"POOL": (ca / "ca.pem").read_bytes()}, now=NOW)
