"""Knobs that nothing reads are told from those that something reads."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import daemons
import minipool
import pool
import protocol
from pool.config import knobs, load_config
from pool.config.without_effect import WITHOUT_EFFECT

TABLES = ("knob_table.py", "without_effect.py")


@cache
def said_in_the_code() -> frozenset[str]:
    """Every string constant of the sources, but for the tables of knobs."""
    found = set()
    for package in (daemons, minipool, pool, protocol):
        for path in Path(package.__path__[0]).rglob("*.py"):
            if path.name not in TABLES:
                tree = ast.parse(path.read_text())
                found |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return frozenset(found)


def test_what_is_said_to_be_without_effect_is_read_nowhere() -> None:
    assert sorted(WITHOUT_EFFECT & said_in_the_code()) == []


def test_it_is_known_all_the_same() -> None:
    assert [name for name in sorted(WITHOUT_EFFECT) if knobs.find(name) is None] == []


def test_a_configuration_tells_which_of_them_are_set_and_where(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("NUM_CPUS = 2\nDEFRAG_INTERVAL = 5\nSCHEDD.Flock_To = there\n")
    config = load_config([str(file)], environ={})
    assert config.without_effect == [f"DEFRAG_INTERVAL ({file}:2)", f"SCHEDD.Flock_To ({file}:3)"]
