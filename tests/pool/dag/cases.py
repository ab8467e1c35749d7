"""Cases of tests/cases/dag: files of a graph, and what comes of them, as text that people can read and write.

A case begins with `=== what it shows`; `--- NAME` begins each of its files, and `--->` what is expected: of a good case
a line for each node and setting that is not as usual, of a wrong one the message.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pool.dag.model import Dag, Node, Place

CASES = Path(__file__).parents[2] / "cases" / "dag"


class Case(NamedTuple):
    name: str
    files: dict[str, str]
    expected: str


def load(file: str) -> list[Case]:
    """The cases of a file."""
    cases = []
    for block in (CASES / file).read_text().split("=== ")[1:]:
        name, _, body = block.partition("\n")
        said, _, expected = body.partition("--->\n")
        parts = [part.partition("\n") for part in said.split("--- ")[1:]]
        cases.append(Case(name, {part[0]: part[2] for part in parts}, expected.strip()))
    return cases


def reader(files: dict[str, str]) -> Callable[[str], str]:
    """What reads these files."""

    def read_file(name: str) -> str:
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory", name)
        return files[name]

    return read_file


def told(dag: Dag) -> str:
    """A graph in lines: each node with what is not as usual, then the graph's own settings."""
    lines = [_node(dag, number) for number in range(len(dag.nodes))]
    for field in (
        "categories",
        "status_file",
        "dot",
        "jobstate_log",
        "config",
        "environment",
        "attributes",
        "rejected",
    ):
        value = getattr(dag, field)
        if value != Dag._field_defaults.get(field):
            lines.append(f"{field}: {str(value) if isinstance(value, Place) else _plain(value)}")
    return "\n".join([*lines, *(f"warning: {odd.text}" for odd in dag.warnings)])


def _node(dag: Dag, number: int) -> str:
    node = dag.nodes[number]
    parts = [node.kind, node.name, node.submit or "-"]
    for field, usual in Node._field_defaults.items():
        if (value := getattr(node, field)) != usual:
            parts.append(f"{field}={_plain(value)}")
    for arrow, edges in ((" -> ", dag.children), (" ~> ", dag.weak)):
        if edges and edges[number]:
            parts.append(arrow.strip() + " " + " ".join(dag.nodes[child].name for child in edges[number]))
    return " ".join(parts)


def _plain(value: object) -> object:
    """A value without the names of its fields."""
    if isinstance(value, Place):
        return str(value)
    return tuple(_plain(part) for part in value) if isinstance(value, tuple) else value
