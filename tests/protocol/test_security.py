"""What the configuration says about security."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pool.base.errors import ConfigError, PeerError
from pool.config import Config, load_config
from protocol.security import keys, unix_peer
from protocol.security.authorize import ALL_LEVELS, Caller, Level
from protocol.security.credentials import Security
from protocol.security.identity import Certificate, Credentials, Greeting, Link, Who
from protocol.security.possession import Transcript, prove
from protocol.wire.message import replace
from tests.protocol.echo import NOBODY


def a_config(tmp_path: Path, **knobs: str) -> Config:
    overrides = {"LOCAL_DIR": str(tmp_path), "UID_DOMAIN": "pool.test", **knobs}
    return load_config([], overrides=overrides, environ={}, subsystem="SCHEDD")


def a_security(tmp_path: Path, **knobs: str) -> Security:
    return Security.from_config(a_config(tmp_path, **knobs), "SCHEDD")


def over_tls(security: Security, *duties: str) -> Who:
    certificate = Certificate(
        host="h.pool.test", names=("h.pool.test",), duties=frozenset(duties), trust_domain="pool.test"
    )
    link = Link(kind="tls", certificate=certificate, host="10.0.0.1", verified=True)
    return security.server(link).verify("SSL", {}, Greeting())[0]


def over_unix(security: Security, uid: int) -> Who:
    link = Link(kind="unix", credentials=Credentials(pid=1, uid=uid, gid=uid), verified=True)
    return security.server(link).verify("FS", {}, Greeting())[0]


def by_token(security: Security, token: str) -> Who:
    link = Link(kind="tls", host="10.0.0.1", verified=True, binding=b"here")
    greeting = Greeting(nonce=b"n" * 32)
    handshake = Transcript(trust_domain=security.trust_domain, greeting=greeting, binding=link.binding)
    return security.server(link).verify("TOKEN", dict(prove(token, handshake).proof), greeting)[0]


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """The directory of a pool that has keys."""
    keys.make_pool_keys(tmp_path / "keys", host="cm.pool.test", trust_domain="pool.test")
    return tmp_path


def test_without_any_knob_a_pool_is_safe_and_of_use(pool: Path) -> None:
    security = a_security(pool)
    assert over_unix(security, 0).levels == ALL_LEVELS
    assert over_unix(security, os.stat(pool).st_uid).levels == ALL_LEVELS
    assert over_unix(security, NOBODY).levels == {Level.READ, Level.WRITE}
    assert Level.NEGOTIATOR in over_tls(security, "central").levels
    assert over_tls(security).levels == frozenset()


@pytest.mark.parametrize("duty", ["execute", "submit"])
def test_a_host_gets_no_more_than_its_duty_brings(pool: Path, duty: str) -> None:
    security = a_security(pool, ALLOW_NEGOTIATOR="condor@*", ALLOW_ADMINISTRATOR="*")
    assert not over_tls(security, duty).levels & {Level.NEGOTIATOR, Level.ADMINISTRATOR}


def test_a_list_can_name_a_host(pool: Path) -> None:
    named = "host/h.pool.test@pool.test"
    assert Level.WRITE in over_tls(a_security(pool, ALLOW_WRITE=named), "submit").levels
    assert (
        Level.WRITE not in over_tls(a_security(pool, ALLOW_WRITE="host/other@pool.test, *@pool.test"), "submit").levels
    )
    denied = over_tls(a_security(pool, DENY_ADVERTISE_SCHEDD=named), "submit")
    assert Level.ADVERTISE_SCHEDD not in denied.levels
    assert Level.DAEMON in denied.levels


def test_a_host_can_be_denied_by_its_name(pool: Path) -> None:
    security = a_security(pool, DENY_ADVERTISE_STARTD="h.pool.test")
    assert Level.ADVERTISE_STARTD not in over_tls(security, "execute").levels


def test_tokens_of_administrators_administrate(pool: Path) -> None:
    security = a_security(pool)
    assert Level.ADMINISTRATOR in by_token(security, security.create_token("root")).levels
    assert by_token(security, security.create_token("alice")).levels == {Level.READ, Level.WRITE}
    assert by_token(security, security.create_token("eve@elsewhere")).levels == {Level.READ}


def test_a_tokens_issuer_is_the_trust_domain(pool: Path) -> None:
    security = a_security(pool, TRUST_DOMAIN="trust.test")
    assert by_token(security, security.create_token("alice")).identity == "alice@pool.test"
    with pytest.raises(PeerError, match="issued by"):
        by_token(security, a_security(pool).create_token("alice"))


def test_lists_replace_the_defaults(pool: Path) -> None:
    security = a_security(pool, ALLOW_WRITE="alice@pool.test", ALLOW_READ="alice@pool.test, 10.0.0.0/8")
    assert security.settings.lists.levels(Caller(user="bob@pool.test", hosts=("192.168.0.1",))) == frozenset()
    assert security.settings.lists.levels(Caller(user="alice@pool.test")) == {Level.READ, Level.WRITE}


def test_a_daemons_own_list_wins(pool: Path) -> None:
    security = a_security(pool, ALLOW_WRITE="*", ALLOW_WRITE_SCHEDD="alice@pool.test")
    assert Level.WRITE not in security.settings.lists.levels(Caller(user="bob@pool.test"))


def test_methods_are_those_that_are_configured(pool: Path) -> None:
    security = a_security(pool, SEC_DEFAULT_AUTHENTICATION_METHODS="IDTOKENS, fs")
    assert security.settings.accept == ("TOKEN", "FS")


@pytest.mark.parametrize("knob", ["SEC_DEFAULT", "SEC_CLIENT", "SEC_WRITE", "SEC_ADVERTISE_STARTD"])
def test_a_method_that_does_not_exist_is_an_error_and_no_gap(pool: Path, knob: str) -> None:
    knob += "_AUTHENTICATION_METHODS"
    with pytest.raises(ConfigError, match=f"{knob} names KERBEROS: methods of HTCondor that this pool does not have"):
        a_security(pool, **{knob: "FS, KERBEROS, IDTOKENS"})
    with pytest.raises(ConfigError, match=rf"{knob} names MAGIC: no methods .*expected FS, SSL, TOKEN, CLAIMTOBE"):
        a_security(pool, **{knob: "FS, MAGIC"})


def test_a_level_can_have_methods_of_its_own(pool: Path) -> None:
    security = a_security(
        pool, SEC_WRITE_AUTHENTICATION_METHODS="TOKEN", SEC_READ_AUTHENTICATION_METHODS="FS, TOKEN, ANONYMOUS"
    )
    token = security.create_token("alice")
    assert over_unix(security, NOBODY).levels == {Level.READ}
    assert over_unix(security, 0).levels == ALL_LEVELS - {Level.WRITE}
    assert by_token(security, token).levels == {Level.READ, Level.WRITE}
    anonymous = security.server(Link(kind="tls", host="10.0.0.1")).verify("ANONYMOUS", {}, Greeting())[0]
    assert anonymous.levels == {Level.READ}
    assert over_tls(security, "execute").levels == {Level.DAEMON, Level.ADVERTISE_MASTER, Level.ADVERTISE_STARTD}


def test_advertising_has_the_methods_of_daemons(pool: Path) -> None:
    security = a_security(pool, SEC_DAEMON_AUTHENTICATION_METHODS="TOKEN")
    assert over_tls(security, "execute").levels == {Level.READ}


def test_where_fs_is_not_named_the_kernels_word_counts_for_nothing(pool: Path) -> None:
    security = a_security(pool, SEC_DEFAULT_AUTHENTICATION_METHODS="TOKEN")
    link = Link(kind="unix", credentials=Credentials(pid=1, uid=0, gid=0), verified=True, binding=b"here")
    assert security.server(link).methods() == ["TOKEN"]
    with pytest.raises(PeerError, match="no way to authenticate"):
        Security(replace(security.settings, keys="", signing={})).client(link).choose(["FS"], Greeting(nonce=b"n" * 32))


def test_who_may_read_the_signing_key_makes_a_token_of_its_own(pool: Path) -> None:
    link = Link(kind="unix", credentials=Credentials(pid=1, uid=NOBODY, gid=0), verified=True, binding=b"here")
    greeting = Greeting(nonce=b"n" * 32)
    server = a_security(pool, SEC_DEFAULT_AUTHENTICATION_METHODS="TOKEN")
    tool = Security.from_config(a_config(pool, SEC_DEFAULT_AUTHENTICATION_METHODS="TOKEN"), "TOOL")
    known = {}
    for side in (server, tool):
        method, proof = side.client(link).choose(["TOKEN"], greeting)
        known[side.settings.own_name] = server.server(link).verify(method, proof, greeting)[0].identity
    assert known == {
        "condor@pool.test": "condor@pool.test",
        "": f"{unix_peer.user_name(os.geteuid())}@pool.test",
    }


def test_the_daemons_of_one_master_know_each_other(pool: Path) -> None:
    link = Link(kind="unix", credentials=Credentials(pid=1, uid=0, gid=0), verified=True, binding=b"here")
    greeting = Greeting(nonce=b"n" * 32)
    one = a_security(pool, SEC_DEFAULT_AUTHENTICATION_METHODS="TOKEN").with_family("our secret")
    client = one.client(link)
    method, proof = client.choose(["TOKEN", "FAMILY"], greeting)
    assert method == "FAMILY"
    assert "our secret" not in repr(proof)
    who, answer = one.server(link).verify(method, proof, greeting)
    assert (who.levels, who.uid) == (ALL_LEVELS, 0)
    other = replace(link, credentials=Credentials(pid=1, uid=NOBODY, gid=0))  # it has dropped its privileges
    assert one.server(other).verify(method, proof, greeting)[0].levels == {Level.READ, Level.WRITE}
    client.confirm(answer)
    with pytest.raises(PeerError, match="without knowing"):
        client.confirm(b"")
    with pytest.raises(PeerError, match="does not hold"):
        one.with_family("another").server(link).verify(method, proof, greeting)
    assert "FAMILY" not in one.server(Link(kind="tls", host="10.0.0.1", binding=b"here")).methods()
    assert "FAMILY" not in a_security(pool).server(link).methods()


def test_a_daemon_is_its_host_and_a_person_is_their_token(pool: Path) -> None:
    daemon, tool = a_security(pool), Security.from_config(a_config(pool), "TOOL")
    assert daemon.settings.offer.index("SSL") < daemon.settings.offer.index("TOKEN")
    assert tool.settings.offer.index("TOKEN") < tool.settings.offer.index("SSL")
    chosen = a_security(pool, SEC_CLIENT_AUTHENTICATION_METHODS="TOKEN, SSL")
    assert chosen.settings.offer == ("TOKEN", "SSL")


def test_old_and_revoked_tokens_are_refused(pool: Path) -> None:
    token = a_security(pool).create_token("alice")
    with pytest.raises(PeerError, match="revoked"):
        by_token(a_security(pool, SEC_TOKEN_REVOCATION_EXPR='sub == "alice@pool.test"'), token)
    assert by_token(a_security(pool, SEC_TOKEN_REVOCATION_EXPR='sub == "bob@pool.test"'), token)
    late = Security.from_config(a_config(pool, SEC_TOKEN_MAX_AGE="3600"), "SCHEDD")
    assert by_token(late, token)
    with pytest.raises(PeerError, match="older than 3600 s"):
        by_token(Security(late.settings, now=lambda: 4e9), token)


def test_a_reconfiguration_reaches_those_who_hold_the_old_object(pool: Path) -> None:
    security = a_security(pool)
    assert Level.READ in over_unix(security, NOBODY).levels
    security.renew(a_security(pool, DENY_READ="*"))
    assert Level.READ not in over_unix(security, NOBODY).levels


def test_a_host_without_keys_makes_no_tokens_and_accepts_none(tmp_path: Path) -> None:
    security = a_security(tmp_path)
    with pytest.raises(ConfigError, match="no signing key"):
        security.create_token("alice")
    assert "TOKEN" not in security.server(Link(kind="tls", verified=True)).methods()
