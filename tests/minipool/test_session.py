"""Which daemon a session speaks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.client.session import Session
from pool.base.errors import PeerError
from pool.classad import ClassAd

SILENT = "127.0.0.1:1"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A host with the sockets of a schedd and a startd."""
    (tmp_path / "run").mkdir()
    for daemon in ("schedd", "startd"):
        (tmp_path / "run" / f"{daemon}.sock").touch()
    return tmp_path


def test_without_names_the_schedd_is_this_hosts(directory: Path) -> None:
    assert Session.open(directory=str(directory)).address("schedd").is_unix


def test_a_daemon_of_this_host_is_reached_by_its_socket_wherever_its_ad_is_found(directory: Path) -> None:
    session = Session.open(directory=str(directory))
    (directory / "run" / "startd.address").write_text("<127.0.0.1:9618?sock=startd>\n")
    for address, is_here in (
        ("<127.0.0.1:9618?sock=startd>", True),
        ("<127.0.0.1:9619?sock=startd>", False),
        ("<10.0.0.1:9618?sock=startd>", False),
        ("<127.0.0.1:9618?sock=startd_2>", False),
    ):
        found = session.address_in(ClassAd({"Name": "n", "MyAddress": address}), "startd")
        assert (str(found) == str(directory / "run" / "startd.sock")) is is_here
        assert found.is_unix is is_here
    elsewhere = Session.open(directory=str(directory), pool=SILENT)
    assert not elsewhere.address_in(ClassAd({"MyAddress": "<127.0.0.1:9618?sock=startd>"}), "startd").is_unix


def test_daemons_of_a_named_pool_are_looked_up_there(directory: Path) -> None:
    session = Session.open(directory=str(directory), pool=SILENT)
    for daemon, name in (("startd", None), ("schedd", None), ("schedd", "ap1")):
        with pytest.raises(PeerError):
            session.address(daemon, name=name)


def test_collectors_are_asked_in_order_this_hosts_first(directory: Path) -> None:
    several = {"COLLECTOR_HOST": "127.0.0.1:1 127.0.0.2:2"}
    elsewhere = ["<127.0.0.1:1?sock=collector>", "<127.0.0.2:2?sock=collector>"]
    session = Session.open(directory=str(directory), overrides=several)
    assert [str(one) for one in session.collector_addresses()] == elsewhere
    named = Session.open(directory=str(directory), pool="127.0.0.3:3,127.0.0.4:4")
    assert [one.port for one in named.collector_addresses()] == [3, 4]
    (directory / "run" / "collector.sock").touch()
    assert [str(one) for one in session.collector_addresses()] == [
        str(directory / "run" / "collector.sock"),
        *elsewhere,
    ]
    alone = Session.open(directory=str(directory), overrides={"COLLECTOR_HOST": "127.0.0.1:1"})
    assert [one.is_unix for one in alone.collector_addresses()] == [True]
