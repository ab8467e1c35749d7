"""Many objects are being made that are no garbage: the collector shall look at none of them, then or later.

    with no_garbage():
        ...  # a million jobs

Each of its looks at all objects holds up the loop, the longer the more there are.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_blocks = 0


@contextmanager
def no_garbage(*, when: bool = True) -> Iterator[None]:
    """For the time of the block, in which other tasks may run, nothing is collected; what is there then never is."""
    global _blocks
    if not when:
        yield
        return
    _blocks += 1
    gc.disable()
    try:
        yield
    finally:
        _blocks -= 1
        # Out of the collector's sight for good, before it is switched on again.
        gc.freeze()
        if not _blocks:
            gc.enable()
