"""Where this process may make control groups: found out by making one.

The startd asks once per machine, at its start; starters are told the answer. A tree of version 2 wants all processes in
leaves (cgroups(7), "no internal processes"), so the daemons move into a leaf of their own before a group beside it is
given controllers.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from pathlib import PurePath
from typing import Final

from daemons.host.kernel_files import read_file, write_file
from daemons.host.mounts import mount_lines
from pool.execute.cgroup import (
    CONTROLLERS_V2,
    UNLIMITED,
    Trees,
    all_trees,
)

MOVE_ROUNDS_MAX: Final = 20
"""How often processes that were forked while others were moved are moved too."""


def usable_trees(base: str) -> Trees:
    """The trees in which this process may make groups below `base`; version 0 when there are none (no error)."""
    try:
        there = all_trees(mount_lines())
    except OSError:
        return Trees(0)
    for trees in there:
        try:
            usable = _usable_v1(trees, base) if trees.version == 1 else _usable_v2(trees, base)
        except OSError:
            continue
        if usable.version:
            return usable
    return Trees(0)


def _usable_v1(trees: Trees, base: str) -> Trees:
    usable: list[tuple[str, str]] = []
    for controller, mount in trees.mounts:
        try:
            _make(mount, base)
            _probe(os.path.join(mount, base))
        except OSError:
            continue
        usable.append((controller, mount))
    return Trees(1, tuple(usable), frozenset(name for name, _ in usable)) if usable else Trees(0)


def _usable_v2(trees: Trees, base: str) -> Trees:
    """The root when we own it; else our own group, out of whose way all its processes are moved first."""
    mount = trees.mount("") or ""
    own = _own_group_v2(mount)
    # Version 2 gives controllers only to groups that have no processes themselves, the root alone excepted.
    if own != mount:
        _hand_down(mount, own)
        leaf = os.path.join(own, "minipool-daemons")
        _make(own, "minipool-daemons")
        _move_all(own, leaf)
    parts = [own]
    for part in base.strip("/").split("/"):
        parts.append(os.path.join(parts[-1], part))
    for parent, child in itertools.pairwise(parts):
        _enable(parent)
        _make(parent, os.path.basename(child))
    _enable(parts[-1])
    _probe(parts[-1])
    _protect(parts[-1])
    return Trees(2, (("", own),), frozenset(read_file(os.path.join(parts[-1], "cgroup.subtree_control")).split()))


def _move_all(group: str, leaf: str) -> None:
    """Move all processes; who is forked meanwhile comes in the next round, and who ends meanwhile is out of the way."""
    for _ in range(MOVE_ROUNDS_MAX):
        pids = read_file(os.path.join(group, "cgroup.procs")).split()
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                write_file(os.path.join(leaf, "cgroup.procs"), pid)


def _own_group_v2(mount: str) -> str:
    for line in read_file("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            path = line[3:]
            own = os.path.normpath(mount + path)
            # In a container the path may be that of the host's tree, which is not to be seen here.
            return mount if path == "/" or not os.path.isdir(own) else own.removesuffix("/minipool-daemons")
    return mount


def _enable(group: str) -> None:
    """Give all controllers that there are to the groups below."""
    there = read_file(os.path.join(group, "cgroup.controllers")).split()
    for controller in CONTROLLERS_V2:
        if controller in there:
            write_file(os.path.join(group, "cgroup.subtree_control"), f"+{controller}")


def _hand_down(mount: str, own: str) -> None:
    """Give our group what the groups above it have: systemd hands a service without Delegate= only some controllers.

    Root can; an account to which its group was delegated cannot, and does with what it was given.
    """
    given = read_file(os.path.join(own, "cgroup.controllers")).split()
    above = [*reversed(PurePath(own).relative_to(mount).parents)]
    for controller in CONTROLLERS_V2:
        if controller not in given:
            with suppress(OSError):
                for group in above:
                    write_file(os.path.join(mount, group, "cgroup.subtree_control"), f"+{controller}")


def _make(above: str, inner: str) -> None:
    """A group below another, which jobs may look into, whatever this process's umask."""
    for part in inner.strip("/").split("/"):
        above = os.path.join(above, part)
        with suppress(FileExistsError):  # made before, or just now by another startd of this machine
            os.mkdir(above)
            os.chmod(above, 0o755)


def _protect(group: str) -> None:
    """What jobs' groups are protected by (`memory.low`) holds only as far as that of the group above them does."""
    try:
        write_file(os.path.join(group, "memory.low"), UNLIMITED)
    except OSError:  # no memory controller
        pass


def _probe(group: str) -> None:
    """OSError unless groups can be made here."""
    test = os.path.join(group, f"probe-{os.getpid()}")
    os.mkdir(test)
    os.rmdir(test)
