"""Whatever is lost, repeated or late, and wherever the schedd dies: a claim ends once, and leaves no slot behind."""

from __future__ import annotations

import pytest

from tests.pool.jobs.claims.world import history

QUICK, LONG = 2_000, 100_000


def _play(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            history(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_p2_p5_a_claim_ends_once_and_leaves_no_slot_behind_in_any_history() -> None:
    _play(0, QUICK)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_p2_p5_the_same_in_many_histories() -> None:
    _play(QUICK, LONG)
