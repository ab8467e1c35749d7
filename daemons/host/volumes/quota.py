"""A sandbox under a project quota, where EXECUTE is on XFS or ext4 that was mounted with them (prjquota)."""

from __future__ import annotations

import os
from typing import Final

from daemons.host import sandbox
from daemons.host.mounts import mounts
from daemons.host.volumes import rootly
from daemons.host.volumes.volume import ScratchError, Used, Volume, VolumeOrder
from pool.base.ids import is_number

FIRST_PROJECT: Final = 0x5A000000
LAST_PROJECT: Final = 0x5AFFFFFF
"""A starter's project is the first one plus its process id; what has another number is not ours."""
INODE_BYTES: Final = 16384


class ProjectQuota(Volume):
    """The directory itself: all that is made in it counts."""

    def __init__(self, order: VolumeOrder) -> None:
        super().__init__(order)
        self._project = 0
        self._files_before = 0

    def make(self) -> None:
        """Give the directory a project of its own, and that a limit."""
        order = self.order
        project = FIRST_PROJECT + _number(order.sandbox)
        try:
            rootly.limit_project(device_of(order.sandbox), project, order.bytes, order.bytes // INODE_BYTES + 64)
            self._project = project
            rootly.set_project(order.sandbox, project)
            seen = os.statvfs(order.sandbox)
        except OSError as error:
            raise ScratchError(f"{order.sandbox}: {error.strerror}") from None
        # Quotas that are counted and not enforced look the same to quotactl; statvfs shows the limit only where it
        # holds.
        if seen.f_blocks * seen.f_frsize > order.bytes + 65536:
            raise ScratchError(f"{order.sandbox}: the limit of a project does not show; it is not enforced here")
        self._files_before = seen.f_files - seen.f_ffree

    def used(self) -> Used:
        """A directory with a limit shows what is left of that.

        XFS counts what it keeps beyond the ends of growing files, and gives that back before it refuses a write.
        """
        seen = os.statvfs(self.order.sandbox)
        used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
        if used > self.order.bytes // 2:
            used = min(used, sandbox.disk_usage(self.order.sandbox, ahead=False)[0])
        files = max(0, seen.f_files - seen.f_ffree - self._files_before)
        return Used(used, files, not seen.f_ffree)

    def remove(self) -> None:
        """Lift the limit; what counted goes with the files."""
        if self._project:
            rootly.limit_project(device_of(self.order.sandbox), self._project, 0, 0)
            self._project = 0


def lift(directory: str) -> None:
    """Lift the limit that a dead starter has set, if it has."""
    try:
        project = rootly.project_of(directory)
    except OSError:
        return
    if FIRST_PROJECT <= project <= LAST_PROJECT:
        rootly.limit_project(device_of(directory), project, 0, 0)


def device_of(directory: str) -> str:
    """The block device of a directory's file system."""
    number = os.stat(directory).st_dev
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for one in mounts():
        if one.device == wanted:
            return one.source
    raise ScratchError(f"{directory} is on no device that is mounted here")


def _number(path: str) -> int:
    digits = os.path.basename(path).rpartition("_")[2]
    # A process id has 22 bits at most (PID_MAX_LIMIT).
    return int(digits) & 0xFFFFFF if is_number(digits) else 0
