"""Unix sockets: long paths, modes, and the account at the other end. Blocking and trio callers share it.

A socket's name holds 107 bytes at most. A longer path is reached through a descriptor in /proc, whose name is short.
"""

from __future__ import annotations

import _socket
import os
import stat
import struct
from typing import TYPE_CHECKING, Final, Protocol

from protocol.security.identity import Credentials, Link

if TYPE_CHECKING:
    import socket

PATH_BYTES_MAX: Final = 107
_UCRED: Final = struct.Struct("3i")


class reachable:
    """A name by which to connect to the socket at `path`, short enough and good inside the `with`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= PATH_BYTES_MAX:
            return self._path
        self._descriptor = os.open(self._path, os.O_PATH | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *how: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def bind(path: str, *, mode: int = 0o666, backlog: int = 1024) -> socket.socket:
    """A socket that listens at `path`. A socket that nobody listens to any more is replaced; a living one is not.

    Nobody can connect before `listen`, and by then the mode is set. A long path gets its socket under a short name in
    the same directory first, and then its own.
    """
    sock = _bound(_socket.SOCK_STREAM, path, mode)
    sock.listen(backlog)
    return sock


def bind_datagram(path: str) -> socket.socket:
    """A datagram socket at `path` to which this account and root can send."""
    mask = os.umask(0o177)  # anybody could send between bind and chmod
    try:
        return _bound(_socket.SOCK_DGRAM, path, 0o600)
    finally:
        os.umask(mask)


def _bound(kind: int, path: str, mode: int) -> socket.socket:
    import socket  # not for tools, which only connect: it takes 3 ms to import

    sock = socket.socket(socket.AF_UNIX, kind | _socket.SOCK_CLOEXEC)
    try:
        _remove_stale(path, kind)
        if len(os.fsencode(path)) <= PATH_BYTES_MAX:
            sock.bind(path)
        else:
            _bind_long(sock, path)
        os.chmod(path, mode)
    except BaseException:
        sock.close()
        raise
    return sock


def _bind_long(sock: socket.socket, path: str) -> None:
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    # The kernel keeps the name that was bound, so the socket is bound under a short one and renamed.
    short = f".{os.getpid()}.{directory}"
    try:
        sock.bind(f"/proc/self/fd/{directory}/{short}")
        os.rename(short, path, src_dir_fd=directory)
    finally:
        os.close(directory)


def _remove_stale(name: str, kind: int) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(name).st_mode):
            raise FileExistsError(f"{name} exists and is no socket")
    except FileNotFoundError:
        return
    import socket

    with socket.socket(socket.AF_UNIX, kind) as probe, reachable(name) as short:
        probe.setblocking(False)
        try:
            probe.connect(short)
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        except BlockingIOError:
            raise FileExistsError(f"a process already listens at {name}") from None
        else:
            raise FileExistsError(f"a process already listens at {name}")
    try:
        os.unlink(name)
    except FileNotFoundError:
        pass


class _HasOptions(Protocol):
    def getsockopt(self, level: int, option: int, length: int, /) -> bytes: ...


def peer_credentials(sock: _HasOptions) -> Credentials:
    """The process at the other end, by the kernel's word."""
    data = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(data)
    return Credentials(pid=pid, uid=uid, gid=gid)


def binding(uid: int) -> bytes:
    """What both ends know of a connection that this account has opened, and no other account's is alike in."""
    return b"unix client %d" % uid


def server_link(path: str, credentials: Credentials) -> Link:
    """What a client knows of its channel to the server at `path`."""
    return Link(
        kind="unix",
        label=path,
        credentials=credentials,
        verified=is_trusted(credentials.uid, path),
        binding=binding(os.geteuid()),
    )


def is_trusted(uid: int, path: str) -> bool:
    """Whether a server that runs as `uid` may be shown secrets: root, ourselves, or whoever owns the directory."""
    if uid in (0, os.geteuid()):
        return True
    try:
        return os.stat(os.path.dirname(path)).st_uid == uid
    except OSError:
        return False
