"""Work that comes round takes no more than its share."""

from __future__ import annotations

import pytest

from pool.base.timeslice import interval_s


@pytest.mark.parametrize(
    ("spent_s", "share", "pause_s"),
    [(0.0, 0.01, 60), (0.5, 0.01, 60), (2.0, 0.01, 200), (100.0, 0.01, 1200), (100.0, 0.0, 60), (90.0, 1.0, 90)],
)
def test_the_pause_grows_with_what_a_round_takes(spent_s: float, share: float, pause_s: float) -> None:
    assert interval_s(spent_s, share, least_s=60, most_s=1200) == pause_s
