"""docs/hosts.md: four hosts on one machine, as the page sets them up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES
from tests.whole.real_pool import DEADLINE_S, pool_directory


def commands(title: str) -> str:
    """The commands of a section."""
    text = (PAGES / "hosts.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return "".join(f"{line}\n" for line in re.findall(r"^    (.*)$", text, re.MULTILINE))


@pytest.mark.slow
def test_four_hosts_are_set_up_and_one_is_revoked() -> None:
    with pool_directory() as directory:
        script = commands("Four hosts on one machine").replace("/tmp/p", str(directory))
        script = script.replace("127.0.0.", "127.{}.{}.".format(*divmod(os.getpid() % 62_500, 250)))  # no other run's
        done = run(script)
        try:
            assert done.returncode == 0, done.stdout + done.stderr
        finally:
            run("; ".join(f"pool down --dir {directory}/{name} -fast" for name in ("ap", "ex1", "ex2", "cm")))
    assert re.search(r"^slot1@ex1\.pool\.test ", done.stdout, re.MULTILINE)
    assert re.search(r"^ex1\.pool\.test +execute +[0-9A-F]+ +\d{4}-\d\d-\d\d +good$", done.stdout, re.MULTILINE)
    assert re.search(r"^Revoked [0-9A-F]+ of ex2\.pool\.test\.$", done.stdout, re.MULTILINE)


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run commands as somebody would who has the environment's programs on the path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script],
        env={"PATH": path, "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        check=False,
    )
