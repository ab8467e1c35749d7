"""Lines, statements and conditions."""

from __future__ import annotations

import pytest

from pool.macros.conditions import BadCondition, Conditions, judge
from pool.macros.lines import logical_lines
from pool.macros.statements import IncludeOptions, NotAStatement, statement


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n\n # c\n  b  ", [(1, "a"), (4, "b")]),
        ("a \\\n  b\\\n c\nd", [(1, "a bc"), (4, "d")]),
        ("# c \\\na", [(2, "a")]),
        ("a \\\n # c \\\n b", [(1, "a b")]),
        ("a \\", [(1, "a")]),
        ("x\r\ny\r\n", [(1, "x"), (2, "y")]),
    ],
)
def test_lines(text: str, lines: list[tuple[int, str]]) -> None:
    assert list(logical_lines(text)) == lines


@pytest.mark.parametrize(
    ("line", "kind", "name", "value"),
    [
        ("A = b c", "assign", "A", "b c"),
        ("A=b=c", "assign", "A", "b=c"),
        ("A =", "assign", "A", ""),
        ("A += b", "append", "A", "b"),
        ("A +,= b", "append", "A", "b"),
        ("A @=end", "here", "A", "end"),
        ("use ROLE : Submit", "use", "ROLE", "Submit"),
        ("@use ROLE:Submit", "use", "ROLE", "Submit"),
        ("include : /a/b", "include", "", "/a/b"),
        ("include command into x : ls", "include", "command into x", "ls"),
        ("error : no", "error", "", "no"),
    ],
)
def test_statements(line: str, kind: str, name: str, value: str) -> None:
    one = statement(line, submit=False)
    assert (one.kind, one.name, one.value) == (kind, name, value)


def test_what_is_no_statement() -> None:
    for line in ("word", "two words"):
        with pytest.raises(NotAStatement):
            statement(line, submit=False)
        assert statement(line, submit=True).kind == "other"


def test_include_options() -> None:
    options = IncludeOptions("ifexist command into file")
    assert (options.if_exists, options.command, options.into) == (True, True, "file")
    with pytest.raises(ValueError, match="unexpected"):
        IncludeOptions("sometimes")


def holds(condition: str) -> bool:
    names = {"foo": "1", "blank": ""}
    return judge(
        condition,
        lambda text: text.replace("$(foo)", "1").replace("$(nope)", ""),
        lambda name: names.get(name.lower()),
        lambda category, name: (category, name) in (("ROLE", ""), ("ROLE", "Submit")),
    )


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        *(("true", True), ("FALSE", False), ("yes", True), ("no", False), ("0", False), ("1.5", True), ("-1", True)),
        *(("! true", False), ("$(foo)", True), ("$(nope)", False), ("!$(nope)", True)),
        *(("defined foo", True), ("defined blank", False), ("defined nope", False), ("defined 3", True)),
        *(("defined use ROLE", True), ("defined use ROLE:Submit", True), ("defined use ROLE:Nope", False)),
        *(
            ("version >= 8.1", True),
            ("version < 8.1.2", False),
            ("version == 25.14", True),
            ("version != 25.14.1", False),
        ),
        *(("version > 99.0", False), ("!version > 99.0", True)),
    ],
)
def test_conditions(condition: str, result: bool) -> None:
    assert holds(condition) is result


@pytest.mark.parametrize("condition", ["foo", "3 > 2", "", "version >= x", "defined a b", "a && b"])
def test_conditions_that_cannot_be_judged(condition: str) -> None:
    with pytest.raises(BadCondition):
        holds(condition)


def active_lines(text: str) -> list[str]:
    conditions = Conditions()
    kept: list[str] = []
    for _, line in logical_lines(text):
        if not conditions.take(line, holds) and conditions.active:
            kept.append(line)
    assert not conditions.is_open
    return kept


def test_nested_branches() -> None:
    text = "if false\n a\n if true\n  b\n endif\nelif true\n c\n if no\n d\n else\n e\n endif\nelse\n f\nendif\ng"
    assert active_lines(text) == ["c", "e", "g"]


@pytest.mark.parametrize("text", ["else", "endif", "elif true", "if true\nelse\nelse", "if true\nelse\nelif true"])
def test_keywords_out_of_place(text: str) -> None:
    with pytest.raises(BadCondition):
        active_lines(text)


def test_names_that_begin_like_keywords_are_names() -> None:
    assert active_lines("ifx = 1\nelsewhere = 2\nendif_ = 3") == ["ifx = 1", "elsewhere = 2", "endif_ = 3"]
