"""Amounts: exact, without case, and never below nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pool.base.errors import UserError
from pool.slots.provision.resources import Amounts, exact


def test_names_ignore_case_and_missing_means_none() -> None:
    amounts = Amounts({"Cpus": 2, "GPUs": 1})
    assert amounts["cpus"] == 2
    assert amounts.of("gpus") == 1
    assert amounts.of("Cogs") == 0
    assert amounts == Amounts({"CPUS": 2, "gpus": 1, "Cogs": 0})
    assert hash(amounts) == hash(Amounts({"CPUS": 2, "gpus": 1, "Cogs": 0}))


def test_decimal_fractions_add_up_exactly() -> None:
    total = Amounts({"GPUs": 1})
    for _ in range(10):
        total = total - Amounts({"GPUs": 0.1})
    assert total.of("GPUs") == 0
    assert exact(0.1) == Fraction(1, 10)
    assert type(exact(2.0)) is int


def test_more_than_there_is_cannot_be_taken_and_the_error_says_of_what() -> None:
    with pytest.raises(UserError, match=r"not enough Memory \(64 of 128\)"):
        Amounts({"Cpus": 2, "Memory": 64}) - Amounts({"Cpus": 1, "Memory": 128})


def test_the_documented_split() -> None:
    whole = Amounts({"Cpus": 10, "Memory": 10240, "Disk": 1000000})
    job = Amounts({"Cpus": 3, "Memory": 1024, "Disk": 10240})
    rest = whole - job
    assert dict(rest) == {"Cpus": 7, "Memory": 9216, "Disk": 989760}
    assert (rest - job).of("Cpus") == 4
    assert rest + job == whole
