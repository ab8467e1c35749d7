"""pool classad and classad_eval, as processes: HTCondor's answers, in any order, and mistakes shown in their place.

That the language itself is HTCondor's, all cases say to the library (tests/pool/classad/test_conformance.py); here one of
each kind goes through the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pool.classad import parse_ad
from tests.pool.classad.cases import alike, load


def first_of_each(cases: list[dict[str, Any]], kind: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    """One case of each kind."""
    found: dict[object, dict[str, Any]] = {}
    for case in cases:
        found.setdefault(kind(case), case)
    return list(found.values())


EVAL = first_of_each(load("classad/eval.jsonl"), lambda case: (case["type"], "target" in case))
PARSE = first_of_each(load("classad/roundtrip.jsonl"), lambda case: case["new"][:1])
REFUSED = load("classad/parse_errors.jsonl")[:3]
JSON, XML = load("classad/json.jsonl"), load("classad/xml.jsonl")
MATCH = first_of_each(load("match/pairs.jsonl"), lambda case: (case["job_accepts"], case["machine_accepts"]))


def run(program: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of the tools, in UTC."""
    code = f"import sys; sys.argv[0] = {program!r}; from minipool.cli.entry.main import condor, pool; " + (
        "pool()" if program == "pool" else "condor()"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "TZ": "UTC"},
        check=False,
    )


