"""Expressions, matches and round trips give what HTCondor 25.14 gives."""

from __future__ import annotations

from typing import Any

import pytest

from pool.base.errors import ClassAdError
from pool.classad import ERROR, UNDEFINED, AbsTime, ClassAd, RelTime, expr, parse_ad, parse_long, rank
from pool.classad.eval.match import accepts, is_match
from tests.pool.classad.cases import ad, alike, load

TYPES = {
    "integer": int,
    "real": float,
    "string": str,
    "boolean": bool,
    "undefined": type(UNDEFINED),
    "error": type(ERROR),
    "list": list,
    "classad": ClassAd,
    "abstime": AbsTime,
    "reltime": RelTime,
}


def by_id(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", load("classad/eval.jsonl"), ids=by_id)
def test_expression_evaluates_as_in_htcondor(case: dict[str, Any]) -> None:
    value = expr(case["expr"]).eval_lazy(ad(case["my"]), ad(case["target"]))
    assert type(value) is TYPES[case["type"]]
    wanted = [stored(case[key]) for key in ("result", "alt") if key in case]
    assert any(alike(value, one) for one in wanted), (value, wanted)


def stored(text: str | None) -> Any:
    """A printed value as the value; what is absent evaluates to undefined."""
    if text is None:
        return UNDEFINED
    value = parse_ad(f"[ x = {text} ]")["x"]
    return value.eval() if text.startswith("real(") else value


@pytest.mark.parametrize("case", load("classad/roundtrip.jsonl"), ids=by_id)
def test_text_prints_as_in_htcondor(case: dict[str, Any]) -> None:
    text = case["text"]
    if case["op"] == "parse_expr":
        parsed = expr(text)
        assert (parsed.text, parsed.old_text) == (case["new"], case["old"] or parsed.old_text)
        return
    found = parse_ad(text) if case["op"] == "parse_ad" else parse_long(text)
    assert (found.new(), found.long()) == (case["new"], case["old"])


@pytest.mark.parametrize("case", load("classad/parse_errors.jsonl"), ids=by_id)
def test_text_is_refused_as_in_htcondor(case: dict[str, Any]) -> None:
    read = {"parse_expr": expr, "parse_ad": parse_ad, "parse_old": parse_long}[case["op"]]
    with pytest.raises(ClassAdError) as refused:
        read(case["text"])
    assert refused.value.span is not None
    assert refused.value.span.column > 0


@pytest.mark.parametrize("case", load("match/pairs.jsonl"), ids=by_id)
def test_pair_matches_as_in_htcondor(case: dict[str, Any]) -> None:
    job, machine = parse_ad(case["job"]), parse_ad(case["machine"])
    assert accepts(job, machine) is case["job_accepts"]
    assert accepts(machine, job) is case["machine_accepts"]
    assert is_match(job, machine) is case["match"]
    for mine, other, who in ((job, machine, "job"), (machine, job, "machine")):
        assert alike(mine.eval("Requirements", other), stored(case[f"{who}_requirements"]["result"]))
        assert alike(mine.eval("Rank", other), stored(case[f"{who}_rank"]["result"]))
        assert rank(mine, other) == case[f"{who}_rank"]["value"]
