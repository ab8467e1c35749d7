"""The kinds of volumes that are mounted on the sandbox: what they share."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Final

from daemons.base.faults import fault
from daemons.host.mounts import mounted_below
from daemons.host.namespaces import IsolationError, OwnMounts, mount, unmount
from daemons.host.volumes.volume import ScratchError, Used, Volume, VolumeOrder

_MS_NOSUID, _MS_NODEV, _MS_NOATIME = 2, 4, 1024
EXT4_OPTIONS: Final = "barrier=0"
"""What is in such a file system is of no use after a crash of the machine."""


class Mounted(Volume):
    """A file system of the sandbox's own."""

    file_system = "ext4"
    options = EXT4_OPTIONS

    def __init__(self, order: VolumeOrder) -> None:
        super().__init__(order)
        self._mounts: OwnMounts | None = None
        self._there = False
        self._files_before = 0

    @abstractmethod
    def attach(self) -> str:
        """What is to be mounted: a device with a file system on it."""

    def attached(self) -> None:
        """It is mounted: what was needed to come here may go."""

    @abstractmethod
    def detach(self) -> None:
        """Give the device back, which is not mounted any more."""

    def make(self) -> None:
        """Hide, attach, mount, and hand over to the account."""
        order = self.order
        try:
            if order.hidden:
                self._mounts = OwnMounts(os.path.dirname(order.sandbox))
            source = self.attach()
            fault("starter.scratch_attached")
            flags = _MS_NOSUID | _MS_NODEV | _MS_NOATIME
            mount(source, order.sandbox, kind=self.file_system, flags=flags, options=self.options)
            self._there = True
            self.attached()
        except (IsolationError, OSError) as error:
            self._give_up()
            raise ScratchError(f"the job's file system cannot be made: {error}") from None
        except ScratchError:
            self._give_up()
            raise
        self._hand_over()
        fault("starter.scratch_mounted")

    def _hand_over(self) -> None:
        order = self.order
        try:
            # mke2fs makes it, and it would be found among the job's output.
            os.rmdir(os.path.join(order.sandbox, "lost+found"))
        except OSError:
            pass
        os.chmod(order.sandbox, 0o700)
        if order.account.switches:
            os.chown(order.sandbox, order.account.uid, order.account.gid)
        self._files_before = self._look()[1]

    def _look(self) -> tuple[int, int, bool]:
        seen = os.statvfs(self.order.sandbox)
        full = not seen.f_bavail or (seen.f_files > 0 and not seen.f_ffree)
        # Where nothing is left to the job, what the file system keeps back counts as used.
        used = seen.f_blocks if not seen.f_bavail else seen.f_blocks - seen.f_bfree
        return used * seen.f_frsize, seen.f_files - seen.f_ffree, full

    def used(self) -> Used:
        """As the file system counts."""
        used, files, full = self._look()
        return Used(used, max(0, files - self._files_before), full)

    def remove(self) -> None:
        """Unmount, detach, be outside again."""
        problem = ""
        try:
            if self._there:
                # What the job has mounted inside, in a namespace of its own, is not seen here and goes with its last
                # process.
                for path in mounted_below(self.order.sandbox):
                    unmount(path)
                self._there = False
            fault("starter.scratch_unmounted")
            self.detach()
        except (IsolationError, OSError) as error:
            problem = str(error)
        finally:
            if self._mounts is not None:
                self._mounts.leave()
                self._mounts = None
        if problem:
            raise ScratchError(problem)

    def _give_up(self) -> None:
        try:
            self.remove()
        except ScratchError:  # what stays is found by its name; the first problem is the one to tell
            pass
