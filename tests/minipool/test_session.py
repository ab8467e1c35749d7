"""Which daemon a session speaks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from minipool.client.session import Session
from pool.base.errors import PeerError

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


def test_daemons_of_a_named_pool_are_looked_up_there(directory: Path) -> None:
    session = Session.open(directory=str(directory), pool=SILENT)
    for daemon, name in (("startd", None), ("schedd", None), ("schedd", "ap1")):
        with pytest.raises(PeerError):
            session.address(daemon, name=name)
