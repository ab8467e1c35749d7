"""Keeps a job from filling the file system of its sandbox where no file system of its own does that.

A job may use more disk than it asked for as long as there is plenty. When only the reserve is left, a job that has
taken more than that beyond its own is put on hold, and its space comes back; if it does not, the others that have taken
more than is left follow. Whoever is within what it asked for, or a little over it, is left alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Final

import trio

from daemons.starter.watch.figures import Figures
from pool.classad import ClassAd
from pool.execute.exit import Hold
from pool.execute.scratch import LATEST_LOOK_S, is_in_the_way, next_look_s, no_disk_left, reserve_bytes

MEASURING_SHARE: Final = 5
"""A fifth of the time may go into measuring a sandbox while the disk is nearly full."""


async def keep_reserve(
    sandbox: str, slot: ClassAd, reserved_mb: int, figures: Figures, put_on_hold: Callable[[Hold], None]
) -> None:
    """Look at the disk, the more often the fuller it is, until the job has to go, or this is cancelled."""
    allocated = (slot.eval_int("Disk") or 0) << 10
    measuring_s, short_since = 0.0, math.inf
    while allocated and os.path.isdir(sandbox):
        system = os.statvfs(sandbox)
        free, size = system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize
        reserve = reserve_bytes(reserved_mb, size)
        if free < reserve:
            began = trio.current_time()
            short_since = min(short_since, began)
            figures.measure_disk()
            used = figures.usage.disk_now
            if is_in_the_way(used, allocated, free, reserve, for_s=began - short_since):
                put_on_hold(no_disk_left(allocated, used, free))
                return
            measuring_s = trio.current_time() - began
        else:
            short_since = math.inf
        await trio.sleep(max(next_look_s(free - reserve), min(LATEST_LOOK_S, MEASURING_SHARE * measuring_s)))
