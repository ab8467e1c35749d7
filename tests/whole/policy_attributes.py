"""Which attributes the cases of owners' policies put into ads of jobs and machines: from their files, and from the text of tests.

What somebody puts there himself is marked and not counted: `+Name=1` in a file, `own(Name=1)` in a test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.starters import ORDERS

TESTS = Path(__file__).parents[1]
PLACES = ("daemons/startd/*.py", "pool/slots/test_policy.py", "pool/slots/test_defaults.py")
_STEPS = {"runs": 3, "refuses": 2, "uses": 2}
"""The words of a step before its attributes."""
_MAKERS = frozenset(("a_job", "a_running_job", "inform"))
_ADS = {"ad": "machine", "job": "job"}

Use = tuple[str, str]
"""Which ad it is ("job", "machine", or "" where the text does not show it), and the attribute in lower case."""


def cases() -> dict[str, frozenset[Use]]:
    """What each case puts into ads, by the case's name."""
    found = {f"cases/policy/{path.name}": frozenset(_of_file(path)) for path in TESTS.glob("cases/policy/*.policy")}
    for path in (path for place in PLACES for path in TESTS.glob(place)):
        module = ast.parse(path.read_text())
        for node in module.body:
            name = getattr(node, "name", "(module)")
            key = f"{path.relative_to(TESTS)}::{name}"
            found[key] = found.get(key, frozenset()) | frozenset(_of_code(node, module))
    return {name: frozenset(use for use in uses if use[1] not in ORDERS) for name, uses in found.items() if uses}


def _of_file(path: Path) -> Iterator[Use]:
    for line in path.read_text().partition("\n---\n")[2].splitlines():
        words = line.split()
        if len(words) > 1 and words[1] in _STEPS:
            names = (word.partition("=")[0] for word in words[_STEPS[words[1]] :])
            yield from (("job", name.lower()) for name in names if not name.startswith("+"))


def _of_code(node: ast.stmt, module: ast.Module) -> Iterator[Use]:
    for call in (one for one in ast.walk(node) if isinstance(one, ast.Call)):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called == "ClassAd" and call.args:
            yield from (("", key) for key in _keys(call.args[0], node, module))
        for keyword in call.keywords:
            if called in _MAKERS and keyword.arg is not None:
                yield "job", keyword.arg.lower()
            elif called in _MAKERS:
                yield from (("job", key) for key in _keys(keyword.value, node, module))
            elif called == "wanted" and keyword.arg in _ADS:
                yield from ((_ADS[keyword.arg], key) for key in _keys(keyword.value, node, module))


def _keys(value: ast.expr, node: ast.stmt, module: ast.Module) -> Iterator[str]:
    """The names in a mapping: written here, assigned before, or given to the test by its decorators."""
    if isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value.lower()
            elif key is None:
                yield from _keys(inner, node, module)
    elif isinstance(value, ast.Name):
        for where in (node, module):
            for one in ast.walk(where):
                if isinstance(one, ast.Assign) and any(getattr(t, "id", "") == value.id for t in one.targets):
                    yield from _keys(one.value, node, module)
        for decorator in getattr(node, "decorator_list", ()):
            if value.id in _parameters(decorator):
                for one in ast.walk(decorator):
                    if isinstance(one, ast.Dict):
                        yield from _keys(one, node, module)


def _parameters(decorator: ast.expr) -> set[str]:
    """The names that `@pytest.mark.parametrize` gives to a test."""
    first = decorator.args[0] if isinstance(decorator, ast.Call) and decorator.args else None
    return {one.value for one in ast.walk(first) if isinstance(one, ast.Constant)} if first is not None else set()
