"""Words of arguments and environments: cases that HTCondor's own argsToList() and listToArgs() have answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pool.base.argv import BadQuoting, join_new, split_new, split_old
from pool.classad import ClassAd, expr, quote
from pool.classad.values.value import ERROR
from pool.execute.quoting import arguments_of, environment_of
from pool.submit.quoting import parse_environment

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases/argv.jsonl").read_text().splitlines()]
SPLIT = [case for case in CASES if "join" not in case]
JOIN = [case for case in CASES if "join" in case]


@pytest.mark.parametrize("case", SPLIT, ids=repr)
def test_words_come_apart(case: dict[str, object]) -> None:
    text, is_new = str(case.get("new", case.get("old"))), "new" in case
    ad = ClassAd({"Arguments" if is_new else "Args": text})
    called = expr(f"argsToList({quote(text)}, {2 if is_new else 1})").eval()
    if case["words"] is None:
        assert called is ERROR
        with pytest.raises(BadQuoting):
            arguments_of(ad)
        return
    assert (split_new if is_new else split_old)(text) == case["words"]
    assert arguments_of(ad) == called == case["words"]


@pytest.mark.parametrize("case", JOIN, ids=repr)
def test_words_are_put_together(case: dict[str, list[str]]) -> None:
    assert join_new(case["join"]) == case["text"]
    assert split_new(join_new(case["join"])) == case["join"]
    assert ClassAd({"Words": case["join"], "Text": expr("listToArgs(Words)")}).eval("Text") == case["text"]


def test_a_no_break_space_parts_neither_arguments_nor_variables() -> None:
    assert arguments_of(ClassAd({"Arguments": "one a\u00a0b two"})) == ["one", "a\u00a0b", "two"]
    assert environment_of(ClassAd({"Environment": "A=x\u00a0y B=1"})) == {"A": "x\u00a0y", "B": "1"}
    assert environment_of(ClassAd({"Env": "A=x\u00a0y;\u00a0B=1"})) == {"A": "x\u00a0y", "\u00a0B": "1"}
    assert parse_environment("A=x\u00a0y;\u00a0B=1") == {"A": "x\u00a0y", "\u00a0B": "1"}
