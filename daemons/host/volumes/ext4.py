"""A sandbox that is a file: ext4 over a loop device, everywhere where root may mount.

The file never has a name where the file system can do without, and the device lets go of it when it is unmounted. So,
whoever is killed whenever, the space comes back with the last process that sees the mount.
"""

from __future__ import annotations

import errno
import os

from daemons.host.volumes import rootly
from daemons.host.volumes.dm_crypt import Mapping
from daemons.host.volumes.mounted import Mounted
from daemons.host.volumes.tools import run
from daemons.host.volumes.volume import ScratchError, VolumeOrder

SUFFIX = ".disk"
"""The file of `dir_7` is `dir_7.disk` for as long as it has a name."""
_CANNOT = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


class LoopExt4(Mounted):
    """A file in EXECUTE, as large as the slot's disk: all of it is taken when the job starts."""

    def __init__(self, order: VolumeOrder) -> None:
        super().__init__(order)
        self._device = -1
        self._mapping: Mapping | None = None

    def attach(self) -> str:
        """The file, its device, the key in between if there has to be one, and the file system."""
        file = self._file()
        try:
            path, self._device = rootly.attach(file)
        finally:
            os.close(file)
        if self.order.encrypted:
            self._mapping = Mapping(self.order.name, self.order.sandbox)
            path = self._mapping.open(path)
        make_ext4(path, self.order.sandbox)
        return path

    def attached(self) -> None:
        """The mount holds the device now, and nobody else does."""
        os.close(self._device)
        self._device = -1

    def detach(self) -> None:
        """Unmounted, the device goes by itself; one that was never mounted, when it is closed."""
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
        if self._device >= 0:
            self.attached()

    def _file(self) -> int:
        order = self.order
        fd = nameless(os.path.dirname(order.sandbox), order.sandbox + SUFFIX)
        try:
            try:
                # All blocks now: a job must not meet a full EXECUTE within the size that it was given.
                os.posix_fallocate(fd, 0, order.bytes)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                os.ftruncate(fd, order.bytes)
        except OSError as error:
            os.close(fd)
            said = os.strerror(error.errno or 0)
            raise ScratchError(
                f"{os.path.dirname(order.sandbox)} has no room for {order.disk_kib} KiB: {said}"
            ) from None
        return fd


def nameless(directory: str, name: str) -> int:
    """A new file without a name; where there is no such thing, one whose name was there for a moment."""
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.unlink(name)
    return fd


def make_ext4(device: str, sandbox: str) -> None:
    """A file system without a journal, and with nothing kept back for root."""
    kind = ["-t", "ext4", "-b", "4096", "-i", "16384", "-I", "256", "-m", "0"]
    # Nothing in it outlives a crash, so a journal would be written for nobody.
    features = ["-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard"]
    run(["mke2fs", "-q", "-F", *kind, *features, "-L", "condor_scratch", device], sandbox)
