"""Unmodified programs that move (want_checkpoint = criu): two hosts, a real CRIU, and pools that have none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from daemons.host.namespaces import can_isolate
from tests.whole.hosts import four_hosts
from tests.whole.real_pool import real_pool

REAL = pytest.mark.skipif(
    not can_isolate() or shutil.which("criu", path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None,
    reason="takes root's rights and the program criu",
)
COUNT = """
import os, time
into = os.pipe()
os.write(into[1], b"from the first host")
mine = open("counted", "w")
for number in range(1, 1000001):
    if number % 1000 == 0:
        print(number, os.getpid(), file=mine, flush=True)
        time.sleep(0.01)
print(os.read(into[0], 100).decode(), flush=True)
"""
JOB = """
executable      = /usr/bin/python3
arguments       = count.py
transfer_executable  = false
transfer_input_files = count.py
transfer_output_files = counted
want_checkpoint = criu
requirements    = Machine =!= MY.LeftMachine
output          = out
error           = err
log             = log
queue
"""


@REAL
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_program_counts_to_a_million_and_goes_on_where_it_was_on_another_host() -> None:
    with four_hosts(NUM_CPUS="1", MEMORY="1024") as hosts:
        submit = hosts.submit
        home = submit.place("count")
        (home / "count.py").write_text(COUNT)
        (home / "count.py").chmod(0o644)
        with submit.as_user("nobody"):
            cluster = str(submit.submit(JOB, cwd=home))
            (job,) = submit.until(lambda: submit.jobs(cluster, "-constraint", "JobStatus == 2"), "the job to run")
            first = (job.eval_str("RemoteHost") or "").partition("@")[2]
            submit.tool("condor_qedit", cluster, "LeftMachine", f'"{first}"')
            submit.until(lambda: "\n" in submit.tool("condor_tail", cluster, "counted"), "the program to count")
            submit.tool("condor_vacate_job", cluster)
            (ad,) = submit.until_done(int(cluster))
        assert ad.eval("LastRemoteHost") not in (None, f"slot1@{first}")
        assert first not in str(ad.eval("LastRemoteHost"))
        assert (ad.eval("ExitCode"), ad.eval("NumCkpts"), ad.eval("NumJobStarts")) == (0, 1, 2)
        assert (home / "out").read_text() == "from the first host\n"
        lines = [line.split() for line in (home / "counted").read_text().splitlines()]
        assert [int(number) for number, _ in lines] == list(range(1000, 1000001, 1000))
        assert len({pid for _, pid in lines}) == 1
        events = (home / "log").read_text()
        assert events.count(") Job was checkpointed.") == 1  # of event 004
        assert events.count(" Job was checkpointed.") == 2


@pytest.mark.slow
def test_where_there_is_no_criu_the_job_says_so_before_it_starts() -> None:
    with real_pool(NUM_CPUS=1, CRIU="/nowhere/criu") as pool:
        home: Path = pool.place("none")
        cluster = pool.submit("executable = /bin/true\nwant_checkpoint = criu\nlog = log\nqueue\n", cwd=home)
        (slot,) = pool.slots()
        assert (slot.eval("HasCriu"), slot.eval("CriuProblem")) == (False, "there is no /nowhere/criu")
        said = pool.until(lambda: _says(pool.tool("pool", "why", str(cluster))), "why it does not run")
        assert "HasCriu" in said


def _says(text: str) -> str:
    return text if "HasCriu" in text else ""
