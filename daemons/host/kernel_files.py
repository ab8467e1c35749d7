"""Files of the kernel's own file systems, which are read and written whole."""

from __future__ import annotations

import os
from typing import Final

_READ_BYTES: Final = 16384


def read_file(path: str) -> str:
    """A file of the kernel's, without the dozen calls that Python's file objects make."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = b""
        # A long cgroup.procs comes in several reads.
        while part := os.read(fd, _READ_BYTES):
            text += part
    finally:
        os.close(fd)
    return text.decode("ascii", "replace")


def read_open_file(fd: int) -> str:
    """The same of a file that is kept open: to open one of a control group costs the kernel more than to read it."""
    text = b""
    while part := os.pread(fd, _READ_BYTES, len(text)):
        text += part
    return text.decode("ascii", "replace")


def write_file(path: str, value: str) -> None:
    """One value, in the one write that the kernel wants."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode("ascii"))
    finally:
        os.close(fd)
