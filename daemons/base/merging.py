"""Equal pages of memory, which the kernel may merge (KSM): what a fork shared is there once again.

Python writes to what it only reads: calling a function counts references to it. So processes that were forked from one
soon have a copy each of pages that are equal again, or equal to those of all others that do the same. Where it is
switched on, the kernel looks for such pages in memory that was marked for it, and keeps them once. A program that is
executed, such as a job, is not marked.

Source: madvise(2) on MADV_MERGEABLE; Documentation/admin-guide/mm/ksm.rst of Linux.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

MADV_MERGEABLE: Final = 12
SWITCH: Final = Path("/sys/kernel/mm/ksm/run")

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def mark_memory() -> None:
    """What this process has in memory now may be merged, here and in all that it forks from now on."""
    with open("/proc/self/maps", "rb") as file:
        mappings = [line.split(maxsplit=2) for line in file]
    for span, permissions, _ in mappings:
        if permissions == b"rw-p":
            begin, end = (int(address, 16) for address in span.split(b"-"))
            _madvise(begin, end - begin, MADV_MERGEABLE)  # a kernel that merges nothing refuses


def switch_on() -> None:
    """Let the kernel of this machine merge whatever is marked, until somebody switches that off; OSError."""
    if SWITCH.read_text(encoding="ascii").strip() != "1":
        SWITCH.write_text("1", encoding="ascii")
