"""The calls on devices and quotas that sized sandboxes need, all of them root's: loop devices, project quotas.

Nothing here decides anything, and no path here is a job's: devices are the kernel's, directories are the daemon's own.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from daemons.host.volumes.volume import ScratchError

_libc = ctypes.CDLL(None, use_errno=True)

# ---- loop devices

_LOOP_SET_FD, _LOOP_CLR_FD, _LOOP_SET_STATUS64 = 0x4C00, 0x4C01, 0x4C04
_LOOP_CTL_GET_FREE: Final = 0x4C82
_LO_FLAGS_AUTOCLEAR: Final = 4
_LOOP_INFO: Final = struct.Struct("=QQQQQIIII64s64s32s2Q")
_LOOP_MAJOR: Final = 7
_TRIES_MAX: Final = 64


def attach(backing: int, *, stays: bool = False) -> tuple[str, int]:
    """A loop device over an open file, and its descriptor. Unused, it lets go of the file, unless it `stays`."""
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ScratchError(f"/dev/loop-control: {error.strerror}") from None
    flags = 0 if stays else _LO_FLAGS_AUTOCLEAR
    try:
        # LOOP_CTL_GET_FREE promises nothing: another process may take the same number first.
        for _ in range(_TRIES_MAX):
            number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
            path = f"/dev/loop{number}"
            if not os.path.exists(path):  # in a container: the kernel has made it where nobody sees it
                with suppress(FileExistsError):  # another process has just made it
                    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(_LOOP_MAJOR, number))
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _LOOP_SET_FD, backing)
            except OSError:
                os.close(device)
                continue  # somebody else was faster
            try:
                info = _LOOP_INFO.pack(0, 0, 0, 0, 0, number, 0, 0, flags, b"", b"", b"", 0, 0)
                fcntl.ioctl(device, _LOOP_SET_STATUS64, info)
            except OSError:
                fcntl.ioctl(device, _LOOP_CLR_FD)
                os.close(device)
                raise
            return path, device
    except OSError as error:
        raise ScratchError(f"no loop device can be had: {error.strerror}") from None
    finally:
        os.close(control)
    raise ScratchError("no loop device can be had: all are taken at once")


def detach(device: str) -> None:
    """Have a loop device that stays let go of its file."""
    try:
        fd = os.open(device, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(fd, _LOOP_CLR_FD)
        finally:
            os.close(fd)
    except OSError as error:
        raise ScratchError(f"{device}: {error.strerror}") from None


def device_over(file: str) -> str | None:
    """The loop device over a file, if there is one."""
    wanted = os.stat(file)
    for name, path in _loops():
        with suppress(OSError):  # it was unlinked
            if os.path.samestat(os.stat(path), wanted):
                return f"/dev/{name}"
    return None


def backing_files() -> list[str]:
    """The files of all loop devices, as the kernel names them."""
    return [path for _, path in _loops()]


def _loops() -> Iterator[tuple[str, str]]:
    """Each loop device that has a file, and the file."""
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file") as said:
                path = said.read().rstrip("\n")
        except OSError:  # a device of another kind, or one that has let go of its file
            continue
        yield name, path


# ---- project quotas

_FS_IOC_FSGETXATTR, _FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820
_XATTR: Final = struct.Struct("=IIIII8s")
_PROJINHERIT: Final = 0x200
_Q_SETQUOTA: Final = 0x800008
_PRJQUOTA: Final = 2
_QIF_LIMITS: Final = 5  # of blocks and of inodes
_DQBLK: Final = struct.Struct("=8QI4x")
_DQ_BLOCK: Final = 1024


def project_of(directory: str) -> int:
    """The project that new files of a directory belong to; 0: none."""
    fd = _open_directory(directory)
    try:
        flags, _, _, project, _, _ = _XATTR.unpack(fcntl.ioctl(fd, _FS_IOC_FSGETXATTR, bytes(_XATTR.size)))
        return int(project) if flags & _PROJINHERIT else 0
    except OSError:
        return 0
    finally:
        os.close(fd)


def set_project(directory: str, project: int) -> None:
    """What is made in the directory from now on counts for the project."""
    fd = _open_directory(directory)
    try:
        flags, size, extents, _, cow, pad = _XATTR.unpack(fcntl.ioctl(fd, _FS_IOC_FSGETXATTR, bytes(_XATTR.size)))
        fcntl.ioctl(fd, _FS_IOC_FSSETXATTR, _XATTR.pack(flags | _PROJINHERIT, size, extents, project, cow, pad))
    except OSError as error:
        raise ScratchError(f"{directory} cannot be given a project: {error.strerror}") from None
    finally:
        os.close(fd)


def limit_project(device: str, project: int, limit: int, files: int) -> None:
    """How many bytes and files a project may have on a device; 0: as many as there is room for."""
    blocks = -(-limit // _DQ_BLOCK)
    limits = _DQBLK.pack(blocks, blocks, 0, files, files, 0, 0, 0, _QIF_LIMITS)
    # QCMD(cmd, type) of the kernel's quota.h.
    command = ctypes.c_int((_Q_SETQUOTA << 8) | _PRJQUOTA)
    if _libc.quotactl(command, os.fsencode(device), ctypes.c_int(project), limits) != 0:
        raise ScratchError(f"quotas of projects on {device}: {os.strerror(ctypes.get_errno())}")


def _open_directory(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
