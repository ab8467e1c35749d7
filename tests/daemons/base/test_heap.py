"""One heap for all threads of a daemon."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

THREAD_ALLOCATES = """
import ctypes, threading
from daemons.base.heap import share_heap
{first}
thread = threading.Thread(target=lambda: bytearray(4000))
thread.start()
thread.join()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_stats"), reason="not the GNU C library")
@pytest.mark.parametrize(("first", "heaps"), [("", 2), ("share_heap()", 1)])
def test_threads_share_one_heap(first: str, heaps: int) -> None:
    program = [sys.executable, "-c", THREAD_ALLOCATES.format(first=first)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.count("Arena ") == heaps
