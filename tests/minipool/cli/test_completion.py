"""Completion in a shell: the script is asked as the shell asks it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASK = """source {script}
COMP_WORDS=({words}) COMP_CWORD={at}
_minipool
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    code = "import sys; from minipool.cli.entry.main import dispatch; sys.exit(dispatch('completion', ['bash']))"
    path = tmp_path_factory.mktemp("completion") / "pool.bash"
    path.write_text(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("condor_q -better-analyz", ["-better-analyze"]),
        ("/usr/bin/condor_q -reverse", ["-reverse-analyze"]),
        ("pool histo", ["history"]),
        ("pool history -ep", ["-epochs"]),
        ("condor_status -comp", ["-compact"]),
        ("condor_rm -forc", ["-forcex"]),
        ("condor_q -nosuch", [""]),
    ],
)
def test_options_and_verbs_are_completed(script: Path, words: str, expected: list[str]) -> None:
    ask = ASK.format(script=script, words=words, at=len(words.split()) - 1)
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == expected


def test_the_value_of_a_file_option_is_a_file(script: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.ads").touch()
    ask = ASK.format(script=script, words="condor_q -jobads jo", at=2)
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "jobs.ads\n"
