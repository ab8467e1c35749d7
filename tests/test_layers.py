"""Which package may import which: pool <- protocol <- daemons, minipool."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import daemons
import minipool
import pool
import protocol

OURS = {"pool", "protocol", "daemons", "minipool"}
ALLOWED = {
    "pool": {"pool"},
    "protocol": {"protocol", "pool"},
    "daemons": {"daemons", "protocol", "pool"},
    "minipool": {"minipool", "protocol", "pool"},
}
FOREIGN_TO = {"pool": {"trio", "socket", "subprocess", "outcome", "msgpack", "threading", "asyncio"}}
"""What the domain does not touch: it is handed what it needs of the outside."""

PACKAGES = [pool, protocol, daemons, minipool]
FILES = [(package.__name__, path) for package in PACKAGES for path in sorted(Path(package.__path__[0]).rglob("*.py"))]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Each top-level package that a file imports, with its line; what only type checkers read counts too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


@pytest.mark.parametrize("package", sorted(OURS))
def test_imports_point_one_way(package: str) -> None:
    forbidden = (OURS - ALLOWED[package]) | FOREIGN_TO.get(package, set())
    wrong = [
        f"{path}:{line}: imports {name}"
        for owner, path in FILES
        if owner == package
        for line, name in imported(path)
        if name in forbidden
    ]
    assert wrong == []


def test_no_package_of_ours_hides_a_standard_module() -> None:
    import sys

    assert OURS & set(sys.stdlib_module_names) == set()
