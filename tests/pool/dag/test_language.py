"""Every keyword of DAG files: what it means, and what is said where it is wrong."""

from __future__ import annotations

import pytest

from pool.dag.language.commands import KEYWORDS
from pool.dag.language.errors import DagError
from pool.dag.language.reader import Options, read
from tests.pool.dag.cases import Case, load, reader, told

GOOD, WRONG = load("good.cases"), load("wrong.cases")


def graph(case: Case) -> str:
    first = next(iter(case.files))
    rescue = next((name for name in case.files if ".rescue" in name), "")
    several = [name for name in case.files if name.startswith("several")]
    return told(read(several or [first], reader(case.files), Options(), rescue=rescue))


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_graph_means(case: Case) -> None:
    assert graph(case).strip() == case.expected


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_what_is_wrong_is_told_with_its_place(case: Case) -> None:
    with pytest.raises(DagError) as caught:
        graph(case)
    assert str(caught.value) == case.expected


@pytest.mark.parametrize("cases", [GOOD, WRONG], ids=["good", "wrong"])
def test_each_keyword_has_a_case(cases: list[Case]) -> None:
    said = {
        line.split()[0].upper().replace("-", "_")
        for case in cases
        for text in case.files.values()
        for line in text.splitlines()
        if line.strip()
    }
    assert KEYWORDS - said == set()


def test_each_keyword_has_a_case_in_which_its_own_line_is_wrong() -> None:
    # Below each message stands the line that it is about.
    quoted = [line.split() for case in WRONG for line in case.expected.splitlines() if line.startswith("    ")]
    about = {words[0].upper().replace("-", "_") for words in quoted if words}
    assert KEYWORDS - about == set()
