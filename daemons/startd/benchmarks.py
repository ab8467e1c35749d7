"""Measures how fast one core of this machine is: Mips and KFlops, in the units of HTCondor's Dhrystone and Linpack.

The figures are good for comparing machines of a pool with each other, which is what jobs rank by. They are averaged
over runs, the newest counting half.
"""

from __future__ import annotations

import time
from typing import Final

LOOPS: Final = 400_000
INSTRUCTIONS_PER_LOOP: Final = 20
FLOPS_PER_LOOP: Final = 4


def measure() -> tuple[int, int]:
    """Mips and KFlops of one core. Takes about a tenth of a second."""
    began = time.perf_counter()
    total = 0
    for number in range(LOOPS):
        total = (total + number * 3) & 0xFFFF
    integer_s = time.perf_counter() - began
    began = time.perf_counter()
    value = 1.0
    for _ in range(LOOPS):
        value = value * 1.0000001 + 0.5 - value * 0.25
    float_s = time.perf_counter() - began
    mips = LOOPS * INSTRUCTIONS_PER_LOOP / max(integer_s, 1e-6) / 1e6
    return max(1, round(mips)), max(1, round(LOOPS * FLOPS_PER_LOOP / max(float_s, 1e-6) / 1e3))


def averaged(before: int | None, now: int) -> int:
    """The figure to show after another run."""
    return now if before is None else round((before + now) / 2)
