"""Files for a job that has them where they are (want_remote_io): a file system's operations, as the user.

Rules: a path begins in one of the job's directories and follows no link, so that nothing outside of them is reached;
links that the job follows are followed on the job's machine. A result is a number, or the negative errno. What has been
opened stays so for a while, under the number that the asker gave it, and is opened again by its path where it did not.
What must not be done twice is answered twice, when it was asked again after a connection was lost.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import trio

from daemons.agent.bounds import DirectoryBounds, JobOf
from daemons.agent.trusted_path import opened_by_root
from pool.base.errors import UserError
from pool.execute.remote_io import trees, wants_remote_io
from protocol.files.facts import KEPT, NOW, Facts, facts_of, pack_entry
from protocol.messages.agent import IoDone, TreeIo
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

BYTES_MAX: Final = 4 * 1024 * 1024
ENTRIES_MAX: Final = 200_000
OPEN_MAX: Final = 256
"""How many files stay open, of all jobs of this user."""
ANSWERS_MAX: Final = 1024
"""How many answers are kept for those who may ask again."""
_FLAGS: Final = os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
_MAY_OPEN: Final = os.O_ACCMODE | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_TRUNC


class _Open:
    """A file, until nobody uses it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class _OpenFiles:
    """Those that stay open, the least used of them not for ever. Used by several threads."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, int, int], _Open] = OrderedDict()
        self._lock = Lock()

    def get(self, request: TreeIo) -> _Open | None:
        key = _key(request)
        with self._lock:
            found = self._files.get(key)
            if found is not None:
                self._files.move_to_end(key)
            return found

    def keep(self, request: TreeIo, file: _Open) -> None:
        with self._lock:
            self._files[_key(request)] = file
            while len(self._files) > OPEN_MAX:
                self._files.popitem(last=False)

    def drop(self, request: TreeIo) -> None:
        """Those that the request says are closed."""
        with self._lock:
            for handle in request.closed:
                self._files.pop((request.activation, request.tree, handle), None)

    def drop_all(self, activation: str) -> None:
        with self._lock:
            for key in [key for key in self._files if key[0] == activation]:
                del self._files[key]


def _key(request: TreeIo) -> tuple[str, int, int]:
    return request.activation, request.tree, request.handle


@dataclass
class _Once:
    """What is done once."""

    done: trio.Event = field(default_factory=trio.Event)
    answer: IoDone = field(default_factory=lambda: IoDone(value=-errno.EIO))


class RemoteTrees:
    """The handler. `job_of` gives the job of an activation, and its bounds, to whoever has its ticket."""

    def __init__(self, job_of: JobOf) -> None:
        self._job_of = job_of
        self._files = _OpenFiles()
        self._once: OrderedDict[tuple[str, int], _Once] = OrderedDict()

    def answers(self) -> list[Answer]:
        """What starters ask for."""
        return [answer(TreeIo, self.do)]

    def close(self, activation: str) -> None:
        """The activation is over."""
        self._files.drop_all(activation)

    async def do(self, peer: Peer, request: TreeIo) -> IoDone:
        """One operation: its result, or the negative errno."""
        job, bounds = self._job_of(peer, request.activation)
        if not wants_remote_io(job):
            raise UserError("this job has not asked for its files where they are (want_remote_io)")
        # With root's rights any path that a job names could be opened, and its host be anybody's.
        if opened_by_root():
            raise UserError("root's files are not for jobs to open (want_remote_io)")
        homes = trees(job)
        if not 0 <= request.tree < len(homes):
            return IoDone(value=-errno.EINVAL)
        if not request.serial:
            return await self._done(request, homes[request.tree], bounds)
        # The first attempt may still be under way, or have been done when its answer was lost.
        key = request.activation, request.serial
        known = self._once.get(key)
        if known is not None:
            await known.done.wait()
            return known.answer
        once = self._once[key] = _Once()
        while len(self._once) > ANSWERS_MAX:
            self._once.popitem(last=False)
        try:
            once.answer = await self._done(request, homes[request.tree], bounds)
        finally:
            once.done.set()
        return once.answer

    async def _done(self, request: TreeIo, home: str, bounds: DirectoryBounds) -> IoDone:
        # A thread ends what it has begun, and its answer is kept: whoever asked may have lost the connection.
        return await trio.to_thread.run_sync(_answered, request, home, bounds, self._files)


def _answered(request: TreeIo, home: str, bounds: DirectoryBounds, files: _OpenFiles) -> IoDone:
    operation = OPERATIONS.get(request.operation)
    if operation is None:
        return IoDone(value=-errno.EINVAL)
    files.drop(request)
    try:
        done = operation(_Place(request, bounds.real(home)), request, files)
    except OSError as error:
        return IoDone(value=-(error.errno or errno.EIO))
    except (ValueError, IndexError, OverflowError):  # a null character, a word too few, a number too large
        return IoDone(value=-errno.EINVAL)
    if isinstance(done, Facts):
        return IoDone(value=0, data=done.pack())
    return IoDone(value=done) if isinstance(done, int) else IoDone(value=len(done), data=done)


class _Place:
    """Where a request's paths lead, without following any link below the job's directory."""

    def __init__(self, request: TreeIo, home: str) -> None:
        self._request, self._home = request, home

    @contextmanager
    def parent(self, path: str | None = None) -> Iterator[tuple[int, str]]:
        """The directory of a path, open, and the path's last name."""
        *parts, name = (self._request.path if path is None else path).split("/")
        here = os.open(self._home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                below = os.open(_name(part), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                os.close(here)
                here = below
            yield here, _name(name) if name or parts else "."
        finally:
            os.close(here)

    def stat(self) -> os.stat_result:
        """Of the path itself."""
        with self.parent() as (here, name):
            return os.stat(name, dir_fd=here, follow_symlinks=False)

    def facts(self) -> Facts:
        """The same, as it is told."""
        return _facts(self.stat())

    @contextmanager
    def itself(self) -> Iterator[str]:
        """A name for what is there, whatever becomes of its path meanwhile; no link."""
        with self.parent() as (here, name):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        try:
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)

    def open(self, flags: int, mode: int = 0o600) -> _Open:
        """A regular file."""
        with self.parent() as (here, name):
            found = _Open(os.open(name, flags & _MAY_OPEN | _FLAGS, mode, dir_fd=here))
        kind = os.fstat(found.fd).st_mode
        if not stat.S_ISREG(kind):
            number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
            raise OSError(number, os.strerror(number))
        return found


def _name(part: str) -> str:
    if part in ("", ".", ".."):
        raise ValueError(part)
    return part


def _facts(status: os.stat_result) -> Facts:
    return facts_of(status, os.geteuid(), os.getegid())


Operation = Callable[[_Place, TreeIo, _OpenFiles], int | bytes | Facts]


def _file(place: _Place, request: TreeIo, files: _OpenFiles, flags: int) -> _Open:
    """The file that is open under the request's number; or opened again, if its path still leads to it."""
    # Open files can do what their paths cannot any more: one that is read-only since it was made can be written.
    kept = files.get(request)
    if kept is not None:
        return kept
    found = place.open(flags)
    if request.numbers[0] not in (0, os.fstat(found.fd).st_ino):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    return found


def _open(place: _Place, request: TreeIo, files: _OpenFiles) -> bytes:
    """The file's facts, and behind them its bytes, if there are no more than were asked for."""
    flags, mode, bytes_max = request.numbers
    found = place.open(flags & ~os.O_TRUNC, mode & 0o7777)
    if flags & os.O_CREAT and os.fstat(found.fd).st_size == 0:
        # Exactly the mode that was asked for: the asker's kernel knows the job's umask, not this process's.
        os.fchmod(found.fd, mode & 0o7777)
    if flags & os.O_TRUNC:
        os.ftruncate(found.fd, 0)
    if request.handle:
        files.keep(request, found)
    facts = _facts(os.fstat(found.fd))
    small = 0 < facts.size <= min(bytes_max, BYTES_MAX)
    return facts.pack() + (os.pread(found.fd, facts.size, 0) if small else b"")


def _read(place: _Place, request: TreeIo, files: _OpenFiles) -> bytes:
    _, size, at = request.numbers
    return os.pread(_file(place, request, files, os.O_RDONLY).fd, min(size, BYTES_MAX), at)


def _write(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    file = _file(place, request, files, os.O_WRONLY)
    left, at = memoryview(request.data), request.numbers[1]
    while left:
        count = os.pwrite(file.fd, left, at)
        left, at = left[count:], at + count
    return len(request.data)


def _append(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    file = _file(place, request, files, os.O_WRONLY | os.O_APPEND)
    left = memoryview(request.data)
    while left:
        left = left[os.write(file.fd, left) :]
    return os.fstat(file.fd).st_size


def _sync(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    os.fsync(_file(place, request, files, os.O_RDONLY).fd)
    return 0


def _set(place: _Place, request: TreeIo, files: _OpenFiles) -> Facts:
    """What is set of a file; each number that is `KEPT` stays as it is."""
    mode, gid, size, atime, mtime = request.numbers[1:]
    if size != KEPT:
        os.ftruncate(_file(place, request, files, os.O_WRONLY).fd, size)
    if gid != KEPT:
        with place.parent() as (here, name):
            os.chown(name, -1, gid, dir_fd=here, follow_symlinks=False)
    if mode != KEPT:
        with place.itself() as name:
            os.chmod(name, mode & 0o7777)
    if (atime, mtime) != (KEPT, KEPT):
        _set_times(place, atime, mtime)
    return place.facts()


def _set_times(place: _Place, atime: int, mtime: int) -> None:
    with place.parent() as (here, name):
        if (atime, mtime) == (NOW, NOW):  # which takes no more than the right to write
            os.utime(name, dir_fd=here, follow_symlinks=False)
            return
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        now = max(found.st_mtime_ns, found.st_ctime_ns, found.st_atime_ns)
        known = {KEPT: (found.st_atime_ns, found.st_mtime_ns), NOW: (now, now)}
        times = (known.get(atime, (atime, 0))[0], known.get(mtime, (0, mtime))[1])
        os.utime(name, ns=times, dir_fd=here, follow_symlinks=False)


def _access(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    if stat.S_ISLNK(place.stat().st_mode):
        return 0
    with place.itself() as name:
        if not os.access(name, request.numbers[0] & 7, effective_ids=True):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return 0


def _list(place: _Place, request: TreeIo, files: _OpenFiles) -> bytes:
    with place.parent() as (here, name):
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    found = bytearray()
    try:
        with os.scandir(fd) as entries:
            for count, entry in enumerate(entries):
                if count >= ENTRIES_MAX:
                    raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
                try:
                    found += pack_entry(os.fsencode(entry.name), _facts(entry.stat(follow_symlinks=False)))
                except FileNotFoundError:  # gone meanwhile
                    continue
    finally:
        os.close(fd)
    return bytes(found)


def _statfs(place: _Place, request: TreeIo, files: _OpenFiles) -> bytes:
    with place.itself() as name:
        found = os.statvfs(name)
    numbers = (found.f_frsize, found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
    return " ".join(map(str, numbers)).encode()


def _mkdir(place: _Place, request: TreeIo, files: _OpenFiles) -> Facts:
    with place.parent() as (here, name):
        os.mkdir(name, 0o700, dir_fd=here)
    # By descriptor: mkdir itself would leave out what this process's umask does not allow. What it has of the directory
    # that it is in, it keeps.
    with place.itself() as made:
        os.chmod(made, request.numbers[0] & 0o7777 | os.stat(made).st_mode & stat.S_ISGID)
    return place.facts()


def _remove(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    with place.parent() as (here, name):
        os.unlink(name, dir_fd=here)
    return 0


def _rmdir(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    with place.parent() as (here, name):
        os.rmdir(name, dir_fd=here)
    return 0


def _rename(place: _Place, request: TreeIo, files: _OpenFiles) -> int:
    with place.parent() as (here, name), place.parent(request.to) as (there, new):
        os.rename(name, new, src_dir_fd=here, dst_dir_fd=there)
    return 0


def _link(place: _Place, request: TreeIo, files: _OpenFiles) -> Facts:
    with place.parent() as (here, name), place.parent(request.to) as (there, new):
        os.link(name, new, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
    return place.facts()


def _symlink(place: _Place, request: TreeIo, files: _OpenFiles) -> Facts:
    with place.parent() as (here, name):
        os.symlink(request.to, name, dir_fd=here)
    return place.facts()


def _readlink(place: _Place, request: TreeIo, files: _OpenFiles) -> bytes:
    with place.parent() as (here, name):
        return os.fsencode(os.readlink(name, dir_fd=here))


OPERATIONS: Final[Mapping[str, Operation]] = {
    "stat": lambda place, request, files: place.facts(),
    "open": _open,
    "read": _read,
    "write": _write,
    "append": _append,
    "sync": _sync,
    "set": _set,
    "access": _access,
    "list": _list,
    "statfs": _statfs,
    "mkdir": _mkdir,
    "unlink": _remove,
    "rmdir": _rmdir,
    "rename": _rename,
    "link": _link,
    "symlink": _symlink,
    "readlink": _readlink,
}
