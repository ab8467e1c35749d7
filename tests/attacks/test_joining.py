"""What a join word does not do: it joins one host, once, under a name that is nobody else's."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from minipool.cli.admin_tools.tokens import read_join_word
from protocol.messages.master import Joined, JoinPool
from protocol.rpc.blocking import connect
from protocol.rpc.remote import RemoteError
from protocol.security import keys
from protocol.security.credentials import Security
from protocol.security.settings import SecuritySettings
from protocol.security.x509 import is_for, read_certificate
from tests.fakes.host_keys import make_host_key
from tests.whole.hosts import DOMAIN, Host, new_host

_RUNS = itertools.count(1)


@pytest.fixture(scope="module")
def pool() -> Iterator[tuple[Host, Host]]:
    """A central manager, and an execute host that has joined it."""
    with new_host("central", "127.0.0.2") as central, new_host("execute1", "127.0.0.4") as node:
        central.be_central({})
        node.join_with(central, a_word(central))
        yield central, node


@pytest.fixture
def run() -> str:
    """What makes a host's name one that nobody has joined with, also when a test runs again."""
    return f"-{next(_RUNS)}"


def a_word(central: Host, *options: str, duty: str = "execute") -> str:
    return central.tool("pool", "token", "create", "--for", duty, *options).strip()


def join(central: Host, word: str, name: str, directory: Path) -> Joined:
    """Ask as `pool join` does, with a name and keys of one's own choice; RemoteError is the refusal."""
    token, ca = read_join_word(word)
    directory.mkdir(exist_ok=True)
    (directory / "word.pem").write_text(ca)
    request = make_host_key(directory, name)
    security = Security(SecuritySettings(ca_files=(str(directory / "word.pem"),), tokens=(token,), offer=("TOKEN",)))
    address = (central.run_dir / "master.address").read_text().splitlines()[0]
    with connect(address, security) as master:
        return master.call(JoinPool(host=name, csr=request))


def test_a_word_joins_one_host_and_no_second(pool: tuple[Host, Host], run: str, tmp_path: Path) -> None:
    central, _ = pool
    word = a_word(central)
    join(central, word, f"first{run}.{DOMAIN}", tmp_path / "first")
    with pytest.raises(RemoteError, match="has been used"):
        join(central, word, f"second{run}.{DOMAIN}", tmp_path / "second")


def test_of_two_who_use_a_word_at_once_one_joins(pool: tuple[Host, Host], run: str, tmp_path: Path) -> None:
    central, _ = pool
    word = a_word(central)
    joined: list[str] = []
    refused: list[str] = []

    def use_it(name: str) -> None:
        try:
            join(central, word, f"{name}{run}.{DOMAIN}", tmp_path / name)
            joined.append(name)
        except RemoteError as error:
            refused.append(str(error))

    users = [threading.Thread(target=use_it, args=(f"race{number}",)) for number in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert len(joined) == 1
    assert len(refused) == 3
    assert all("has been used" in said for said in refused)


def test_a_used_word_stays_used_when_the_central_manager_starts_again(
    pool: tuple[Host, Host], run: str, tmp_path: Path
) -> None:
    central, _ = pool
    word = a_word(central)
    join(central, word, f"before{run}.{DOMAIN}", tmp_path / "before")
    central.stop()
    central.start()
    with pytest.raises(RemoteError, match="has been used"):
        join(central, word, f"after{run}.{DOMAIN}", tmp_path / "after")


def test_a_lost_answer_is_asked_for_again_with_the_same_key(pool: tuple[Host, Host], run: str, tmp_path: Path) -> None:
    central, _ = pool
    word = a_word(central)
    join(central, word, f"again{run}.{DOMAIN}", tmp_path / "again")
    joined = join(central, word, f"again{run}.{DOMAIN}", tmp_path / "again")
    keys.install_host_certificate(
        tmp_path / "again", joined.certificate, joined.ca, key=keys.host_key(tmp_path / "again")
    )
    with pytest.raises(RemoteError, match="has been used"):
        join(central, word, f"again{run}.{DOMAIN}", tmp_path / "with-another-key")
    with pytest.raises(RemoteError, match="has been used"):
        join(central, word, f"other{run}.{DOMAIN}", tmp_path / "again")


@pytest.mark.parametrize(
    "name",
    [
        "127.0.9.2",
        "127.1",
        "2130706433",
        "0x7f000001",
        "localhost",
        "localhost.localdomain",
        "cm.localhost",
        "central",
        f"CENTRAL.{DOMAIN}",
        f"central.{DOMAIN}.",
        "execute1",
        f"Execute1.{DOMAIN}",
        "-x.example",
        "a..b",
        "*.example",
    ],
)
def test_a_word_brings_no_address_and_no_name_of_others(pool: tuple[Host, Host], tmp_path: Path, name: str) -> None:
    central, _ = pool
    with pytest.raises(RemoteError, match=r"is not a name|is taken|own name|has joined before"):
        join(central, a_word(central), name, tmp_path / "attacker")


def test_a_certificate_is_for_its_hosts_name_alone(pool: tuple[Host, Host], run: str, tmp_path: Path) -> None:
    central, _ = pool
    joined = join(central, a_word(central), f"central.elsewhere{run}.example", tmp_path / "keys")
    keys.install_host_certificate(
        tmp_path / "keys", joined.certificate, joined.ca, key=keys.host_key(tmp_path / "keys")
    )
    certificate = read_certificate(decoded(tmp_path / "keys" / "host.pem"))
    assert is_for(certificate, f"central.elsewhere{run}.example")
    for other in ("central", "127.0.0.2", "127.0.0.4", "127.0.0.6", f"central.{DOMAIN}"):
        assert not is_for(certificate, other)


def decoded(path: Path) -> dict[str, object]:
    """A certificate as `SSLObject.getpeercert()` shows it."""
    import ssl

    return ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]  # nothing public reads a file


def test_a_stolen_word_is_for_the_host_that_it_was_made_for(pool: tuple[Host, Host], run: str, tmp_path: Path) -> None:
    central, _ = pool
    word = a_word(central, "--host", f"node7{run}.{DOMAIN}")
    with pytest.raises(RemoteError, match=f"is for node7{run}.{DOMAIN}"):
        join(central, word, f"thief{run}.{DOMAIN}", tmp_path / "thief")
    join(central, word, f"node7{run}.{DOMAIN}", tmp_path / "node7")


def test_a_word_for_several_hosts_joins_as_many_and_no_more(pool: tuple[Host, Host], run: str, tmp_path: Path) -> None:
    central, _ = pool
    word = a_word(central, "--uses", "2")
    for number in (1, 2):
        join(central, word, f"many{number}{run}.{DOMAIN}", tmp_path / f"many{number}")
    with pytest.raises(RemoteError, match="has been used"):
        join(central, word, f"many3{run}.{DOMAIN}", tmp_path / "many3")
