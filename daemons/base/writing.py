"""Bytes into files, all of them: one `write` may take fewer than it is given."""

from __future__ import annotations

import os
from contextlib import suppress


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, or raise OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def append_whole(fd: int, data: bytes) -> None:
    """All of it or nothing: a full disk must not leave half a record at the end of the file."""
    before = os.fstat(fd).st_size
    try:
        write_all(fd, data)
    except OSError:
        with suppress(OSError):  # the first error is the one to tell
            os.ftruncate(fd, before)
        raise
