"""`pool join`: it changes a host only when it has succeeded, spoils no other pool's keys, and tells why it failed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.whole.home import Home, a_home
from tests.whole.hosts import Host, new_host

HOSTS = (f"new{number}.hosts.test" for number in count(1))
"""A name for each host that joins: the central manager knows those that have joined, and takes them from no other."""


@pytest.fixture(scope="module")
def central() -> Iterator[Host]:
    with new_host("joins", "127.0.77.1") as host:
        host.be_central({})
        yield host


@pytest.fixture
def home() -> Iterator[Home]:
    with a_home() as home:
        yield home


def word(central: Host, *options: str) -> str:
    return central.tool("pool", "token", "create", "--for", "execute", *options).strip()


def join(home: Home, central: Host, word: str, *options: str) -> subprocess.CompletedProcess[str]:
    return join_at(home, central.where(), word, *options)


def join_at(home: Home, where: str, word: str, *options: str) -> subprocess.CompletedProcess[str]:
    settings = (f"NETWORK_HOSTNAME={next(HOSTS)}", "NETWORK_INTERFACE=127.0.77.9", "SHARED_PORT_PORT=0")
    knobs = [part for setting in settings for part in ("-c", setting)]
    return home.run("pool", "join", where, *knobs, *options, text=word)


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def refused(found: subprocess.CompletedProcess[str], *said: str) -> None:
    assert found.returncode == 1, found.stdout
    for text in said:
        assert text in found.stderr
    assert "Traceback" not in found.stderr


def test_whoever_has_a_pool_of_their_own_is_told_and_keeps_its_keys(home: Home, central: Host) -> None:
    home.done("pool", "up", "-c", "DAEMON_LIST=MASTER, COLLECTOR")
    home.done("pool", "down")
    before = files(home.pool / "keys")
    assert "ca.key" in before
    refused(join(home, central, word(central)), f"{home.pool}/keys/ca.key", "--dir")
    assert files(home.pool / "keys") == before
    member = str(home.directory / "member")
    assert join(home, central, word(central), "--dir", member).returncode == 0
    assert files(home.pool / "keys") == before


def test_a_join_that_fails_writes_nothing(home: Home, central: Host) -> None:
    spent = word(central, "--lifetime", "0")
    used = word(central, "--host", "other.hosts.test")
    for text, said in ((spent, "ended"), (used, "other.hosts.test"), ("pool:nonsense", "pool token create")):
        refused(join(home, central, text), said)
        assert files(home.directory) == {}
    gone = join_at(home, "127.0.77.1:1", word(central))
    refused(gone, "127.0.77.1:1", "refused")
    assert files(home.directory) == {}


def test_a_host_of_another_pool_joins_and_keeps_what_it_has_until_then(home: Home, central: Host) -> None:
    with new_host("joins2", "127.0.77.2") as other:
        other.be_central({})
        assert join(home, other, word(other)).returncode == 0
        other.stop()
    before = files(home.pool)
    refused(join(home, central, word(central, "--lifetime", "0")), "ended")
    assert files(home.pool) == before
    refused(join(home, central, word(central, "--host", "other.hosts.test")), "other.hosts.test")
    assert files(home.pool) == before
    assert join(home, central, word(central)).returncode == 0
    assert files(home.pool)["keys/ca.pem"] == (central.directory / "keys" / "ca.pem").read_bytes()


def test_an_expired_word_says_when_it_ended(home: Home, central: Host) -> None:
    day = time.strftime("%Y-%m-%d")
    found = join(home, central, word(central, "--lifetime", "0"))
    refused(found, "ended at ", "pool token create --for execute")
    assert any(f"ended at {one}" in found.stderr for one in (day, time.strftime("%Y-%m-%d")))  # it may be midnight


def test_a_central_manager_whose_certificate_was_replaced_says_how_to_mend_it(home: Home) -> None:
    home.done("pool", "up", "-c", "DAEMON_LIST=MASTER, COLLECTOR")
    home.done("pool", "down")
    ours, other = home.pool / "keys" / "ca.pem", home.directory / "other.pem"
    good = ours.read_bytes()
    home.done("python", "-c", f"from protocol.security.keys import make_ca; make_ca('{home.directory}/x', 'elsewhere')")
    ours.write_bytes((home.directory / "x" / "ca.pem").read_bytes())
    refused(home.run("pool", "up"), "ca.pem is not the certificate of", "ca.key")
    ours.write_bytes(good)
    assert not other.exists()
    home.done("pool", "up")
