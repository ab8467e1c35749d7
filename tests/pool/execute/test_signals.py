"""Signals by their names and numbers, as jobs and tools write them."""

from __future__ import annotations

import signal

import pytest

from pool.classad import ClassAd
from pool.execute.signals import signal_number, soft_kill_signal


@pytest.mark.parametrize(
    ("value", "number"),
    [("SIGTERM", 15), ("term", 15), (" 9 ", 9), (9, 9), ("²", None), ("0", None), (True, None), (10_000, None)],
)
def test_a_signal_is_a_name_or_a_number(value: object, number: int | None) -> None:
    assert signal_number(value) == number


def test_a_job_that_names_no_signal_is_asked_to_leave_with_sigterm() -> None:
    assert soft_kill_signal(ClassAd({"KillSig": "²"})) == signal.SIGTERM
