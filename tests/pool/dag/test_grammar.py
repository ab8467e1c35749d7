"""The reader of commands that programs use reads what grammar.lark describes: the same lines, to the same meaning."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from lark import Lark, Token, Transformer
from lark.exceptions import LarkError

import pool.dag
from pool.dag.language.commands import (
    ConnectLine,
    DescriptionLine,
    EdgesLine,
    GraphSetting,
    IncludeLine,
    MaxJobsLine,
    NodeLine,
    PinLine,
    SpliceLine,
    VarsLine,
    parse,
)
from pool.dag.language.errors import DagError
from pool.dag.language.settings import Setting
from pool.dag.language.source import Line, Source
from pool.dag.language.words import plain
from pool.dag.model import AbortOn, DotFile, Environment, Place, Retry, Script, StatusFile, Tolerance, Variable
from tests.pool.dag.cases import load

GRAMMAR = Path(pool.dag.__file__).parent / "language" / "grammar.lark"


def same(word: str) -> str:
    return word.upper().replace("-", "_")


class Meaning(Transformer[Token, Any]):
    """What lark read, as commands."""

    def line(self, kids: list[Any]) -> Any:
        return kids[0]

    def option(self, kids: list[Token]) -> dict[str, Any]:
        return {"directory": plain(kids[1])} if kids[0].type == "DIR" else {kids[0].lower(): True}

    def opening(self, kids: list[Token]) -> str:
        return "{" if kids[0] == "{" else str(kids[0])

    def node(self, kids: list[Any]) -> NodeLine:
        kind, name, first, *options = kids
        if not isinstance(first, Token):
            return NodeLine(same(kind), str(name), "", "")
        return self._with(NodeLine(same(kind), str(name), plain(first)), options)

    def subdag(self, kids: list[Any]) -> NodeLine:
        return self._with(NodeLine("SUBDAG", str(kids[2]), plain(kids[3])), kids[4:])

    def _with(self, node: NodeLine, options: list[dict[str, Any]]) -> NodeLine:
        for option in options:
            node = node._replace(**option)
        return node

    def splice(self, kids: list[Token]) -> SpliceLine:
        return SpliceLine(str(kids[1]), plain(kids[2]), plain(kids[4]) if len(kids) > 3 else "")

    def description(self, kids: list[Any]) -> DescriptionLine:
        return DescriptionLine(str(kids[1]), "")

    def parents(self, kids: list[Token]) -> EdgesLine:
        at = next(at for at, kid in enumerate(kids) if kid.type == "CHILD")
        return EdgesLine([*map(str, kids[1:at])], [*map(str, kids[at + 1 :])])

    def weak(self, kids: list[Any]) -> EdgesLine:
        return kids[1]._replace(weak=True)

    def defer(self, kids: list[Token]) -> dict[str, Any]:
        return {"defer_status": int(kids[1]), "defer_s": int(kids[2])}

    def debug(self, kids: list[Token]) -> dict[str, Any]:
        return {"debug_file": plain(kids[1]), "debug_streams": kids[2].upper()}

    def script(self, kids: list[Any]) -> Setting:
        when, node, text = kids[-3:]
        program, _, arguments = str(text).partition(" ")
        script = Script(when.upper(), program, arguments.strip(), Place("x", 1))
        for option in kids[1:-3]:
            script = script._replace(**option)
        return Setting(str(node), when.lower(), script)

    def retry(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "retry", Retry(int(kids[2]), int(kids[4]) if len(kids) > 3 else None))

    def abort(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "abort_on", AbortOn(int(kids[2]), int(kids[4]) if len(kids) > 3 else None))

    def pair(self, kids: list[Token]) -> tuple[str, str]:
        return str(kids[0]), plain(kids[2])

    def vars(self, kids: list[Any]) -> VarsLine:
        where = kids[2].upper() if isinstance(kids[2], Token) else ""
        found = [kid for kid in kids if isinstance(kid, tuple)]
        names = ["My." + name[1:] if name[0] == "+" else name for name, _ in found]
        return VarsLine(str(kids[1]), tuple(Variable(n, v, where) for n, (_, v) in zip(names, found, strict=True)))

    def priority(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "priority", int(kids[2]))

    def category(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "category", str(kids[2]))

    def pre_skip(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "pre_skip", int(kids[2]))

    def tolerance(self, kids: list[Token]) -> Setting:
        mode = next((same(kid) for kid in kids if kid.type == "MODE"), None)
        fast = None if mode is None else mode == "FAIL_FAST"
        return Setting(str(kids[1]), "tolerance", Tolerance(int(kids[2]), "%" in kids, fast))

    def done(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "done", True)

    def save_point(self, kids: list[Token]) -> Setting:
        return Setting(str(kids[1]), "save_point", plain(kids[2]) if len(kids) > 2 else f"{kids[1]}-x.save")

    def max_jobs(self, kids: list[Token]) -> MaxJobsLine:
        return MaxJobsLine(str(kids[1]), int(kids[2]))

    def pin_in(self, kids: list[Token]) -> PinLine:
        return PinLine(same(kids[0]), str(kids[1]), int(kids[2]))

    pin_out = pin_in

    def connect(self, kids: list[Token]) -> ConnectLine:
        return ConnectLine(str(kids[1]), str(kids[2]))

    def include(self, kids: list[Token]) -> IncludeLine:
        return IncludeLine(plain(kids[1]))

    def config(self, kids: list[Token]) -> GraphSetting:
        return GraphSetting("CONFIG", "config", plain(kids[1]))

    def jobstate_log(self, kids: list[Token]) -> GraphSetting:
        return GraphSetting("JOBSTATE_LOG", "jobstate_log", plain(kids[1]))

    def status_file(self, kids: list[Token]) -> GraphSetting:
        status = StatusFile(plain(kids[1]))
        for kid in kids[2:]:
            new = {"always": True} if kid.type == "ALWAYS_UPDATE" else {"min_interval_s": int(kid)}
            status = status._replace(**new)
        return GraphSetting("NODE_STATUS_FILE", "status_file", status)

    def dot(self, kids: list[Token]) -> GraphSetting:
        dot = DotFile(plain(kids[1]))
        for at, kid in enumerate(kids[2:], 2):
            if kid.type in ("UPDATE", "OVERWRITE"):
                dot = dot._replace(**{kid.type.lower(): same(kid) == kid.type})
            elif kids[at - 1].type == "INCLUDE":
                dot = dot._replace(include=plain(kid))
        return GraphSetting("DOT", "dot", dot)

    def attribute(self, kids: list[Token]) -> GraphSetting:
        return GraphSetting("SET_JOB_ATTR", "attributes", (str(kids[1]), str(kids[3])))

    def environment(self, kids: list[Token]) -> GraphSetting:
        text = str(kids[2])
        if kids[1].upper() == "GET":
            return GraphSetting("ENV", "environment", Environment(get=tuple(text.replace(",", " ").split())))
        parts = tuple(part.strip() for part in text.split(";") if part.strip())
        return GraphSetting("ENV", "environment", Environment(set=parts))

    def reject(self, kids: list[Token]) -> GraphSetting:
        return GraphSetting("REJECT", "rejected", None)


@pytest.fixture(scope="module")
def lark() -> Lark:
    return Lark(GRAMMAR.read_text(), parser="lalr", start="line")


def by_hand(text: str) -> Any:
    mark = text.split()[-1]
    # The end of a description, for lines that begin one.
    end = "}\n" if mark == "{" else "@" + mark[2:] + "\n" if mark.startswith("@=") else ""
    try:
        return parse(Line("x", 1, text), Source("x", end))
    except DagError:
        return None


def by_lark(lark: Lark, text: str) -> Any:
    try:
        return Meaning().transform(lark.parse(text))
    except LarkError:
        return None


def beyond(meant: Any) -> bool:
    """Whether only a bound that grammar.lark leaves out can have been crossed."""
    match meant:
        case Setting(field="pre_skip", value=0) | Setting(node="ALL_NODES", field="save_point"):
            return True
        case Setting(value=AbortOn(returns=returns)):
            return returns is not None and returns > 255
        case NodeLine(name=name):
            return name.upper() in ("PARENT", "CHILD", "ALL_NODES")
        case EdgesLine(parents=parents, children=children):
            return any(name.upper() == "CHILD" for name in (*parents, *children))
        case VarsLine(variables=variables):
            return any(v.name.lower().startswith("queue") or v.name == "My." for v in variables)
    return False


def check(lark: Lark, text: str) -> bool:
    """Whether both read it."""
    meant, read = by_lark(lark, text), by_hand(text)
    if read is None and beyond(meant):
        return False
    assert read == meant, text
    return read is not None


def test_the_cases_are_read_alike(lark: Lark) -> None:
    lines = [
        line.strip()
        for case in (*load("good.cases"), *load("wrong.cases"))
        for text in case.files.values()
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith(("#", "//")) and not line.rstrip().endswith("\\")
    ]
    assert sum(check(lark, line) for line in lines) > 150


WORDS = [
    "A",
    "B",
    "n1",
    "S+X",
    "ALL_NODES",
    "parent",
    "CHILD",
    "child",
    "PRE",
    "post",
    "HOLD",
    "DEFER",
    "DEBUG",
    "f.out",
    "STDOUT",
    "all",
    "3",
    "-1",
    "+2",
    "0",
    "256",
    "20%",
    "%",
    "5x",
    "FAIL-FAST",
    "wait",
    "UNLESS-EXIT",
    "unless_exit",
    "RETURN",
    "return",
    "DIR",
    "dir",
    "NOOP",
    "noop",
    "DONE",
    "done",
    "{",
    "}",
    "@=END",
    "@=",
    "EXTERNAL",
    "external",
    "PREPEND",
    "append",
    "x=1",
    'x="1"',
    "x='a",
    '"b"\'',
    "x",
    "=",
    'y="a',
    'b"',
    'z="a\\"b"',
    'q=a"b',
    'c"',
    'w="1"v="2"',
    '"open',
    '+D="e"',
    'queue="1"',
    "UPDATE",
    "DONT-UPDATE",
    "dont_overwrite",
    "OVERWRITE",
    "INCLUDE",
    "ALWAYS-UPDATE",
    "60",
    "GET",
    "SET",
    "HOME",
    "A=1;B=2",
    "it's",
    '"a\'b"',
    "'a",
    "b'",
    "=",
    "==",
    "a=b",
    "#x",
    "//y",
    "\\x",
]
STARTS = [
    "JOB",
    "job",
    "FINAL",
    "PROVISIONER",
    "SERVICE",
    "SUBDAG",
    "SPLICE",
    "SUBMIT-DESCRIPTION",
    "PARENT",
    "WEAK",
    "SCRIPT",
    "RETRY",
    "ABORT-DAG-ON",
    "VARS",
    "PRIORITY",
    "CATEGORY",
    "PRE_SKIP",
    "TOLERANCE",
    "DONE",
    "SAVE_POINT_FILE",
    "MAXJOBS",
    "PIN_IN",
    "pin-out",
    "CONNECT",
    "INCLUDE",
    "CONFIG",
    "JOBSTATE_LOG",
    "NODE_STATUS_FILE",
    "DOT",
    "SET_JOB_ATTR",
    "ENV",
    "REJECT",
    "JOBB",
]
LIKELY = {
    "SUBDAG": ["EXTERNAL A f"], "PARENT": ["A CHILD B", "A B CHILD"], "WEAK": ["PARENT A CHILD", "PARENT A B"],
    "SCRIPT": ["PRE A x", "DEFER 1 2", "DEBUG f ALL", "POST B"], "VARS": ['A x="1"', "A", "A PREPEND"],
    "RETRY": ["A 3"], "ABORT-DAG-ON": ["A 3", "A 3 RETURN"], "TOLERANCE": ["A 3", "A 3%", "A 3 %"], "ENV": ["GET", "SET"],
    "JOB": ["A f", "A", "A {"], "SET_JOB_ATTR": ["a = 1", "a"], "DOT": ["f", "f INCLUDE"], "PRE_SKIP": ["A"], "SPLICE": ["A f"],
}  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_made_lines_are_read_alike(lark: Lark, seed: int) -> None:
    rng, read = Random(seed), 0
    for _ in range(1_000):
        start = rng.choice(STARTS)
        parts = [start, *([rng.choice(LIKELY[start])] if start in LIKELY and rng.random() < 0.7 else [])]
        parts += rng.choices(WORDS, k=rng.randrange(4))
        read += check(lark, rng.choice((" ", "  ", "\t")).join(parts))
    assert read > 60
