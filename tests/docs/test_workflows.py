"""docs/workflows.md: every command that looks at a graph is given, and prints what the page shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pool.dag.language.commands import KEYWORDS
from tests.docs import pages
from tests.whole.real_pool import real_pool


def test_every_command_that_looks_at_a_graph_prints_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    tools = Path(sys.executable).parent
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "CONDOR_CONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)}
    given = 0
    for block in pages.blocks("workflows.md", {}):
        if block.kind in ("dag", "python"):
            (tmp_path / block.name).write_text(block.text)
        if block.kind != "console" or block.name == "pool":
            continue
        for _, command, expected in pages.commands(block.text):
            if not command.startswith(("pool dag show", "python3 ")):
                continue
            done = subprocess.run(
                ["/bin/sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            assert done.stdout + done.stderr == expected, command
            given += 1
    assert given >= 5
    # The picture that the page shows is the one that its command drew.
    assert (tmp_path / "diamond.svg").read_text() == (pages.PAGES / "pictures" / "diamond.svg").read_text()


def test_a_graph_is_run_mended_and_stopped_as_the_page_shows() -> None:
    with real_pool(start=False, NUM_CPUS="4", MEMORY="4000") as pool:
        examples = pages.blocks("workflows.md", {})
        pages.install(examples, pool, pool.directory / "programs")
        pages.start_in_use(pool)
        pages.perform([block for block in examples if block.name == "pool"], pool)


def test_the_page_has_every_command() -> None:
    said = (pages.PAGES / "workflows.md").read_text().upper().replace("-", "_")
    assert [keyword for keyword in sorted(KEYWORDS) if keyword not in said] == []
