"""Tokens and tickets as an execute host sees them: what it hears, relays or keeps makes it nobody else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from pool.base.errors import PeerError
from protocol.messages.common import Ping
from protocol.messages.schedd import Selection, WatchJobs
from protocol.rpc import blocking
from protocol.rpc.envelope import EnvelopeKind
from protocol.rpc.remote import ConnectionLost
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from tests.attacks.rogue import Talk, Trap, talking_to
from tests.whole.hosts import DOMAIN, Host, Hosts, four_hosts

NONCE = b"n" * 32


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with four_hosts(NUM_CPUS="1") as hosts:
        yield hosts


@pytest.fixture(scope="module")
def victim(hosts: Hosts) -> Security:
    """A user's tool, with a token that is good on every host."""
    token = hosts.central.tool("condor_token_create", "-identity", f"nobody@{DOMAIN}").strip()
    ca = hosts.central.run_dir / "ca.pem"
    return Security(
        SecuritySettings(trust_domain=DOMAIN, uid_domain=DOMAIN, ca_files=(str(ca),), tokens=(token,), offer=("TOKEN",))
    )


def schedd_of(hosts: Hosts) -> Address:
    return Address.parse((hosts.submit.run_dir / "schedd.address").read_text().splitlines()[0])


def test_the_victims_tool_is_taken_where_it_means_to_go(hosts: Hosts, victim: Security) -> None:
    with blocking.connect(schedd_of(hosts), victim) as peer:
        assert peer.me == f"nobody@{DOMAIN}"


def test_an_execute_host_that_relays_a_handshake_becomes_nobody(hosts: Hosts, victim: Security) -> None:
    """The victim asks the host's own startd; the host passes all that it hears on to the access point."""
    said: list[list[Any]] = []

    def relay(talk: Talk) -> None:
        with talking_to(schedd_of(hosts)) as schedd:
            talk.hear()
            welcome = schedd.hello("schedd")
            talk.say(EnvelopeKind.WELCOME, {**welcome, "name": "startd"})
            proof = talk.hear()
            assert proof[:2] == [EnvelopeKind.AUTH, "TOKEN"]
            schedd.say(*proof)
            said.append(schedd.hear())

    with Trap(hosts.execute[0], relay) as trap, pytest.raises(PeerError):
        blocking.connect(trap.address("startd"), victim)
    assert trap.failure is None
    assert said[0][0] == EnvelopeKind.REFUSED, said


def test_an_execute_host_that_keeps_what_it_heard_becomes_nobody_later(hosts: Hosts, victim: Security) -> None:
    kept: list[list[Any]] = []

    def keep(talk: Talk) -> None:
        talk.hear()
        talk.say(
            EnvelopeKind.WELCOME, {"version": 1, "name": "startd", "software": "", "methods": ["TOKEN"], "nonce": NONCE}
        )
        kept.append(talk.hear())

    with Trap(hosts.execute[0], keep) as trap, pytest.raises(PeerError):
        blocking.connect(trap.address("startd"), victim)
    assert kept[0][:2] == [EnvelopeKind.AUTH, "TOKEN"]
    for daemon in ("schedd", "master"):
        address = schedd_of(hosts)
        with talking_to(Address.tcp(address.host, address.port, sock=daemon)) as talk:
            talk.hello(daemon)
            talk.say(*kept[0])
            assert talk.hear()[0] == EnvelopeKind.REFUSED


def test_a_replayed_handshake_is_refused(hosts: Hosts, victim: Security) -> None:
    """Even by one who has heard the very words that the daemon itself has taken."""
    from protocol.rpc.handshake import ClientConnection
    from protocol.wire.frame import FrameReader

    address = schedd_of(hosts)
    words: list[list[Any]] = []
    with blocking.connect(address, victim):  # what the channel's binding is, any tool knows
        pass
    sock, link = blocking._open(address, victim, 20.0)
    with closing(sock):
        client = ClientConnection(victim.client(link), wanted="schedd", watches=False)
        while not words or words[-1][0] != EnvelopeKind.AUTH:
            out = bytes(client.take())
            sock.sendall(out)
            reader = FrameReader(1 << 20)
            reader.feed(out)
            words.append(_unpacked(reader.next()))
            if words[-1][0] != EnvelopeKind.AUTH:
                client.receive(sock.recv(65536))
        assert sock.recv(65536)
    with talking_to(address) as talk:
        talk.hello("schedd")
        talk.say(*words[-1])
        assert talk.hear()[0] == EnvelopeKind.REFUSED


