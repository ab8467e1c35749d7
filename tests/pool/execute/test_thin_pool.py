"""How full a thin pool is, and what that means."""

from __future__ import annotations

import pytest

from pool.base.errors import PoolError
from pool.execute.thin_pool import FULL_PERCENT, REFUSE_PERCENT, PoolUse, read_use


@pytest.mark.parametrize(
    ("printed", "use", "refuses", "full"),
    [
        ("  12.50|0.98\n", PoolUse(12.5, 0.98), False, False),
        ("  95.00|10.00\n", PoolUse(95.0, 10.0), True, False),
        ("  100.00|10.00\n", PoolUse(100.0, 10.0), True, True),
        ("  20.00|99.90\n", PoolUse(20.0, 99.9), True, True),
    ],
)
def test_jobs_are_refused_before_it_is_full(printed: str, use: PoolUse, refuses: bool, full: bool) -> None:
    assert read_use(printed) == use
    assert bool(use.trouble("vg/pool", REFUSE_PERCENT)) is refuses
    assert bool(use.trouble("vg/pool", FULL_PERCENT)) is full


def test_the_reason_names_the_pool_and_its_figures() -> None:
    assert PoolUse(97.0, 3.25).trouble("vg/pool", 95) == "the thin pool vg/pool is full (data 97.0 %, metadata 3.2 %)"


def test_what_is_no_percentage_is_told() -> None:
    with pytest.raises(PoolError, match="lvs says of a thin pool"):
        read_use("  |\n")
