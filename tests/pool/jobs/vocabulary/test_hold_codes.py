"""Reason codes: the manual's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.jobs.vocabulary.hold_codes import HoldCode, VacateCode, hold_code_name, vacate_code_name

CASES = Path(__file__).parents[3] / "cases" / "jobs" / "codes.cases"
ROWS = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("row", ROWS)
def test_each_code_has_its_label_or_never_occurs(row: str) -> None:
    said, _, never = row.partition(" - ")
    kind, number, label = said.split()
    known = {int(code) for code in (HoldCode if kind == "hold" else VacateCode)}
    assert (int(number) in known) is not bool(never), row
    if not never:
        assert (hold_code_name if kind == "hold" else vacate_code_name)(int(number)) == label


def test_no_code_is_unknown_to_the_manual_but_our_own() -> None:
    listed = {int(row.split()[1]) for row in ROWS}
    ours = {int(HoldCode.EXPRESSION_TOO_COSTLY)}
    assert {int(code) for code in (*HoldCode, *VacateCode)} - {0} - ours <= listed
