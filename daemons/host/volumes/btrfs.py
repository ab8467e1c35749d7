"""A sandbox that is a btrfs subvolume with a limit, where EXECUTE is on btrfs and its quotas are on."""

from __future__ import annotations

import os
from typing import Final

from daemons.host import sandbox
from daemons.host.volumes.tools import run
from daemons.host.volumes.volume import ScratchError, Used, Volume, VolumeOrder
from pool.base.ids import is_number

_ROOT_INODE: Final = 256
"""The inode number of each subvolume's top."""


class Subvolume(Volume):
    """A directory that counts as a whole."""

    poll_s = 5.0

    def __init__(self, order: VolumeOrder) -> None:
        super().__init__(order)
        self._made = False

    def make(self) -> None:
        """Put a subvolume in the directory's place."""
        order, path = self.order, self.order.sandbox
        # A subvolume is made by its name, which must be free.
        os.rmdir(path)
        try:
            run(["btrfs", "subvolume", "create", path], path)
        except ScratchError:
            os.mkdir(path, 0o700)
            raise
        self._made = True
        os.chmod(path, 0o700)
        if order.account.switches:
            os.chown(path, order.account.uid, order.account.gid)
        run(["btrfs", "qgroup", "limit", str(order.bytes), path], path)

    def used(self) -> Used:
        """What its files take, or what the file system has counted, where that is more."""
        found, files = sandbox.disk_usage(self.order.sandbox)
        counted = _counted(self.order.sandbox)
        return Used(max(found, counted), files, counted + _ROUGHLY >= self.order.bytes)

    def remove(self) -> None:
        """Delete the subvolume, and what was counted for it."""
        if self._made:
            delete(self.order.sandbox)
            self._made = False


_ROUGHLY: Final = 128 * 1024
"""A writer is refused when this much or less is left."""


def is_subvolume(path: str) -> bool:
    """Whether a directory is the top of a subvolume that lies in another one."""
    try:
        here, above = os.lstat(path), os.lstat(os.path.dirname(path))
    except OSError:
        return False
    # Without a mount: another file system's top may have the same number.
    return here.st_ino == _ROOT_INODE and here.st_dev != above.st_dev and not os.path.ismount(path)


def delete(path: str) -> None:
    """Delete a subvolume; one in which the job has made others is left to be emptied."""
    number = run(["btrfs", "inspect-internal", "rootid", path]).strip()
    try:
        run(["btrfs", "subvolume", "delete", path])
    except ScratchError:
        sandbox.remove(path)
    try:
        run(["btrfs", "qgroup", "destroy", f"0/{number}", os.path.dirname(path)])
    except ScratchError:  # newer kernels have done it
        pass


def _counted(path: str) -> int:
    """What the subvolume refers to, by the file system's last count; 0 when it cannot be asked."""
    try:
        said = run(["btrfs", "qgroup", "show", "-f", "--raw", path])
    except ScratchError:
        return 0
    for line in said.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0].startswith("0/") and is_number(fields[1]):
            return int(fields[1])
    return 0
