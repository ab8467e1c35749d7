"""The directory a job runs in: made for its account alone, and gone afterwards whatever was put into it.

* It is 0700 and the account's; the starter enters it with that account's rights only.
* Between two jobs of a claim it is emptied and kept, unless it has grown or carries extended attributes: then it is
  made anew. With the claim it goes.
* What is removed is opened first, so that a link never leads out of it.

Source: HTCondor manual, "Configuration Macros" (EXECUTE).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from daemons.base.writing import write_all
from daemons.host.account import Account, acting_as
from pool.execute.plan import WRAPPER_ERROR_NAME
from pool.files.transfer import Stamp

ASKED_EACH: Final = 256
"""After how many things it is asked whether to go on measuring."""
USUAL_BYTES: Final = 64 * 1024
"""How large a directory may have grown and still be used again."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def path_of(execute: str, starter_pid: int) -> str:
    """The sandbox of a starter's present job."""
    return os.path.join(execute, f"dir_{starter_pid}")


def make(path: str, account: Account) -> None:
    """An empty directory, 0700, that belongs to the account: the one that `empty` has left, or a new one.

    What an earlier process of this number left is removed.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not _was_emptied(path):
            remove(path)
            os.mkdir(path, 0o700)
    if account.switches:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def write_ads(path: str, account: Account, texts: Mapping[str, str]) -> None:
    """Put down what the job may read about itself and its slot: the long forms of their ads, by the files' names."""
    with acting_as(account):
        for name, text in texts.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(os.path.join(path, name), flags, 0o644)
            try:
                write_all(fd, text.encode("utf-8", "surrogateescape"))
            finally:
                os.close(fd)


def wrapper_error(path: str, account: Account) -> str | None:
    """What a job wrapper that failed has said, at most some thousand characters; None when none has."""
    said = read_as(account, os.path.join(path, WRAPPER_ERROR_NAME), 4096)
    return None if said is None else said.strip()


def read_as(account: Account, path: str, bytes_max: int) -> str | None:
    """How a file begins that the account may have made; None where there is no regular file."""
    with acting_as(account):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(fd, bytes_max).decode(errors="replace") if stat.S_ISREG(os.fstat(fd).st_mode) else None
        finally:
            os.close(fd)


def stamps(path: str) -> dict[str, Stamp]:
    """The regular files at the top of the sandbox, by which changes are known; links count as what they lead to."""
    found: dict[str, Stamp] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    status = entry.stat()
                    found[entry.name] = Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
            except OSError:
                continue
    return found


class GivenUp(Exception):
    """There was something better to do than to go on measuring."""


def directories(path: str) -> list[str]:
    """The directories at the top of the sandbox; no links."""
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def disk_usage(path: str, *, ahead: bool = True, give_up: Callable[[], bool] | None = None) -> tuple[int, int]:
    """Bytes that the sandbox takes on disk, and how many things are in it; files with several names take once.

    `ahead`: what a file system keeps for a file beyond its end counts too. `give_up` is asked now and then whether to
    stop: GivenUp.
    """
    total, things, seen = 0, 0, set()
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    things += 1
                    if give_up is not None and things % ASKED_EACH == 0 and give_up():
                        raise GivenUp
                    status = entry.stat(follow_symlinks=False)
                    # A directory's links are its subdirectories.
                    if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                        if status.st_ino in seen:
                            continue
                        seen.add(status.st_ino)
                    blocks = status.st_blocks * 512
                    # XFS gives a growing file more than it asks for, and takes it back when it is closed.
                    total += blocks if ahead else min(blocks, -(-status.st_size // 4096) * 4096)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # it went away, or its owner closed it
    return total, things


def empty(path: str) -> None:
    """Remove what is in the sandbox, and leave it to the starter's next job: to make a directory costs much.

    One that a job has made another kind of directory (of its own rights, or very large) goes too.
    """
    if (top := _open_top(path)) is None:
        return
    try:
        _clear(top)
        attributes = os.listxattr(top)
        is_usual = os.fstat(top).st_size <= USUAL_BYTES and not any(map(_is_users, attributes))
    finally:
        os.close(top)
    if not is_usual:
        os.rmdir(path)


def _is_users(attribute: str) -> bool:
    """Whether a directory's owner may have set it: lists of who may what are the `system` ones."""
    return attribute.startswith(("user.", "system."))


def _was_emptied(path: str) -> bool:
    status = os.lstat(path)
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_own and stat.S_IMODE(status.st_mode) == 0o700 and not os.listdir(path)


def remove(path: str) -> None:
    """Remove the sandbox: any depth, any permissions, any names; links are removed, never followed.

    A directory that is not empty has its subdirectories moved up to the top, so that neither path lengths, nor the
    stack, nor the number of open files set a limit to the depth. Root takes each directory before it looks into it: a
    process of the account that holds it open could else fill it for ever.
    """
    if (top := _open_top(path)) is None:
        return
    try:
        _clear(top)
    finally:
        os.close(top)
    os.rmdir(path)


def _open_top(path: str) -> int | None:
    try:
        return os.open(path, _DIRECTORY)
    except FileNotFoundError:
        return None
    except PermissionError:
        os.chmod(path, 0o700)
        return os.open(path, _DIRECTORY)


def _clear(top: int) -> None:
    _take(top)
    numbers = iter(range(1 << 62))
    while _thin(top, numbers):
        pass


def _thin(top: int, numbers: Iterator[int]) -> bool:
    """Remove one layer of what is at the top; whether that has left anything there."""
    left = False
    for name in os.listdir(top):
        if _unlink(top, name):
            continue
        inner = _open_directory(top, name)
        try:
            for child in os.listdir(inner):
                if not _unlink(inner, child):
                    _move_up(inner, child, top, numbers)
                    left = True
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=top)
    return left


def _unlink(directory: int, name: str) -> bool:
    """Remove a file or an empty directory; False when it is a directory with something in it."""
    try:
        os.unlink(name, dir_fd=directory)
    # unlink of a directory is EISDIR on Linux, and EPERM by POSIX.
    except (IsADirectoryError, PermissionError):
        try:
            os.rmdir(name, dir_fd=directory)
        except OSError:
            return False
    return True


def _open_directory(parent: int, name: str) -> int:
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    _take(fd)
    return fd


def _take(directory: int) -> None:
    """Let nobody else put anything into a directory from now on."""
    # The job may have taken its own rights away.
    os.fchmod(directory, 0o700)
    if os.geteuid() == 0:
        with suppress(PermissionError):  # a file system that knows no root, or root without the right
            os.fchown(directory, 0, 0)


def _move_up(inner: int, name: str, top: int, numbers: Iterator[int]) -> None:
    os.close(_open_directory(inner, name))  # moving a directory needs the right to write into it
    while True:
        target = f".removed-{next(numbers)}"
        try:
            os.stat(target, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, target, src_dir_fd=inner, dst_dir_fd=top)
            return
