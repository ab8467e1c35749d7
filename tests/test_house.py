"""The house's numbers: how long a function may be, how much of the code says why, and how a long file begins."""

from __future__ import annotations

import ast
import gc
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.layers import FILES, TOPS

BODY_LINES_MAX = 40
COMMENTS_LEAST, COMMENTS_MOST = 0.03, 0.10
"""Of the lines of code, without docstrings, imports and tables of data."""
TABLE_LINES = 10
"""A literal of more lines at the top of a module is a table."""
LONG_FILE_LINES = 200
HEADER_LINES_LEAST = 3


@cache
def source(path: Path) -> tuple[str, ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


@pytest.fixture(scope="module", autouse=True)
def _trees_are_forgotten() -> Iterator[None]:
    """They are a million objects, which every search for garbage would visit; they are none until they are forgotten."""
    gc.disable()
    yield
    source.cache_clear()
    gc.enable()


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_every_function_fits_a_screen() -> None:
    functions = [
        (body_lines(node), f"{path}:{node.lineno}: {node.name}")
        for path in FILES.values()
        for node in ast.walk(source(path)[1])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [where for lines, where in functions if lines > BODY_LINES_MAX] == []
    lengths = sorted(lines for lines, _ in functions)
    median, p90, p99 = (lengths[int(len(lengths) * part)] for part in (0.5, 0.9, 0.99))
    assert (median <= 6, p90 <= 20, p99 <= BODY_LINES_MAX) == (True, True, True)


def is_apart(node: ast.stmt) -> bool:
    """Whether these lines are no code: imports, and tables of data."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return (node.end_lineno or 0) - node.lineno >= TABLE_LINES
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def counted(path: Path) -> tuple[int, int]:
    """The lines with a comment, and all lines of code."""
    text, tree = source(path)
    apart: set[int] = set()
    for node in [*filter(is_apart, tree.body), *filter(is_text, ast.walk(tree))]:
        apart |= set(range(node.lineno, (node.end_lineno or 0) + 1))  # type: ignore[attr-defined]
    comments = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "# fmt"))
    }
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    return len(comments), len(lines - apart | comments)


@pytest.mark.parametrize("top", sorted(TOPS))
def test_the_code_says_why(top: str) -> None:
    counts = [counted(path) for name, path in FILES.items() if name.partition(".")[0] == top]
    part = sum(comments for comments, _ in counts) / sum(lines for _, lines in counts)
    assert COMMENTS_LEAST <= part <= COMMENTS_MOST


def test_a_long_file_opens_with_its_rules() -> None:
    short = [
        str(path)
        for path in FILES.values()
        if len(source(path)[0].splitlines()) > LONG_FILE_LINES
        and len((ast.get_docstring(source(path)[1]) or "").splitlines()) < HEADER_LINES_LEAST
    ]
    assert short == []
