"""Files for a job that runs elsewhere and asked for them (want_io_proxy): each operation by path, as the user.

Rules: relative paths begin in the job's directory. Nothing stays open between two operations, so that nothing is lost
with a connection. A result is a number, or the negative errno; `pool/execute/chirp.py` makes Chirp's answers of those.

Source: HTCondor's manual, "Chirp" and condor_chirp; the operations are those of its Chirp protocol, version 2
(src/condor_chirp/condor_chirp.cpp, src/condor_starter.V6.1/io_proxy_handler.cpp).
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import Final

import trio

from daemons.agent.bounds import DirectoryBounds, JobOf
from daemons.agent.trusted_path import opened_by_root
from pool.base.errors import UserError
from protocol.messages.agent import IoDone, RemoteIo
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

BYTES_MAX: Final = 4 * 1024 * 1024
ENTRIES_MAX: Final = 200_000

Path = Callable[[int], str]
"""The path of one of the request's texts."""
Operation = Callable[[RemoteIo, Path], int | bytes | IoDone]


class RemoteFiles:
    """The handler. `job_of` gives the job of an activation, and its bounds, to whoever has its ticket."""

    def __init__(self, job_of: JobOf) -> None:
        self._job_of = job_of

    def answers(self) -> list[Answer]:
        """What starters ask for."""
        return [answer(RemoteIo, self.do)]

    async def do(self, peer: Peer, request: RemoteIo) -> IoDone:
        """One operation: its result, or the negative errno."""
        job, bounds = self._job_of(peer, request.activation)
        if not job.eval_bool("WantIOProxy", False):
            raise UserError("this job has not asked for its owner's files (want_io_proxy)")
        # With root's rights any path that a job names could be opened, and its host be anybody's.
        if opened_by_root():
            raise UserError("root's files are not for jobs to open (want_io_proxy)")
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            return IoDone(value=-errno.EINVAL)
        here = job.eval_str("Iwd") or "/"
        try:
            return await trio.to_thread.run_sync(_run, operation, request, here, bounds)
        except OSError as error:
            return IoDone(value=-(error.errno or errno.EIO))
        except (ValueError, IndexError, OverflowError):  # a null character, a word too few, a number too large
            return IoDone(value=-errno.EINVAL)


def _run(operation: Operation, request: RemoteIo, here: str, bounds: DirectoryBounds) -> IoDone:
    done = operation(request, lambda at: bounds.check(os.path.join(here, request.texts[at])))
    if isinstance(done, IoDone):
        return done
    return IoDone(value=done) if isinstance(done, int) else IoDone(value=len(done), data=done)


def _open(request: RemoteIo, path: Path) -> IoDone:
    letters = request.texts[1]
    flags = os.O_RDONLY
    if "w" in letters:
        flags = os.O_RDWR if "r" in letters else os.O_WRONLY
    for letter, flag in (("c", os.O_CREAT), ("t", os.O_TRUNC), ("x", os.O_EXCL), ("a", os.O_APPEND)):
        flags |= flag if letter in letters else 0
    fd = os.open(path(0), flags | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC, request.numbers[0] & 0o777)
    try:
        return IoDone(value=0, data=_line(os.fstat(fd)))
    finally:
        os.close(fd)


def _pread(request: RemoteIo, path: Path) -> bytes:
    length, offset = request.numbers
    fd = os.open(path(0), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(fd, min(length, BYTES_MAX), offset)
    finally:
        os.close(fd)


def _pwrite(request: RemoteIo, path: Path) -> int:
    offset, appends = request.numbers
    flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_APPEND if appends else 0)
    fd = os.open(path(0), flags)
    try:
        view, at = memoryview(request.data), offset
        while view:
            count = os.write(fd, view) if appends else os.pwrite(fd, view, at)
            view, at = view[count:], at + count
    finally:
        os.close(fd)
    return len(request.data)