def answers(requests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What --jsonl says, by id."""
    found = run("pool", "classad", "--jsonl", stdin="".join(json.dumps(one) + "\n" for one in requests))
    assert found.returncode == 0, found.stderr
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    return {line["id"]: line for line in lines}


@pytest.fixture(scope="module")
def conformance() -> dict[str, dict[str, Any]]:
    """All cases asked of one process, in one go."""
    cases = [*EVAL, *PARSE, *REFUSED, *JSON, *XML]
    pairs = [{"op": "match", **pair} for pair in MATCH]
    keep = ("id", "op", "my", "target", "expr", "text", "job", "machine")
    return answers([{key: case[key] for key in keep if key in case} for case in _with_op(cases) + pairs])


def _with_op(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"op": "eval", **case} for case in cases]


def stored(text: str | None) -> Any:
    """A printed value as a value."""
    if text is None:
        return parse_ad("[x = undefined]")["x"]
    value = parse_ad(f"[x = {text}]")["x"]
    return value.eval() if text.startswith("real(") else value


def by_id(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", EVAL, ids=by_id)
def test_eval_answers_as_htcondor_does(conformance: dict[str, Any], case: dict[str, Any]) -> None:
    said = conformance[case["id"]]
    assert said["type"] == case["type"]
    assert any(alike(stored(said["result"]), stored(case[key])) for key in ("result", "alt") if key in case), said


@pytest.mark.parametrize("case", PARSE, ids=by_id)
def test_parse_answers_as_htcondor_does(conformance: dict[str, Any], case: dict[str, Any]) -> None:
    said = conformance[case["id"]]
    assert (said["new"], said["old"]) == (case["new"], case["old"] or said["old"])


@pytest.mark.parametrize("case", REFUSED, ids=by_id)
def test_parse_refuses_as_htcondor_does(conformance: dict[str, Any], case: dict[str, Any]) -> None:
    said = conformance[case["id"]]
    assert said["error"]
    assert said["column"] > 0


@pytest.mark.parametrize("case", JSON, ids=by_id)
def test_to_json_answers_as_htcondor_does(conformance: dict[str, Any], case: dict[str, Any]) -> None:
    assert conformance[case["id"]]["json"] == case["json"]


@pytest.mark.parametrize("case", XML, ids=by_id)
def test_to_xml_answers_as_htcondor_does(conformance: dict[str, Any], case: dict[str, Any]) -> None:
    assert sorted(conformance[case["id"]]["xml"].splitlines()) == sorted(case["xml"].splitlines())


@pytest.mark.parametrize("case", MATCH, ids=by_id)
def test_match_answers_as_htcondor_does(conformance: dict[str, Any], case: dict[str, Any]) -> None:
    said = conformance[case["id"]]
    for key in ("job_accepts", "machine_accepts", "match"):
        assert said[key] is case[key]
    for key in ("job_rank", "machine_rank"):
        assert (said[key]["type"], said[key]["value"]) == (case[key]["type"], case[key]["value"])
        assert alike(stored(said[key]["result"]), stored(case[key]["result"]))


def test_a_line_that_is_no_request_is_answered_and_the_next_one_too() -> None:
    lines = ["{", "3", '{"id":1}', '{"id":2,"op":"eval"}', '{"id":3,"op":"eval","expr":"1+"}', "[" * 100_000, ""]
    found = run("pool", "classad", "--jsonl", stdin="\n".join(lines) + '\n{"id":4,"op":"eval","expr":"1+1"}\n')
    said = [json.loads(line) for line in found.stdout.splitlines()]
    assert [one["id"] for one in said] == [None, None, 1, 2, 3, None, 4]
    assert all("error" in one for one in said[:-1])
    assert said[4] | {"id": 3} == {
        "id": 3, "error": "the text ends too early", "line": 1, "column": 3, "expected": "an expression",
    }  # fmt: skip
    assert said[-1] == {"id": 4, "type": "integer", "result": "2"}


ADS = '[ A = 1; B = "x\\ty"; C = a + 1 ]\n[ D = {1,2} ]\n'


@pytest.mark.parametrize("form", ["long", "new", "xml", "json"])
def test_fmt_converts_there_and_back(form: str) -> None:
    there = run("pool", "classad", "fmt", "-to", form, stdin=ADS)
    back = run("pool", "classad", "fmt", "-to", "new", stdin=there.stdout)
    assert back.stdout == '{\n[ A = 1; B = "x\\ty"; C = a + 1 ]\n,\n[ D = { 1,2 } ]\n}\n'


def test_fmt_shows_a_mistake_with_line_column_and_caret(tmp_path: Path) -> None:
    file = tmp_path / "job.ad"
    file.write_text("Cpus = 1\nMemory = 2 *\n")
    found = run("pool", "classad", "fmt", str(file))
    assert found.returncode == 1
    assert found.stderr.splitlines() == [
        f"{file}:2:13: the text ends too early (expected an expression)",
        "    Memory = 2 *",
        "                ^",
    ]


def test_fmt_refuses_forms_and_files_that_do_not_exist() -> None:
    assert (
        "-to yaml: there is no such form (expected long, new, xml, json)"
        in run("pool", "classad", "fmt", "-to", "yaml").stderr
    )
    assert "cannot read /no/such/file" in run("pool", "classad", "fmt", "/no/such/file").stderr


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["a = 2", "a * 2"], 0, "[ a = 2 ]\n4\n"),
        (["a=2", "a*2"], 0, "[ a = 2 ]\n4\n"),
        (["a = 2", "b = 2", "a + b"], 0, "[ a = 2; b = 2 ]\n4\n"),
        (["[ a = 2; b = 2 ]", "a + b"], 0, "[ a = 2; b = 2 ]\n4\n"),
        (["-quiet", 'strcat("foo", "bar")'], 0, '"foobar"\n'),
        (["x = y", "x", "y = 7", "x"], 0, "[ x = y ]\nundefined\n[ x = y; y = 7 ]\n7\n"),
        (["x = y", "x", "-quiet", "y = 7", "x"], 0, "[ x = y ]\nundefined\n7\n"),
        (["a = 1", "a", "a + 1"], 0, "[ a = 1 ]\n1\n2\n"),
        (["a b"], 1, ""),
        (["-file"], 255, ""),
        (["-file", "/no/such/file"], 1, ""),
    ],
)
def test_classad_eval_does_what_the_manual_shows(words: list[str], status: int, output: str) -> None:
    found = run("classad_eval", *words)
    assert (found.returncode, found.stdout) == (status, output), found.stderr
    assert bool(found.stderr) is bool(status)


@pytest.mark.parametrize("form", ["long", "new", "json", "xml"])
def test_classad_eval_reads_both_ads_from_files_in_any_form(tmp_path: Path, form: str) -> None:
    for name, text in (("job", "[ Want = TARGET.Memory > 10 ]"), ("slot", "[ Memory = 20; Fits = TARGET.Want ]")):
        (tmp_path / name).write_text(run("pool", "classad", "fmt", "-to", form, stdin=text).stdout)
    words = ["-quiet", "-my-file", str(tmp_path / "job"), "-target-file", str(tmp_path / "slot")]
    assert run("classad_eval", *words, "MY.Want", "TARGET.Memory").stdout == "true\n20\n"


def test_what_is_no_text_does_not_end_the_conversation() -> None:
    lines = [
        '{"id":1,"op":"eval","expr":"strcat(\\"\\ud800\\", \\"\\\\303\\\\251\\")"}',
        '{"id":2,"op":"eval","expr":"size(\\"\udcff\\")"}',
    ]
    code = "import sys; sys.argv[0] = 'pool'; from minipool.cli.entry.main import pool; pool()"
    sent = "\n".join(lines).encode("utf-8", "surrogateescape") + b"\n"
    found = subprocess.run(
        [sys.executable, "-c", code, "classad", "--jsonl"], input=sent, capture_output=True, timeout=100, check=True
    )
    assert [json.loads(line)["id"] for line in found.stdout.splitlines()] == [1, 2]
