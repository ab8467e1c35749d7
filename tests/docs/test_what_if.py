"""docs/what-if.md: every command is given, and prints what the page shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs import pages


def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    tools = Path(sys.executable).parent
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "CONDOR_CONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
    given = 0
    for block in pages.blocks("what-if.md", {}):
        if block.kind == "sh":
            (tmp_path / block.name).write_text(block.text)
            continue
        for _, command, expected in pages.commands(block.text):
            done = subprocess.run(
                ["/bin/sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            assert done.stdout + done.stderr == expected, command
            given += 1
    assert given == 8
