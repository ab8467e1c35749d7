"""Pools in which tokens alone count: the kernel's word on an account is no proof there, on unix sockets either."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator

import pytest

from protocol.rpc.envelope import EnvelopeKind
from tests.attacks.actors import ATTACKER, VICTIM, needs_accounts
from tests.attacks.rogue import Talk
from tests.whole.real_pool import DEADLINE_S, RealPool, real_pool

pytestmark = needs_accounts

JOB = "executable = /bin/true\nqueue\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(user=None, SEC_DEFAULT_AUTHENTICATION_METHODS="TOKEN") as pool:
        tokens = pool.directory / "tokens"
        tokens.mkdir()
        tokens.chmod(0o755)
        (pool.directory / "config").write_text(
            f"SEC_DEFAULT_AUTHENTICATION_METHODS = TOKEN\nSEC_TOKEN_DIRECTORY = {tokens}\n"
        )
        yield pool


@pytest.fixture
def token(pool: RealPool) -> Iterator[None]:
    """The victim has a token; root has made it, who may read the pool's key."""
    file = pool.directory / "tokens" / "mine"
    file.write_text(pool.tool("condor_token_create", "-identity", f"{VICTIM}@{domain(pool)}"))
    shutil.chown(file, VICTIM)
    file.chmod(0o600)
    yield
    file.unlink()


def domain(pool: RealPool) -> str:
    return pool.tool("condor_config_val", "UID_DOMAIN").strip()


def test_an_account_without_a_token_reads_and_writes_nothing(pool: RealPool) -> None:
    pool.user = ATTACKER
    try:
        for tool in ("condor_q", "condor_status"):
            with pytest.raises(AssertionError, match="it takes TOKEN"):
                pool.tool(tool)
        with pytest.raises(AssertionError, match="it takes TOKEN"):
            pool.submit(JOB)
    finally:
        pool.user = None


@pytest.mark.parametrize("daemon", ["master", "collector", "schedd", "startd", "negotiator"])
def test_the_account_of_a_caller_proves_nothing(pool: RealPool, daemon: str) -> None:
    """Not even root's, whatever the client says."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(pool.run_dir / f"{daemon}.sock"))
        talk = Talk(sock)
        assert set(talk.hello(daemon)["methods"]) <= {"TOKEN", "FAMILY", "TICKET"}
        talk.say(EnvelopeKind.AUTH, "FS", {})
        assert talk.hear()[0] == EnvelopeKind.REFUSED


def test_a_proof_that_another_account_passes_on_is_void(pool: RealPool, token: None) -> None:
    """The victim connects to a socket that is not the schedd's; its owner passes the victim's words on."""
    path = str(pool.place("relay") / "not-the-schedd.sock")
    said = []

    def relay(listener: socket.socket) -> None:
        victim, _ = listener.accept()
        with victim, socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(pool.run_dir / "schedd.sock"))
            schedd, heard = Talk(sock), Talk(victim)
            heard.hear()
            heard.say(EnvelopeKind.WELCOME, schedd.hello(""))
            proof = heard.hear()
            assert proof[:2] == [EnvelopeKind.AUTH, "TOKEN"]
            schedd.say(*proof)
            said.append(schedd.hear()[0])

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen()
        listener.settimeout(DEADLINE_S)
        thread = threading.Thread(target=relay, args=(listener,))
        thread.start()
        pool.user = VICTIM
        try:
            pool.tool("condor_q", "-addr", path, check=False)
        finally:
            pool.user = None
        thread.join()
    assert said == [EnvelopeKind.REFUSED]


def test_who_holds_a_token_works_through_the_unix_socket(pool: RealPool, token: None) -> None:
    pool.user = VICTIM
    try:
        cluster = pool.submit(JOB)
        (ad,) = pool.until_done(cluster)
    finally:
        pool.user = None
    assert ad["User"] == f"{VICTIM}@{domain(pool)}"


@pytest.fixture(scope="module")
def writers_need_tokens() -> Iterator[RealPool]:
    knobs = {f"SEC_{level}_AUTHENTICATION_METHODS": "TOKEN" for level in ("WRITE", "ADMINISTRATOR")}
    with real_pool(user=None, **knobs) as pool:
        yield pool


def test_a_level_with_methods_of_its_own_is_not_had_otherwise(writers_need_tokens: RealPool) -> None:
    pool = writers_need_tokens
    for account in (ATTACKER, None):
        pool.user = account
        pool.tool("condor_q")
        with pytest.raises(AssertionError, match="needs WRITE"):
            pool.submit(JOB)
        pool.user = None
    assert os.geteuid() == 0
    with pytest.raises(AssertionError, match="needs ADMINISTRATOR"):
        pool.tool("condor_off", "-startd")
