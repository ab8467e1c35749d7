"""Which module imports which. `python -m tests.layers` draws the packages, each below those that import it.

Imports inside functions count: they come later, but they come. What only type checkers read counts between the four top
packages, not inside them: two classes may know of each other's type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import daemons
import minipool
import pool
import protocol

TOPS = {top.__name__: Path(top.__path__[0]) for top in (pool, protocol, daemons, minipool)}


@dataclass(frozen=True)
class Import:
    """One import: the line, the module's full name, and whether only type checkers see it."""

    line: int
    name: str
    for_types: bool


def name_of(top: str, path: Path) -> str:
    """A file's name as a module, or as a package."""
    parts = (top, *path.relative_to(TOPS[top]).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(top, path): path for top, home in TOPS.items() for path in sorted(home.rglob("*.py"))}
PACKAGES = frozenset(name for name, path in FILES.items() if path.name == "__init__.py")


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """What a file imports; `from package import module` is the module's."""
    return tuple(_imports(ast.parse(path.read_text(encoding="utf-8")), for_types=False))


def _imports(tree: ast.AST, *, for_types: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield Import(node.lineno, full if full in FILES else node.module, for_types)
        else:
            test = node.test if isinstance(node, ast.If) else None
            only_types = isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
            yield from _imports(node, for_types=for_types or only_types)


def modules() -> dict[str, set[str]]:
    """Each module, and those of ours that it imports."""
    return {
        name: {one.name for one in imports(path) if not one.for_types and one.name in FILES} - {name}
        for name, path in FILES.items()
    }


def packages() -> dict[str, set[str]]:
    """Each package, and those that its own modules import."""
    graph: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for name, imported in modules().items():
        graph[_package(name)] |= {_package(one) for one in imported}
    return {package: imported - {package} for package, imported in graph.items()}


def _package(module: str) -> str:
    return module if module in PACKAGES else module.rpartition(".")[0]


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The names of a circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def main() -> None:
    """Draw the packages, from what imports nothing upwards."""
    graph = packages()
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    while ready := sorted(sorter.get_ready()):
        for package in ready:
            print(f"{package:<28} <- {' '.join(sorted(graph[package])) or '-'}")
        sorter.done(*ready)
        print()


if __name__ == "__main__":
    main()
