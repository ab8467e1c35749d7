"""The table of what HTCondor's manual has for self-checkpointing jobs is true: tests, commands and knobs that it names are there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pool.submit.commands import names
from tests.tables import ROOT, assert_acts_or_is_warned_of, assert_tests_are_there, read_table

TABLE: Final = read_table(ROOT / "tests" / "cases" / "jobs" / "self_checkpointing.txt")
KNOBS: Final = TABLE["knobs"]


@pytest.mark.parametrize("section", TABLE)
def test_tests_that_the_table_names_are_there(section: str) -> None:
    assert_tests_are_there(TABLE[section])


@pytest.mark.parametrize("name", TABLE["commands"])
def test_a_command_is_known(name: str) -> None:
    assert name in names()


@pytest.mark.parametrize("name", KNOBS)
def test_a_knob_acts_or_is_warned_of(name: str, tmp_path: Path) -> None:
    assert_acts_or_is_warned_of(name, KNOBS[name], tmp_path)
