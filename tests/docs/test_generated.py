"""Pages that are made from tables say what the tables say now."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from docs import manual
from docs.generate import HERE, PAGES, SHARE
from minipool.cli.entry.names import POOL_VERBS, TOOLS


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (HERE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_manual_pages_and_completions_are_current() -> None:
    there = {str(path.relative_to(SHARE)): path.read_text() for path in SHARE.rglob("*") if path.is_file()}
    assert there == manual.files(), "run `make docs`"


def test_every_tool_has_a_manual_page_and_a_completion() -> None:
    found = manual.files()
    assert len(TOOLS) > 40
    assert {path.removeprefix("man/man1/") for path in found if path.startswith("man/")} == {
        "pool.1",
        *(f"condor_{verb}.1" for verb in TOOLS),
        *(f"pool-{verb}.1" for verb in POOL_VERBS),
    }
    assert all(f"bash-completion/completions/condor_{verb}" in found for verb in TOOLS)


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_a_manual_page_shows_options_as_the_help_does() -> None:
    page = SHARE / "man/man1/condor_rm.1"
    shown = subprocess.run(
        ["man", "--warnings", "-l", str(page)],
        env={"PATH": os.environ["PATH"], "MANWIDTH": "200", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "This system has been minimized" in shown.stdout:
        pytest.skip("no manual pages here")
    assert shown.stderr == ""
    assert "-constraint EXPR" in shown.stdout


def test_bash_completes_a_tool_from_its_own_file() -> None:
    asked = (
        f"source {SHARE}/bash-completion/completions/condor_rm; COMP_WORDS=(condor_rm -const); COMP_CWORD=1; "
        "_minipool; echo ${COMPREPLY[@]}"
    )
    said = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["-constraint"]
