"""Namespaces of jobs: the one module that unshares and mounts. All of it is root's.

The starter itself steps into new namespaces for the moment in which it makes the job's first process, and back. What it
mounts there ends with the job's last process, and nobody else ever sees it. A directory that a job's account names is
opened with that account's rights, and mounted by its descriptor: nothing is reached that the account does not reach.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from daemons.starter.account import Account, acting_as
from pool.errors import PoolError
from pool.execute.isolation import Isolation

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWPID: Final = 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
_CAP_SYS_ADMIN: Final = 21
_LOST: Final = 72
"""The exit status of a starter that cannot leave its job's namespaces."""
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class IsolationError(PoolError):
    """The job cannot be kept apart as it has to be."""


@cache
def can_isolate() -> bool:
    """Whether this process may make namespaces and mounts."""
    if os.geteuid() != 0:
        return False
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> _CAP_SYS_ADMIN & 1)
    return False


@contextmanager
def inside(isolation: Isolation, account: Account) -> Iterator[None]:
    """Be in the job's namespaces inside the `with`, in which nothing may be awaited.

    A process that is made there is the first one of its pid namespace, if the job has one; it mounts /proc itself
    (`mount_proc`). IsolationError says what could not be made.
    """
    if not isolation.wanted:
        yield
        return
    kinds = _CLONE_NEWNS | (_CLONE_NEWPID if isolation.processes else 0)
    with ExitStack() as opened:
        here = _opened(opened, ".", os.O_PATH | os.O_CLOEXEC)
        mounts = _opened(opened, "/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        pids = _opened(opened, "/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        _call("unshare", _libc.unshare(kinds))
        try:
            _furnish(isolation, account)
            yield
        finally:
            try:
                _call("setns", _libc.setns(mounts, _CLONE_NEWNS))
                if isolation.processes:
                    _call("setns", _libc.setns(pids, _CLONE_NEWPID))
                os.fchdir(here)
            except (PoolError, OSError):
                os._exit(_LOST)  # neither here nor there: the startd sweeps


def _opened(stack: ExitStack, path: str, flags: int) -> int:
    fd = os.open(path, flags)
    stack.callback(os.close, fd)
    return fd


def _furnish(isolation: Isolation, account: Account) -> None:
    """Mount what the job is to see."""
    mount("none", "/", flags=_MS_REC | _MS_SLAVE)
    with ExitStack() as opened:
        places = [
            (directory, _behind(opened, isolation.behind(directory), account))
            for directory in isolation.private
            if os.path.isdir(directory)
        ]
        if isolation.execute:
            _hide_others(isolation, _opened(opened, isolation.sandbox, _DIRECTORY))
        for directory, source in places:
            mount(f"/proc/self/fd/{source}", directory, flags=_MS_BIND, named=isolation.behind(directory))
    if isolation.shared_memory and os.path.isdir("/dev/shm"):
        mount("tmpfs", "/dev/shm", kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=1777")


def _behind(stack: ExitStack, path: str, account: Account) -> int:
    """The directory in the sandbox that the job finds in place of the machine's."""
    with acting_as(account):
        try:
            os.makedirs(path, exist_ok=True)
            fd = _opened(stack, path, _DIRECTORY)
            os.chmod(path, 0o1777)
        except OSError as error:
            raise IsolationError(f"cannot make the private directory {path}: {error.strerror}") from None
    return fd


def _hide_others(isolation: Isolation, sandbox: int) -> None:
    """Of all sandboxes leave the job's own to be seen."""
    mount("tmpfs", isolation.execute, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=0755,size=64k")
    os.makedirs(isolation.sandbox, 0o755)
    mount(f"/proc/self/fd/{sandbox}", isolation.sandbox, flags=_MS_BIND, named=isolation.sandbox)


def mount_proc() -> None:
    """Show the processes of the caller's pid namespace, and no others."""
    mount("proc", "/proc", kind="proc", flags=_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "", named: str = "") -> None:
    """mount(2), whose failure is told in words."""
    told = f"mounting {named or source} on {target}"
    arguments = (os.fsencode(text) if text else None for text in (source, target, kind))
    source_, target_, kind_ = arguments
    _call(told, _libc.mount(source_, target_, kind_, ctypes.c_ulong(flags), os.fsencode(options) if options else None))


def _call(what: str, result: int) -> None:
    if result != 0:
        raise IsolationError(f"{what}: {os.strerror(ctypes.get_errno())}")
