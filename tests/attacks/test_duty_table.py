"""What each kind of peer reaches, message by message: tests/cases/security/reach.txt is what shall be so.

The table says it of every side of every connection, and the daemons of a real pool of four hosts do as it says. A
message without a row in `protocol.security.needs`, or without a line in the file, fails here.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import protocol.messages
from minipool.client.session import AD_TYPES
from pool.classad import ClassAd
from protocol.messages.collector import AdUpdate, UpdateAds, WatchAds
from protocol.rpc import events
from protocol.rpc.blocking import BlockingPeer, connect
from protocol.rpc.remote import RemoteError
from protocol.security import idtoken, needs, x509
from protocol.security.authorize import ALL_LEVELS, Level, implied
from protocol.security.credentials import Security
from protocol.security.identity import Who
from protocol.security.settings import SecuritySettings
from protocol.wire.address import Address
from protocol.wire.message import MESSAGES
from tests.attacks.actors import VICTIM, needs_accounts
from tests.attacks.broken_host import keys_of, place_of
from tests.whole.hosts import DOMAIN, Host, Hosts, four_hosts

FILE = Path(__file__).parent.parent / "cases" / "security" / "reach.txt"
USER = implied({Level.WRITE})


def a_host(*duties: str) -> Who:
    given = frozenset(duties)
    return Who(identity=f"host/{duties[0]}", method="SSL", levels=implied(x509.granted(given)), duties=given)


PEERS = {
    "execute": a_host(needs.EXECUTE),
    "submit": a_host(needs.SUBMIT),
    "central": a_host(needs.CENTRAL, needs.SUBMIT, needs.EXECUTE),  # as the first start makes it
    "token": Who(identity="alice@pool", method="TOKEN", levels=USER),
    "account": Who(identity="alice@pool", method="FS", levels=USER, uid=1000),
    "owner": Who(identity="root@pool", method="FS", levels=ALL_LEVELS, uid=0),
    "ticket": Who(identity="starter@pool", method="TICKET", levels=implied({Level.READ})),
    "birth": Who(identity="child@pool", method="PAIR", levels=ALL_LEVELS),
}
"""Hosts by their duty, a user by token and by account, who runs the pool, a ticket's bearer, a parent or child."""
REAL = ("execute", "submit", "central", "token", "account", "owner")
ADS = {**needs.ADS, "Any other": needs.OTHER_ADS}


def test_what_daemons_say_of_themselves_has_a_row() -> None:
    assert {*AD_TYPES.values()} <= {*needs.ADS}


def rows() -> Iterator[tuple[str, str, needs.Need]]:
    """Who answers, what is asked, what that takes."""
    for side, table in needs.SIDES.items():
        for tag, need in table.items():
            yield side, tag, need
    yield "collector", "collector.watch, claim ids", needs.PRIVATE_ADS
    for ad_type, need in ADS.items():
        yield "collector", f"collector.update, {ad_type}", need


def expected() -> dict[tuple[str, str], dict[str, bool]]:
    found = {}
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            side, message, *marks = (part.strip() for part in line.split("|"))
            found[side, message] = {peer: mark == "yes" for peer, mark in zip(PEERS, marks, strict=True)}
    return found


def test_every_message_has_a_row_and_every_row_a_message() -> None:
    for module in iter_modules(protocol.messages.__path__):
        import_module(f"protocol.messages.{module.name}")
    ours = {tag for tag, message in MESSAGES.items() if message.__module__.startswith("protocol.messages.")}
    assert set().union(*needs.SIDES.values()) == ours


def test_the_table_lets_everybody_reach_what_is_written_and_nothing_else() -> None:
    said = {(side, what): {peer: not need.objection(who) for peer, who in PEERS.items()} for side, what, need in rows()}
    assert said == expected()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    central = {"DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, DEFRAG, ROOSTER"}
    with four_hosts(central, NUM_CPUS="1", MEMORY="1024") as hosts:
        yield hosts


def ports(hosts: Hosts) -> dict[str, Host]:
    """Each daemon, and a host on which it is found."""
    return {
        "master": hosts.execute[1],
        "collector": hosts.central,
        "negotiator": hosts.central,
        "defrag": hosts.central,
        "rooster": hosts.central,
        "schedd": hosts.submit,
        "startd": hosts.execute[1],
    }


@contextmanager
def as_somebody(account: str) -> Iterator[None]:
    os.seteuid(pwd.getpwnam(account).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def connection(kind: str, hosts: Hosts, at: Host, daemon: str) -> BlockingPeer:
    socket = Address.unix(str(at.run_dir / f"{daemon}.sock"))
    match kind:
        case "account":
            with as_somebody(VICTIM):
                return connect(socket, Security())
        case "owner":
            return connect(socket, Security())
        case "token":
            keys = keys_of(hosts.central)
            token = keys.create_token(f"alice@{DOMAIN}", lifetime_s=600, key_id=idtoken.CA_KEY)
            user = Security(
                SecuritySettings(
                    trust_domain=DOMAIN, uid_domain=DOMAIN, ca_files=keys.settings.ca_files, tokens=(token,)
                )
            )
            return connect(place_of(at, daemon), user)
    broken = {"execute": hosts.execute[0], "submit": hosts.submit, "central": hosts.central}[kind]
    return connect(place_of(at, daemon), keys_of(broken))


def is_let_in(peer: BlockingPeer, tag: str) -> bool:
    """Whether the daemon would obey. What it is sent is no message of this kind, so that nothing comes of it."""
    number = peer._say(lambda: peer._connection.call(tag, []))
    while number not in peer._answers:
        peer._receive(None)
    answer = peer._answers.pop(number)
    assert isinstance(answer, events.Failed), tag
    assert answer.code in ("denied", "bad_request"), (tag, answer)
    return answer.code == "bad_request"


def may_publish(peer: BlockingPeer, ad_type: str) -> bool:
    """The same for an ad, which has no name and is kept nowhere."""
    ad = ClassAd({"MyType": "Generic" if ad_type == "Any other" else ad_type})
    with pytest.raises(RemoteError) as error:
        peer.call(UpdateAds(updates=[AdUpdate(ad=ad)]))
    return "may not publish" not in str(error.value)


def may_watch_claim_ids(peer: BlockingPeer) -> bool:
    try:
        next(peer.stream(WatchAds(ad_types=["Nothing"], private=True)))
    except RemoteError as error:
        return "private halves" not in str(error)
    return True


@needs_accounts
@pytest.mark.parametrize("kind", REAL)
def test_the_daemons_do_as_the_table_says(hosts: Hosts, kind: str) -> None:
    said: dict[tuple[str, str], bool] = {}
    for daemon, at in ports(hosts).items():
        with connection(kind, hosts, at, daemon) as peer:
            for tag in needs.SIDES[daemon]:
                said[daemon, tag] = is_let_in(peer, tag)
            if daemon == "collector":
                said |= {(daemon, f"collector.update, {ad_type}"): may_publish(peer, ad_type) for ad_type in ADS}
                said[daemon, "collector.watch, claim ids"] = may_watch_claim_ids(peer)
    assert said == {row: marks[kind] for row, marks in expected().items() if row[0] in ports(hosts)}
