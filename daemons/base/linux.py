"""The few calls of Linux that Python's library does not have.

What a process may do and is, by prctl(2) and capset(2); who is below whom, by the files of /proc; and who has ended,
by waitpid(2). Nothing here waits, and a process that is gone is an empty answer, not an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from pool.base.ids import is_number

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

# The kernel may be built without CONFIG_PROC_CHILDREN; then every process has to be looked at.
_HAS_CHILDREN_FILE: Final = Path(f"/proc/self/task/{os.getpid()}/children").exists()

CAP_DAC_OVERRIDE: Final = 1
_CAPABILITIES_MAX: Final = 64
_CAPABILITY_VERSION_3: Final = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0))


def _check(answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """From now on, descendants whose parent dies become children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """The kernel kills this process when the one that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_memory() -> None:
    """Let no process of the same account trace this one, or read its memory, its descriptors or its environment.

    The kernel sees to that itself when a process gives root's rights up, unless fs.suid_dumpable says otherwise.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def leave_nothing_to_programs() -> None:
    """A program that a child executes gets no descriptor above standard error, and no capability, of this process's."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2:
                os.set_inheritable(int(name), False)
        except OSError:  # the one that read the directory
            continue
    try:
        # Ambient capabilities are the only ones that survive an execve without help from the file.
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError:  # a kernel without such capabilities
        pass


def never_gain_privileges() -> None:
    """No program that this process executes brings it rights that it does not have."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def keep_capabilities(kept: Collection[int]) -> None:
    """Give up all capabilities of this thread but these, for good. Call it while there is one thread."""
    for capability in range(_CAPABILITIES_MAX):
        if capability not in kept:
            try:
                # The bounding set too, or a set-user-id program of root's would bring them back.
                _prctl(_PR_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno != errno.EINVAL:  # beyond the last one that the kernel has
                    raise
    mask = sum(1 << capability for capability in kept)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    # Inheritable stays empty: what is executed gets none, whatever its file says.
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, struct.pack("=6I", low, low, 0, high, high, 0)))


def name_process(name: str) -> None:
    """What `ps`, `top` and `pgrep` call this process; Linux keeps the first 15 bytes."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _libc.prctl(_PR_SET_NAME, buffer, 0, 0, 0)


def children_of(pid: int) -> list[int]:
    """The direct children of a process; none when it is gone."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    # Each thread has its own children file; a child belongs to the thread that forked it.
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb", buffering=0) as file:
                found += map(int, file.readall().split())
        except OSError:
            continue
    return found


def threads_of(pid: int) -> list[int]:
    """The threads of a process, each of which has rights of its own; none when it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def descendants(root: int) -> set[int]:
    """Everybody below `root` in the process tree, zombies too."""
    if not _HAS_CHILDREN_FILE:
        return _descendants_by_scan(root)
    return _below(root, children_of)


def _descendants_by_scan(root: int) -> set[int]:
    """The same on a kernel without `children` files."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        fields = stat_fields(pid)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(pid)
    return _below(root, lambda pid: children.get(pid, []))


def _below(root: int, children: Callable[[int], list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children(waiting.pop()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def all_pids() -> list[int]:
    """Every process of the machine (of this pid namespace)."""
    return [int(name) for name in os.listdir("/proc") if is_number(name)]


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name: state, parent, group, session ...; None when it is gone.

    The kernel keeps the answer back while the process is being replaced by another program (execve), which can wait for
    whoever serves its files: such a one must not wait for the answer itself.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses is the process's own choice and may hold blanks and parentheses: the last one
            # counts.
            return file.read().rpartition(b") ")[2].decode("ascii").split()
    except OSError:
        return None


def status_fields(pid: int) -> dict[str, list[str]]:
    """The words of each field of /proc/PID/status; none when it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().decode("ascii", "replace").splitlines()
    except OSError:
        return {}
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def is_zombie(pid: int) -> bool:
    """Whether the process has ended (and, perhaps, still waits to be collected).

    Of its files this one is never kept back (`stat_fields`): whoever has to end a process can ask.
    """
    state = status_fields(pid).get("State")
    return state is None or state[0] in ("Z", "X")


def zombie_children() -> set[int]:
    """Children of this process that have ended and wait to be collected."""
    return {pid for pid in children_of(os.getpid()) if is_zombie(pid)}


def ended_children() -> Iterator[tuple[int, int]]:
    """Collect each child that has ended: its number and its wait status. Only for a process that collects all of its
    children itself."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # there is no child at all
            return
        if pid == 0:
            return
        yield pid, status


def reap(pid: int) -> None:
    """Collect a child that has ended, if nobody else has."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
