"""Line coverage by package, of daemons and tools too: `python -m tests.measure.coverage [pytest's arguments]`.

Every Python process below the tests measures itself: coverage's `subprocess` patch makes each begin, its `_exit` patch
makes what ends by `os._exit` write its data first (pyproject.toml, tool.coverage.run). A process that is killed writes
none. Starters and file agents are other accounts, so that the directory of data is open to all; the confined daemons
of root's pool may write there because `tests/whole/real_pool.py` names it as their TMP_DIR.

The floor holds for a run of all tests, with `-n` and nothing else. Where arguments choose tests, the figures are
shown and nothing is refused.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FLOOR: Final = 92.0
"""The least per cent of all lines that a run of all tests executes: a point below what was measured (93.3)."""
ALL: Final = ("-m", "not slow and not long and not nodes", "--dist", "loadfile", "--no-loadscope-reorder", "tests")
UNMEASURED: Final = (
    # They look at what a process imports, and what measures is imported too.
    "tests/minipool/cli/test_start_up.py",
    "tests/protocol/test_imports.py",
    "tests/daemons/process/test_children_are_ready.py",
    # They look at the processor time that an expression takes, which is more where each line is counted.
    "tests/pool/classad/test_budget.py::test_no_shape_of_bomb_takes_much_more_than_the_budget",
    "tests/attacks/test_evaluation.py::test_others_are_answered_between_the_pieces_of_a_bomb",
    # It looks at the files that a confined process can write, and its measure is one of them.
    "tests/attacks/test_confined_daemons.py::test_what_it_gave_up_is_gone",
)
"""Tests that would see what measures them."""
TOP: Final = ("pool", "protocol", "daemons", "minipool")


def main(argv: Sequence[str]) -> int:
    """Run the tests, print the table; 1 where a test fails or the floor is not reached."""
    chosen = bool(argv) and argv[0] != "-n"
    directory = Path(tempfile.mkdtemp(prefix="minipool-coverage."))
    try:
        directory.chmod(0o1777)
        environment = {**os.environ, "COVERAGE_FILE": str(directory / "data")}
        ignored = [f"--deselect={test}" for test in UNMEASURED]
        tests = _coverage(
            ["run", "-m", "pytest", "-q", "-p", "no:cacheprovider", *ignored, *(argv if chosen else [*argv, *ALL])],
            environment,
        )
        _coverage(["combine", "-q", str(directory)], environment)
        report = directory / "report.json"
        _coverage(["json", "-q", "-o", str(report)], environment)
        files = json.loads(report.read_text())["files"]
    finally:
        shutil.rmtree(directory)
    print("\n".join(table(files)))
    reached = per_cent(of["summary"] for of in files.values())
    if not chosen and reached < FLOOR:
        print(f"{reached:.1f} % of the lines are executed, less than {FLOOR:.0f} %", file=sys.stderr)
        return 1
    return tests


def _coverage(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], env=environment, check=False).returncode


def table(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each package, and one for all."""
    packages: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for name, found in files.items():
        packages[package_of(name)].append(found["summary"])
    lines = [f"{'package':<24} {'lines':>7} {'executed':>9}"]
    for name, summaries in sorted(packages.items()):
        lines.append(f"{name:<24} {_lines(summaries):>7} {per_cent(summaries):>7.1f} %")
    every = [found["summary"] for found in files.values()]
    return [*lines, f"{'all':<24} {_lines(every):>7} {per_cent(every):>7.1f} %"]


def package_of(file: str) -> str:
    """The package of a source file, from the last of our top packages in its path on."""
    parts = Path(file).parts
    first = max(at for at, part in enumerate(parts[:-1]) if part in TOP)
    return ".".join(parts[first:-1])


def per_cent(summaries: Iterable[Mapping[str, int]]) -> float:
    """How many of the lines are executed."""
    found = list(summaries)
    return 100.0 * sum(one["covered_lines"] for one in found) / max(1, _lines(found))


def _lines(summaries: Iterable[Mapping[str, int]]) -> int:
    return sum(one["num_statements"] for one in summaries)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
