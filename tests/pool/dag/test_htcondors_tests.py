"""The table of HTCondor's own tests of graphs is true: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pool.dag.cases import CASES
from tests.pool.dag.recorded import recorded

ROOT = Path(__file__).parents[3]


def table() -> dict[str, str]:
    lines = (CASES / "htcondors_tests.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


def test_recorded_graphs_and_the_table_name_the_same_tests() -> None:
    said = {name for case in recorded() for name in re.sub(r"\([^)]*\)", "", case.head.get("from", "")).split(",")}
    assert {name.strip() for name in said} - {""} == {name for name, where in table().items() if where == "recorded"}


def test_tests_that_the_table_names_are_there() -> None:
    for name, where in table().items():
        file, _, test = where.partition("::")
        assert where == "recorded" or where.startswith("- ") or f"def {test}(" in (ROOT / file).read_text(), name
