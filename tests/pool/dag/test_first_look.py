"""What condor_submit_dag reads of a DAG file itself."""

from __future__ import annotations

import pytest

from pool.base.errors import SubmitError
from pool.dag.model import Place
from pool.dag.submit.first_look import Nested, first_look

WRONG = {
    "JOBB A a.sub": "'JOBB' is not a valid DAG command",
    "CONFIG": "Failed to parse CONFIG command: No configuration file specified",
    "CONFIG a b": "Failed to parse CONFIG command: Unexpected token 'b'",
    "CONFIG 'a": "Failed to parse CONFIG command: Invalid quoting: no ending quote found",
    "SET_JOB_ATTR": "Failed to parse SET_JOB_ATTR command: No attribute line (key = value) provided",
    "ENV": "Failed to parse ENV command: Missing action (SET or GET) and variables",
    "ENV PUT a=1": "Failed to parse ENV command: Unexpected token 'PUT'",
    "ENV GET": "Failed to parse ENV command: No environment variables provided",
    "SUBDAG A a.dag": "Failed to parse SUBDAG command: Missing EXTERNAL keyword",
    "SUBDAG EXTERNAL A": "No DAG file specified in line: <SUBDAG EXTERNAL A>",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named(line: str) -> None:
    with pytest.raises(SubmitError) as caught:
        first_look(f"JOB N n.sub\n\n{line}\n", "x.dag")
    assert str(caught.value) == f"x.dag:3 {WRONG[line]}"


def test_descriptions_of_several_lines_are_no_commands() -> None:
    text = "JOB A {\n  executable = /bin/true\nCONFIG a\n}\nSUBMIT-DESCRIPTION d @=end\nCONFIG b\n@end\nCONFIG c\n"
    assert first_look(text, "x.dag").configs == ("c",)


def test_a_description_that_never_ends_takes_the_rest() -> None:
    assert first_look("JOB A {\nCONFIG a\n", "x.dag").configs == ()


def test_lines_are_continued_and_comments_left_out() -> None:
    look = first_look("# CONFIG a\n// CONFIG b\nENV \\\n# between\n  GET A,B \\\n C\n", "x.dag")
    assert look.get == ("A,B,C",)


def test_nested_graphs_are_found_with_their_directories() -> None:
    look = first_look("SUBDAG EXTERNAL S a.dag\nsubdag external T b.dag DIR d NOOP\n", "x.dag")
    assert look.nested == (Nested("a.dag", "", Place("x.dag", 1)), Nested("b.dag", "d", Place("x.dag", 2)))
