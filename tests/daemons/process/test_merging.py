"""Which memory the kernel may merge, and who switches that on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from daemons.base import merging
from daemons.process.children import Zygote
from tests.daemons.one_host import one_host

ROOT = Path(__file__).parents[3]

merges = pytest.mark.skipif(not merging.SWITCH.exists(), reason="this kernel merges no memory")

FORKS = """
import os, sys
from daemons.process import first_zygote
first_zygote.fork_for("startd")
zygote = first_zygote.take(first_zygote.KINDS["startd"])
def marked(pid):
    with open(f"/proc/{pid}/smaps") as file:
        return sum(line.startswith("VmFlags:") and " mg" in line for line in file)
print(marked(os.getpid()) > 0, marked(zygote.pid) > 0, flush=True)
zygote.kill()
os.execvp("grep", ["grep", "-c", "^VmFlags:.* mg", "/proc/self/smaps"])
"""


@merges
def test_a_daemon_and_what_it_forks_may_be_merged_and_a_program_that_is_executed_may_not() -> None:
    said = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True).stdout
    assert said.split() == ["True", "True", "0"]


@merges
async def test_the_children_of_a_zygote_that_was_executed_may_be_merged_as_well(nursery: trio.Nursery) -> None:
    zygote = Zygote({"until_orphaned": "tests.daemons.process.children:until_orphaned"}, env={"PYTHONPATH": str(ROOT)})
    await nursery.start(zygote.run)
    child = await zygote.fork("until_orphaned")
    flags = [line for line in Path(f"/proc/{child.pid}/smaps").read_text().splitlines() if line.startswith("VmFlags")]
    assert any(" mg" in line for line in flags)
    child.kill()
    await child.channel.aclose()


async def test_a_master_has_the_kernel_merge_where_its_configuration_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch = tmp_path / "ksm"
    switch.write_text("0\n")
    monkeypatch.setattr(merging, "SWITCH", switch)
    for wanted, left in (("false", "0\n"), ("true", "1")):
        async with one_host(tmp_path, overrides={"MERGE_EQUAL_MEMORY": wanted, "DAEMON_LIST": "MASTER"}) as host:
            await host.start("master")
            assert switch.read_text() == left


async def test_a_master_that_cannot_says_so_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "SWITCH", tmp_path / "none")
    async with one_host(tmp_path, overrides={"MERGE_EQUAL_MEMORY": "true", "DAEMON_LIST": "MASTER"}) as host:
        await host.start("master")
        assert "MERGE_EQUAL_MEMORY has no effect" in (host.directory / "log" / "MasterLog").read_text()
