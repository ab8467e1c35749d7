"""Whatever is lost, repeated or late, and wherever the schedd dies: an execution ends once, and as it was reported."""

from __future__ import annotations

import pytest

from tests.pool.jobs.execution.world import history

QUICK, LONG = 2_000, 100_000


def _play(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            history(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_p2_p3_an_execution_ends_once_and_runs_once_in_any_history() -> None:
    _play(0, QUICK)


@pytest.mark.long
def test_p2_p3_the_same_in_many_histories() -> None:
    _play(QUICK, LONG)
