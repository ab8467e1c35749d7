"""The table of what HTCondor's DAGMan can be told is true: what it names is there, and nothing is taken and ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from minipool.cli.dag_tools import dag_checker, submit_dag
from minipool.cli.entry.tool import Tool
from minipool.dagman import arguments
from pool.base.errors import UserError
from pool.config import load_config
from pool.config.knobs import find
from tests.pool.dag.cases import CASES

ROOT: Final = Path(__file__).parents[3]


def table() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    section = ""
    for line in (CASES / "htcondors_settings.txt").read_text().splitlines():
        if line.startswith("["):
            section = line[1:].partition(":")[0]
            found[section] = {}
        elif line and line[0] != "#":
            name, _, where = line.partition(": ")
            found[section][name] = where
    return found


TABLE: Final = table()
KNOBS: Final = TABLE["knobs"]


@pytest.mark.parametrize("section", TABLE)
def test_tests_that_the_table_names_are_there(section: str) -> None:
    for name, where in TABLE[section].items():
        file, _, test = where.partition("::")
        assert where.startswith("- ") or f"def {test}(" in (ROOT / file).read_text(), name


@pytest.mark.parametrize("name", KNOBS)
def test_a_knob_acts_or_is_warned_of(name: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"{name} = 1\n")
    config = load_config([str(tmp_path / "config")], environ={})
    said = [*config.warnings, *config.without_effect]
    if KNOBS[name].startswith("- "):
        assert [line for line in said if name in line and "no effect here" in line], said
    else:
        knob = find(name)
        assert (knob is not None and knob.has_effect, said) == (True, [])


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
