"""What is made of coverage's figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.measure.coverage import UNMEASURED, package_of, per_cent, table


def summary(lines: int, covered: int) -> dict[str, dict[str, int]]:
    return {"summary": {"num_statements": lines, "covered_lines": covered}}


def test_a_file_belongs_to_the_package_it_lies_in_wherever_that_is_installed() -> None:
    assert package_of("pool/slots/state_machine.py") == "pool.slots"
    assert package_of("/x/pool/.venv/lib/site-packages/daemons/run.py") == "daemons"


def test_each_package_has_a_line_and_large_files_count_for_more() -> None:
    files = {"pool/a.py": summary(90, 90), "pool/b.py": summary(10, 0), "minipool/cli/c.py": summary(100, 50)}
    assert [line.split() for line in table(files)[1:]] == [
        ["minipool.cli", "100", "50.0", "%"],
        ["pool", "100", "90.0", "%"],
        ["all", "200", "70.0", "%"],
    ]
    assert per_cent([]) == 0.0


def test_what_is_left_out_is_there() -> None:
    root = Path(__file__).parents[2]
    for file, _, name in (test.partition("::") for test in UNMEASURED):
        assert f"def {name}" in (root / file).read_text()


def test_a_process_that_ends_as_tools_do_is_measured(tmp_path: Path) -> None:
    """It is started by one that is measured, runs a tool, and leaves by os._exit."""
    tool = "import sys; from minipool.cli.entry.main import condor; sys.argv = ['condor_version']; condor()"
    parent = tmp_path / "parent.py"
    parent.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {tool!r}], check=True)\n")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "COVERAGE_FILE": str(tmp_path / "data")}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)
    coverage = [sys.executable, "-m", "coverage"]
    rcfile = f"--rcfile={root / 'pyproject.toml'}"
    subprocess.run([*coverage, "run", rcfile, str(parent)], env=environment, check=True, cwd=root, capture_output=True)
    subprocess.run([*coverage, "combine", "-q", rcfile, str(tmp_path)], env=environment, check=True, cwd=root)
    said = subprocess.run(
        [*coverage, "report", rcfile, "--include=*/minipool/cli/entry/main.py"],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 20 < int(said.splitlines()[-1].split()[-1].rstrip("%")) < 100
