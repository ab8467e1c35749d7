"""The volume group that logical volumes are made in: the site's, or one over LVM_BACKING_FILE, the startd's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from daemons.host.volumes import rootly
from daemons.host.volumes.lvm import QUIETLY, TAG
from daemons.host.volumes.tools import run
from daemons.host.volumes.volume import ScratchError

MIB: Final = 1024 * 1024
_REPORT: Final = ("--noheadings", "--nosuffix", "--units", "b", "--separator", "|")


@dataclass(frozen=True)
class Size:
    """Of a volume group or a thin pool, in bytes: all of it, what others have of it, and the least it gives."""

    total: int
    others: int
    quantum: int


def size_of(group: str, pool: str) -> Size:
    """How large it is; ScratchError when there is no such group or pool."""
    fields = run(["vgs", *_REPORT, "-o", "vg_size,vg_extent_size", group]).strip().split("|")
    total, quantum = (int(float(field)) for field in fields)
    others = 0
    for line in run(["lvs", *_REPORT, "-o", "lv_name,lv_size,pool_lv,lv_tags", group]).splitlines():
        name, size, inside, tags = (field.strip() for field in line.strip().split("|"))
        if pool and name == pool:
            total = int(float(size))
        elif TAG not in tags.split(",") and inside.strip("[]") == pool:
            others += int(float(size))
    if pool and not _has(group, pool):
        raise ScratchError(f"there is no thin pool {pool} in {group}")
    return Size(total, others, quantum)


def _has(group: str, name: str) -> bool:
    try:
        run(["lvs", f"{group}/{name}"])
    except ScratchError:
        return False
    return True


@dataclass(frozen=True)
class BackingFile:
    """A file with a volume group in it, which is the startd's own."""

    path: str
    size_mb: int
    group: str
    pool: str = ""

    def prepare(self) -> None:
        """Have the group there and empty; what an earlier life left in it is removed."""
        device = self._device()
        self._dissolve_group()
        run(["pvcreate", "--yes", "-ff", device])
        run(["vgcreate", "--autobackup", "n", self.group, device])
        if self.pool:
            kind = ["--type", "thin-pool", "-l", "100%FREE"]
            run(["lvcreate", *QUIETLY, *kind, "-n", self.pool, self.group])

    def remove(self) -> None:
        """The startd ends: the group, the device and the file go."""
        if not os.path.exists(self.path):
            return
        self._dissolve_group()
        device = rootly.device_over(self.path)
        if device is not None:
            run(["pvremove", "--yes", "--force", "--force", device])
            rootly.detach(device)
        os.unlink(self.path)

    def _device(self) -> str:
        # LVM keeps some of the file for itself.
        wanted = self.size_mb * MIB * 102 // 100
        if not os.path.exists(self.path):
            self._fill(wanted)
        elif os.path.getsize(self.path) < wanted:
            raise ScratchError(f"{self.path} has less than the {self.size_mb} MiB of LVM_BACKING_FILE_SIZE_MB")
        if (device := rootly.device_over(self.path)) is not None:
            return device
        backing = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            device, descriptor = rootly.attach(backing, stays=True)
        finally:
            os.close(backing)
        os.close(descriptor)
        return device

    def _fill(self, size: int) -> None:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            os.unlink(self.path)
            raise ScratchError(f"{self.path} cannot have {size // MIB} MiB: {error.strerror}") from None
        finally:
            os.close(fd)

    def _dissolve_group(self) -> None:
        try:
            run(["vgs", self.group])
        except ScratchError:
            return
        run(["vgremove", "--yes", "--force", self.group])
