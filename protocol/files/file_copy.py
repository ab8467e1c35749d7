"""A file that was handed over open is copied piece by piece within the kernel.

The bytes pass through no process: `copy_file_range` where both files are on one file system (some then share the blocks
and copy nothing), `sendfile` elsewhere, plain reading and writing where the target is not a file. Holes stay holes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from pool.base.errors import PeerError

PIECE_BYTES: Final = 8 * 1024 * 1024
"""How much is copied at once: between pieces a process without threads sees to its other work."""
_PLAIN_BYTES: Final = 1024 * 1024
_NOWHERE: Final = os.makedev(1, 3)
"""The null device, to which nothing needs to be copied."""
_NOT_SO: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM})
"""What the kernel says when these two files cannot be copied in this way."""


class FileChanged(PeerError):
    """A file is no longer as long as it was said to be."""


class Way(StrEnum):
    """How the bytes get from one file into the other; each way gives room to the next one when it cannot be gone."""

    RANGE = "copy_file_range, without holes"
    SEND = "sendfile, without holes"
    PLAIN = "read and write, one byte after the other"


def is_new_space(descriptor: int) -> bool:
    """Whether nothing is where this file will be written, so that a hole in it reads as zeros."""
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and os.lseek(descriptor, 0, os.SEEK_CUR) >= status.st_size


def begin_copy(source: int, target: int, size: int) -> tuple[int, int, Way]:
    """From where to where `size` bytes go, and which way to try first; PeerError when the source is no file.

    The target says where it stands, which is the same place in both.
    """
    if not stat.S_ISREG(os.fstat(source).st_mode):
        raise PeerError("what was handed over is not a regular file")
    status = os.fstat(target)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == _NOWHERE:
        return size, size, Way.PLAIN
    at = os.lseek(target, 0, os.SEEK_CUR) if stat.S_ISREG(status.st_mode) else 0
    return at, at + size, Way.RANGE if is_new_space(target) else Way.PLAIN


def copy_piece(source: int, target: int, at: int, end: int, way: Way) -> tuple[int, Way]:
    """Copy the bytes from `at` on, a piece at most; where the next one begins, and the way that was found to go."""
    if way is not Way.PLAIN:
        begins, ends = _data(source, at, end)
        if begins > at:
            # Longer by a hole: nothing is written where nothing is.
            os.ftruncate(target, begins)
            at = begins
        count = min(ends - begins, PIECE_BYTES)
        if way is Way.RANGE and count:
            if moved := _kernel_copy(os.copy_file_range, source, target, count, at, at):
                return at + moved, way
            way = Way.SEND
        os.lseek(target, at, os.SEEK_SET)  # where the ways below write
        if count and (moved := _kernel_copy(os.sendfile, target, source, at, count)):
            return at + moved, way
        if not count:
            return at, way
    return at + _copy_plain(source, target, at, end), Way.PLAIN


def _kernel_copy(call: Callable[..., int], *args: int) -> int:
    """How many bytes were copied; 0 when these files cannot be copied in this way."""
    try:
        return call(*args)
    except OSError as error:
        # A full disk is one for every way; only "not in this way" leads to the next.
        if error.errno not in _NOT_SO:
            raise
        return 0


def _data(source: int, at: int, end: int) -> tuple[int, int]:
    """The next part of the file that is no hole; two times `end` when there is none."""
    try:
        begins = os.lseek(source, at, os.SEEK_DATA)
        if begins >= end:
            return end, end
        return begins, min(os.lseek(source, begins, os.SEEK_HOLE), end)
    except OSError as error:
        if error.errno != errno.ENXIO:
            return at, end  # this file system does not tell
    length = max(os.fstat(source).st_size, at)
    if length < end:
        raise _too_short(end - length, end)
    return end, end


def _copy_plain(source: int, target: int, at: int, end: int) -> int:
    data = os.pread(source, min(end - at, _PLAIN_BYTES), at)
    if not data:
        raise _too_short(end - at, end)
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return len(data)


def _too_short(left: int, end: int) -> FileChanged:
    return FileChanged(f"the file ends {left} bytes early", expected=f"{end} bytes")
