"""Mutations change one thing each, and what no test notices is told."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.measure import mutants

SOURCE = '''"""What a module says."""

def f(a: int = 3, b: bool = True) -> int:
    """What a function says."""
    if a < 1 and b:
        print(a)
    return a + 2
'''


def test_each_mutant_differs_in_one_place_and_can_be_read() -> None:
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    changed = set()
    for _, _, mutated in mutants.mutants(SOURCE):
        ast.parse(mutated)
        differing = [line for line, before in zip(mutated.splitlines(), plain, strict=True) if line != before]
        assert len(differing) == 1
        changed.add(differing[0].strip())
    assert changed == {
        "def f(a: int=4, b: bool=True) -> int:",
        "def f(a: int=3, b: bool=False) -> int:",
        "if not (a < 1 and b):",
        "if a < 1 or b:",
        "if a <= 1 and b:",
        "if a < 2 and b:",
        "None",
        "return a - 2",
        "return a + 3",
    }


def test_a_mutant_that_no_test_notices_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module.py").write_text("def f(a):\n    return a < 3\n")
    (tmp_path / "test_it.py").write_text("import module\n\ndef test_f():\n    assert module.f(1) and not module.f(4)\n")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "COPIED", ("module.py", "test_it.py"))
    found = list(mutants.survivors("module.py", ["test_it.py"], count=10, rng=random.Random(1)))
    assert {after for _, _, after in found} == {"return a <= 3", "return a < 4"}


def test_the_sample_names_files_that_exist() -> None:
    root = Path(__file__).parents[2]
    assert len(mutants.SAMPLE) >= 5
    for module, tests in mutants.SAMPLE.items():
        package, _, rest = module.partition("/")
        assert (Path(__import__(package).__path__[0]) / rest).is_file()
        assert all((root / test).is_file() for test in tests)
