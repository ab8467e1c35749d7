"""Proof that a token is held: good for one handshake on one channel, and nothing that is heard of it helps anybody."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from protocol.security import idtoken, keys, possession
from protocol.security.identity import Greeting
from protocol.security.idtoken import BadToken
from protocol.security.possession import ShownProof, Transcript, prove
from protocol.security.signed_token import create_token
from protocol.wire.message import replace

KEY = b"k" * 32
NOW = 1_700_000_000.0
GREETING = Greeting(wanted="schedd", name="schedd", nonce=b"n" * 32)
HERE = Transcript(trust_domain="pool.test", greeting=GREETING, binding=b"this certificate")


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ca")
    keys.make_ca(directory, "pool.test")
    return directory


@pytest.fixture(params=["POOL", "CA"])
def token(request: pytest.FixtureRequest, ca: Path) -> str:
    """A token of either kind."""
    key = KEY if request.param == "POOL" else (ca / "ca.key").read_bytes()
    return create_token(
        key, subject="alice@pool.test", issuer="pool.test", now=NOW, id="1", lifetime_s=60, key_id=request.param
    )


def check(shown: ShownProof, ca: Path, handshake: Transcript = HERE) -> tuple[str, bytes]:
    stated, answer = possession.check(shown.proof, handshake, {"POOL": KEY}, now=NOW, ca=(ca / "ca.pem").read_text())
    return stated.subject, answer


def test_the_holder_proves_a_token(token: str, ca: Path) -> None:
    shown = prove(token, HERE)
    assert check(shown, ca) == ("alice@pool.test", shown.answer)
    assert bool(shown.answer) is (idtoken.take_apart(token).key_id == "POOL")


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(HERE, binding=b"another certificate"),
        replace(HERE, greeting=replace(GREETING, nonce=b"m" * 32)),
        replace(HERE, greeting=replace(GREETING, wanted="collector")),
        replace(HERE, greeting=replace(GREETING, name="collector")),
        replace(HERE, trust_domain="other.test"),
    ],
)
def test_a_proof_holds_nowhere_else(token: str, ca: Path, elsewhere: Transcript) -> None:
    with pytest.raises(BadToken, match="proven for another connection"):
        check(prove(token, HERE), ca, elsewhere)


def test_what_is_shown_is_not_the_token(token: str, ca: Path) -> None:
    """Whoever has taken part in a handshake holds no token afterwards."""
    shown = prove(token, HERE)
    kept = str(shown.proof["token"])
    secret = token.rpartition(".")[2]
    assert secret not in repr(shown.proof)
    with pytest.raises(BadToken):
        check(prove(kept, replace(HERE, binding=b"elsewhere")), ca, replace(HERE, binding=b"elsewhere"))


@pytest.mark.parametrize("missing", ["nonce", "proof", "token"])
def test_a_token_alone_is_refused(token: str, ca: Path, missing: str) -> None:
    proof = {name: value for name, value in prove(token, HERE).proof.items() if name != missing}
    with pytest.raises(BadToken, match="without proof that its sender holds it"):
        check(ShownProof(proof=proof), ca)


def test_two_proofs_of_one_token_differ(token: str) -> None:
    assert prove(token, HERE).proof["proof"] != prove(token, HERE).proof["proof"]


def test_the_server_proves_that_it_knows_the_signing_key(ca: Path) -> None:
    token = create_token(KEY, subject="alice@pool.test", issuer="pool.test", now=NOW, id="1")
    shown = prove(token, HERE)
    assert shown.answer != shown.proof["proof"]  # what was heard cannot be sent back


def test_a_token_of_the_ca_without_a_key_of_its_holder_is_refused(ca: Path) -> None:
    """As they were made once: whoever had heard one could show it."""
    key = (ca / "ca.key").read_bytes()
    claims = {"sub": "alice@pool.test", "iss": "pool.test", "iat": int(NOW)}
    old = jwt.encode(claims, key, algorithm="ES256", headers={"kid": "CA"})
    with pytest.raises(BadToken, match="no key of its holder"):
        prove(old, HERE)
    with pytest.raises(BadToken, match="make a new one with condor_token_create"):
        check(ShownProof(proof={"token": old, "nonce": b"", "proof": b""}), ca)
