"""Unix sockets: stale ones, living ones, long paths, modes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from protocol.network import unix_socket
from tests.protocol.echo import NOBODY


def test_a_socket_is_open_to_everybody_and_knows_its_callers(tmp_path: Path) -> None:
    path = str(tmp_path / "x.sock")
    with unix_socket.bind(path) as listener:
        assert os.stat(path).st_mode & 0o777 == 0o666
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            server, _ = listener.accept()
            with server:
                for end in (server, client):
                    found = unix_socket.peer_credentials(end)
                    assert (found.uid, found.gid, found.pid) == (os.geteuid(), os.getegid(), os.getpid())


@pytest.mark.parametrize("parts", [["d" * 120], ["d" * 60, "e" * 60], ["d" * 200, "e" * 200]])
@pytest.mark.parametrize("name", ["x.sock", "n" * 150])
def test_a_long_path_is_reached(tmp_path: Path, parts: list[str], name: str) -> None:
    directory = tmp_path.joinpath(*parts)
    directory.mkdir(parents=True)
    path = str(directory / name)
    with unix_socket.bind(path) as listener, socket.socket(socket.AF_UNIX) as client:
        with unix_socket.reachable(path) as short:
            assert len(short) <= unix_socket.PATH_BYTES_MAX
            client.connect(short)
        listener.accept()[0].close()
        with pytest.raises(FileExistsError, match="already listens"):
            unix_socket.bind(path)
    assert [entry.name for entry in directory.iterdir()] == [name]
    unix_socket.bind(path).close()


def test_a_stale_socket_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "x.sock")
    with unix_socket.bind(path):
        with pytest.raises(FileExistsError, match="already listens"):
            unix_socket.bind(path)
    unix_socket.bind(path).close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(FileExistsError, match="no socket"):
        unix_socket.bind(str(path))
    assert path.read_text() == "data"


def test_datagrams_come_from_this_account_only(tmp_path: Path) -> None:
    path = str(tmp_path / "x.port")
    with unix_socket.bind_datagram(path):
        assert os.stat(path).st_mode & 0o777 == 0o600
        with pytest.raises(FileExistsError, match="already listens"):
            unix_socket.bind_datagram(path)
    unix_socket.bind_datagram(path).close()


def test_whom_a_socket_in_a_directory_may_belong_to(tmp_path: Path) -> None:
    path = str(tmp_path / "x.sock")
    assert unix_socket.is_trusted(0, path)
    assert unix_socket.is_trusted(os.geteuid(), path)
    assert unix_socket.is_trusted(os.stat(tmp_path).st_uid, path)
    assert not unix_socket.is_trusted(NOBODY, path)
    assert not unix_socket.is_trusted(NOBODY, str(tmp_path / "missing" / "x.sock"))
