"""Whether tests see faults: single mutations of a module, each with a run of the tests that should notice.

    python -m tests.measure.mutants [--count N] [--seed N] MODULE TEST_FILE...      (or: make mutants ARGS="...")

Without a module, those of SAMPLE are taken. A mutation swaps an operator, moves a number, turns a truth value or a
condition round, or leaves out a call; which ones are tried is drawn with the seed, which is printed. Mutants are made
in a copy of the tree, so that a run that is broken off leaves nothing behind. What survives is printed as the line
before and after: either a test is missing, or the two mean the same.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
COPIED: Final = ("pool", "protocol", "daemons", "minipool", "docs", "tests", "benchmarks", "deploy", "pyproject.toml")
SAMPLE: Final[Mapping[str, tuple[str, ...]]] = {
    "pool/slots/lease.py": ("tests/pool/slots/test_lease.py",),
    "pool/hosts/supervision.py": ("tests/pool/hosts/test_supervision.py",),
    "pool/accounting/accounts.py": ("tests/pool/accounting/test_accounts.py",),
    "pool/jobs/crontab.py": ("tests/pool/jobs/test_crontab.py",),
    "protocol/security/authorize.py": ("tests/protocol/test_authorize.py",),
}
SWAPS: Final[Mapping[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Each mutant of a module: the line that differs, that line's statement as it was, and the whole mutated source."""
    tree = ast.parse(source)
    skipped = {id(node) for annotated in _texts(tree) for node in ast.walk(annotated)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for way in range(_ways(node)):
            mutated = copy.deepcopy(tree)
            twin = list(ast.walk(mutated))[number]
            _mutate(twin, way)
            yield node.lineno, ast.unparse(node), ast.unparse(mutated)  # type: ignore[attr-defined]


def _texts(tree: ast.Module) -> Iterator[ast.AST]:
    """What is said and not done: annotations, texts that stand alone, and what a class is made as."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from node.decorator_list
        yield from (part for part in (getattr(node, "annotation", None), getattr(node, "returns", None)) if part)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node


def _ways(node: ast.AST) -> int:
    """In how many ways this node itself can be mutated."""
    match node:
        case ast.Compare():
            return sum(type(op) in SWAPS for op in node.ops)
        case ast.BoolOp() | ast.BinOp():
            return int(type(node.op) in SWAPS)
        case ast.Constant():
            return int(isinstance(node.value, bool | int | float))
        case ast.If() | ast.IfExp() | ast.While():
            return 1
        case ast.Expr():
            return int(isinstance(node.value, ast.Call | ast.Await))
    return 0


def _mutate(node: ast.AST, way: int) -> None:
    match node:
        case ast.Compare():
            node.ops[way] = SWAPS[type(node.ops[way])]()  # type: ignore[call-overload]
        case ast.BoolOp() | ast.BinOp():
            node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
        case ast.Constant():
            node.value = not node.value if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Expr():
            node.value = ast.Constant(None)


def survivors(module: str, tests: Sequence[str], *, count: int, rng: random.Random) -> Iterator[tuple[int, str, str]]:
    """Try `count` mutants of a module; those that no test notices, with the statement before and after."""
    source = (ROOT / module).read_text()
    found = list(mutants(source))
    chosen = rng.sample(found, min(count, len(found)))
    plain = ast.unparse(ast.parse(source))
    with tempfile.TemporaryDirectory(prefix="minipool-mutants.") as name:
        place = Path(name)
        place.chmod(0o755)
        _copy_to(place)
        (place / module).write_text(plain)
        if not passes(place, tests):
            raise SystemExit(f"{' '.join(tests)}: a test fails on {module} as it is")
        for line, before, mutated in sorted(chosen):
            (place / module).write_text(mutated)
            if passes(place, tests):
                yield line, before, changed_line(plain, mutated)


def _copy_to(place: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, place / name)


def changed_line(plain: str, mutated: str) -> str:
    """The first line of the mutant that the module has not."""
    for before, after in zip(plain.splitlines(), mutated.splitlines(), strict=False):
        if before != after:
            return after.strip()
    return ""


def passes(place: Path, tests: Sequence[str]) -> bool:
    """Whether the tests pass in the copy; a test that does not end fails."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "30", *tests]
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main(argv: Sequence[str]) -> int:
    """Print what survives, and how many; 1 where something does."""
    parser = argparse.ArgumentParser(prog="tests.measure.mutants", description="Try mutations of modules.")
    parser.add_argument("--count", type=int, default=10, help="mutants of each module (10)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("module", nargs="?")
    parser.add_argument("tests", nargs="*")
    asked = parser.parse_args(argv)
    if asked.module and not asked.tests:
        parser.error("name the files of tests that should notice")
    left = 0
    for module, tests in ({asked.module: asked.tests} if asked.module else SAMPLE).items():
        found = list(survivors(module, tests, count=asked.count, rng=random.Random(asked.seed)))
        left += len(found)
        print(f"{module}: {len(found)} of {asked.count} survive (seed {asked.seed})", flush=True)
        for line, before, after in found:
            print(f"  {module}:{line}: {before.splitlines()[0]}\n      {after}", flush=True)
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
