"""The C library's heap: one for all threads of a process.

Each thread would else have one of its own, in which what others free leaves gaps: a startd then grows for ever by
half a megabyte with 10,000 jobs. A daemon has few threads, of which one works most of the time. Children inherit it by
fork; a program that is executed, such as a job, does not.

Source: mallopt(3) on M_ARENA_MAX.
"""

from __future__ import annotations

import ctypes
from typing import Final

M_ARENA_MAX: Final = -8


def share_heap() -> None:
    """From now on this process makes no further heap."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have one heap anyway
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)