def _fsync(request: RemoteIo, path: Path) -> int:
    fd = os.open(path(0), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return 0


def _size(request: RemoteIo, path: Path) -> int:
    status = os.stat(path(0))
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    return status.st_size


def _line(status: os.stat_result) -> bytes:
    """A file's facts as chirp has them."""
    numbers = (
        status.st_dev, status.st_ino, status.st_mode, status.st_nlink, status.st_uid, status.st_gid, status.st_rdev,
        status.st_size, status.st_blksize, status.st_blocks, int(status.st_atime), int(status.st_mtime),
        int(status.st_ctime),
    )  # fmt: skip
    return (" ".join(map(str, numbers)) + "\n").encode()


def _statfs(request: RemoteIo, path: Path) -> IoDone:
    found = os.statvfs(path(0))
    numbers = (0, found.f_bsize, found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
    return IoDone(value=0, data=(" ".join(map(str, numbers)) + "\n").encode())


def _names(directory: str) -> list[str]:
    with os.scandir(directory) as entries:
        names = []
        for entry in entries:
            names.append(entry.name)
            if len(names) > ENTRIES_MAX:
                raise OSError(errno.E2BIG, "")
    return sorted(names)


def _getdir(request: RemoteIo, path: Path) -> bytes:
    return b"".join(os.fsencode(name) + b"\n" for name in _names(path(0)))


def _getlongdir(request: RemoteIo, path: Path) -> bytes:
    directory = path(0)
    found = bytearray()
    for name in _names(directory):
        found += os.fsencode(name) + b"\n" + _line(os.stat(os.path.join(directory, name), follow_symlinks=False))
    return bytes(found) + b"\n"  # an empty line ends it


def _nothing(act: Callable[[RemoteIo, Path], object]) -> Operation:
    """An operation whose result is that it was done."""

    def done(request: RemoteIo, path: Path) -> int:
        act(request, path)
        return 0

    return done


def _access(request: RemoteIo, path: Path) -> int:
    target, mode = path(0), request.numbers[0] & 7
    # `os.access` says no more than no; a file that is not there has an errno of its own.
    os.stat(target)
    if not os.access(target, mode):
        raise PermissionError(errno.EACCES, "")
    return 0


OPERATIONS: Final[Mapping[str, Operation]] = {
    "open": _open,
    "pread": _pread,
    "pwrite": _pwrite,
    "fsync": _fsync,
    "size": _size,
    "unlink": _nothing(lambda request, path: os.unlink(path(0))),
    "rename": _nothing(lambda request, path: os.rename(path(0), path(1))),
    "mkdir": _nothing(lambda request, path: os.mkdir(path(0), request.numbers[0] & 0o777)),
    "rmdir": _nothing(lambda request, path: os.rmdir(path(0))),
    "rmall": _nothing(lambda request, path: _remove_all(path(0))),
    "link": _nothing(lambda request, path: os.link(path(0), path(1))),
    "symlink": _nothing(lambda request, path: os.symlink(request.texts[0], path(1))),
    "readlink": lambda request, path: os.fsencode(os.readlink(path(0)))[: max(0, request.numbers[0])],
    "stat": lambda request, path: IoDone(value=0, data=_line(os.stat(path(0)))),
    "lstat": lambda request, path: IoDone(value=0, data=_line(os.lstat(path(0)))),
    "statfs": _statfs,
    "access": _access,
    "chmod": _nothing(lambda request, path: os.chmod(path(0), request.numbers[0] & 0o7777)),
    "chown": _nothing(lambda request, path: os.chown(path(0), request.numbers[0], request.numbers[1])),
    "lchown": _nothing(
        lambda request, path: os.chown(path(0), request.numbers[0], request.numbers[1], follow_symlinks=False)
    ),
    "truncate": _nothing(lambda request, path: os.truncate(path(0), request.numbers[0])),
    "utime": _nothing(lambda request, path: os.utime(path(0), (request.numbers[0], request.numbers[1]))),
    "getdir": _getdir,
    "getlongdir": _getlongdir,
}


def _remove_all(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
