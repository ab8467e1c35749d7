"""The table of what HTCondor's DAGMan can be told is true: what it names is there, and nothing is taken and ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from minipool.cli.dag_tools import dag_checker, submit_dag
from minipool.cli.entry.tool import Tool
from minipool.dagman import arguments
from pool.base.errors import UserError
from tests.pool.dag.cases import CASES
from tests.tables import assert_acts_or_is_warned_of, assert_tests_are_there, read_table

TABLE: Final = read_table(CASES / "htcondors_settings.txt")
KNOBS: Final = TABLE["knobs"]


@pytest.mark.parametrize("section", TABLE)
def test_tests_that_the_table_names_are_there(section: str) -> None:
    assert_tests_are_there(TABLE[section])


@pytest.mark.parametrize("name", KNOBS)
def test_a_knob_acts_or_is_warned_of(name: str, tmp_path: Path) -> None:
    assert_acts_or_is_warned_of(name, KNOBS[name], tmp_path)


TOOLS: Final[dict[str, Tool]] = {"condor_submit_dag": submit_dag.TOOL, "condor_dag_checker": dag_checker.TOOL}


@pytest.mark.parametrize(("tool", "name"), [(tool, name) for tool in TOOLS for name in TABLE[tool]])
def test_each_option_is_taken_or_refused(tool: str, name: str) -> None:
    (row,) = (row for row in TOOLS[tool].options if name[1:].lower() in row.names.split())
    assert bool(row.refused) == TABLE[tool][name].startswith("- ")


@pytest.mark.parametrize("name", TABLE["condor_dagman"])
def test_each_option_of_condor_dagman_is_taken_or_refused(name: str) -> None:
    where = TABLE["condor_dagman"][name]
    if where.startswith("- "):
        with pytest.raises(UserError, match=f"^{name} is refused: {where[2:]}$"):
            arguments.parse(["x.dag", name])
    else:
        arguments.parse(["x.dag", name, "1"])
