"""Every example of docs/classads.md does what the page says."""

from __future__ import annotations

import doctest
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "classads.md"
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
COMMANDS = [body for kind, _, body in BLOCKS if kind == "console"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the page's files, and with the tools."""
    for kind, name, body in BLOCKS:
        if kind == "classad":
            (tmp_path / name).write_text(body)
    for tool, entry in (("pool", "pool"), ("classad_eval", "condor")):
        program = tmp_path / tool
        program.write_text(f"#!{sys.executable}\nfrom minipool.cli.entry.main import {entry}\n{entry}()\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.split("\n")[0][2:40])
def test_command_prints_what_the_page_shows(place: Path, block: str) -> None:
    command, _, shown = block.removeprefix("$ ").partition("\n")
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "TZ": "UTC"}
    found = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=place, env=environment, timeout=100, check=False
    )
    assert (found.stdout + found.stderr).splitlines() == shown.splitlines()


def test_python_examples_do_what_the_page_shows() -> None:
    source = "".join(body for kind, _, body in BLOCKS if kind == "python")
    test = doctest.DocTestParser().get_doctest(source, {}, PAGE.name, str(PAGE), 0)
    said: list[str] = []
    outcome = doctest.DocTestRunner().run(test, out=said.append)
    assert outcome.attempted > 10
    assert not outcome.failed, "".join(said)