def test_a_revoked_token_loses_the_connection_that_it_has_opened(hosts: Hosts) -> None:
    token = hosts.central.tool("condor_token_create", "-identity", f"leaver@{DOMAIN}").strip()
    ca = str(hosts.central.run_dir / "ca.pem")
    tool = Security(
        SecuritySettings(trust_domain=DOMAIN, uid_domain=DOMAIN, ca_files=(ca,), tokens=(token,), offer=("TOKEN",))
    )
    with blocking.connect(schedd_of(hosts), tool) as leaver, blocking.connect(schedd_of(hosts), tool) as reader:
        items = reader.stream(WatchJobs(select=Selection()))
        next(items)
        reconfigure(hosts.submit, f'SEC_TOKEN_REVOCATION_EXPR = sub == "leaver@{DOMAIN}"')
        hosts.submit.until(lambda: is_refused(lambda: leaver.call(Ping()), "revoked|lost"), "the end of the connection")
        with pytest.raises(ConnectionLost, match="the token was revoked"):
            for _ in items:
                pass
        with pytest.raises(PeerError, match="the token was revoked"):
            blocking.connect(schedd_of(hosts), tool)
    reconfigure(hosts.submit, "SEC_TOKEN_REVOCATION_EXPR =")
    hosts.submit.until(lambda: not is_refused(lambda: greeted(schedd_of(hosts), tool), "revoked"), "the token's return")


def test_a_list_that_has_changed_counts_on_open_connections(hosts: Hosts, victim: Security) -> None:
    with blocking.connect(schedd_of(hosts), victim) as peer:
        peer.call(Ping())
        reconfigure(hosts.submit, f"DENY_READ = nobody@{DOMAIN}")
        hosts.submit.until(lambda: is_refused(lambda: peer.call(Ping()), "needs READ"), "the new list")
        reconfigure(hosts.submit, "DENY_READ =")
        hosts.submit.until(lambda: not is_refused(lambda: peer.call(Ping()), "needs READ"), "the old list again")


def reconfigure(host: Host, line: str) -> None:
    with open(host.directory / "config", "a") as file:
        file.write(line + "\n")
    host.tool("condor_reconfig")


def greeted(address: Address, security: Security) -> None:
    with blocking.connect(address, security):
        pass


def is_refused(ask: Callable[[], object], how: str) -> bool:
    """Whether the answer is a refusal, in these words."""
    try:
        ask()
    except PeerError as error:
        if re.search(how, str(error)) is None:
            raise
        return True
    return False


def _unpacked(payload: Any) -> list[Any]:
    import msgpack

    message: list[Any] = msgpack.unpackb(payload)
    return message


@pytest.mark.parametrize("daemon", ["schedd", "agent-1000", "collector", "negotiator"])
def test_an_execute_host_that_poses_as_another_duty_hears_nothing(hosts: Hosts, victim: Security, daemon: str) -> None:
    heard: list[list[Any]] = []

    def pose(talk: Talk) -> None:
        talk.hear()
        said = {"version": 1, "name": daemon, "software": "", "methods": ["TICKET", "TOKEN"], "nonce": NONCE}
        talk.say(EnvelopeKind.WELCOME, said)
        heard.append(talk.hear())

    for presents in (victim, victim.with_ticket("a secret")):
        with Trap(hosts.execute[0], pose) as trap, pytest.raises(PeerError):
            blocking.connect(trap.address(daemon), presents)
        assert heard.pop() == []
