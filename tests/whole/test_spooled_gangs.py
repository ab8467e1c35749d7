"""Parallel jobs whose files are still being spooled: later ones pass them, or wait for them. Real daemons."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.jobs.vocabulary.hold_codes import HoldCode
from tests.whole.real_pool import DEADLINE_S, RealPool, as_account, real_pool
from tests.whole.test_parallel import COUNT, PARALLEL, submit

pytestmark = pytest.mark.slow

LARGE_BYTES = 512 << 20
SINGLE = "executable = /bin/true\ntransfer_executable = false\nrequest_memory = 16\nqueue\n"


@contextmanager
def host(waits: bool) -> Iterator[RealPool]:
    """A host with room for one of the parallel jobs here at a time."""
    with real_pool(
        NUM_CPUS=3,
        SCHEDD_NAME="here@$(FULL_HOSTNAME)",
        DedicatedScheduler='"DedicatedScheduler@$(SCHEDD_NAME)"',
        DEDICATED_SCHEDULER_WAIT_FOR_SPOOLER=waits,
    ) as pool:
        yield pool


@contextmanager
def being_spooled(pool: RealPool, place: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A parallel job whose files do not come, for its condor_submit stands still, and that program."""
    with (place / "large").open("wb") as file:
        file.truncate(LARGE_BYTES)
    text = PARALLEL.format(nodes=2, script=COUNT, more="transfer_input_files = large")
    (place / "job.sub").write_text(text)
    program = Path(sys.executable).with_name("condor_submit")
    run = [str(program), "-spool", "job.sub"]
    spooling = f"HoldReasonCode == {HoldCode.SPOOLING_INPUT}"
    with subprocess.Popen(run, cwd=place, env=pool.env(), stdout=subprocess.DEVNULL, **as_account(pool.user)) as client:
        try:
            (ad,) = pool.until(lambda: pool.jobs("-constraint", spooling), "the job to be there")
            client.send_signal(signal.SIGSTOP)
            assert pool.jobs("-constraint", spooling), "its files were quicker than this test"
            yield ad.eval_int("ClusterId", 0), client
        finally:
            client.send_signal(signal.SIGCONT)
            client.kill()


def passes(pool: RealPool) -> None:
    """A later job of another kind: once it is done, slots were handed out."""
    pool.until_done(pool.submit(SINGLE, cwd=pool.place("passes")))


def test_parallel_jobs_wait_for_earlier_ones_that_are_being_spooled_if_the_knob_says_so() -> None:
    with host(waits=True) as pool:
        with being_spooled(pool, pool.place("first")) as (first, client):
            second = submit(pool, pool.place("second"), 2, COUNT)
            passes(pool)
            assert (pool.statuses(first), pool.statuses(second)) == ([5], [1])
            client.send_signal(signal.SIGCONT)
            assert client.wait(DEADLINE_S) == 0
        (after,) = pool.until_done(second)
        (before,) = pool.jobs(str(first))  # which keeps its output until that is fetched
        assert before.eval_int("CompletionDate", 0) <= after.eval_int("JobStartDate", 0)
        with being_spooled(pool, pool.place("third")) as (third, _):
            fourth = submit(pool, pool.place("fourth"), 2, COUNT)
            passes(pool)
            assert (pool.statuses(third), pool.statuses(fourth)) == ([5], [1])
            pool.tool("condor_rm", str(third))
            pool.until_done(fourth)
        pool.tool("condor_rm", str(first))
        pool.until_gone(first)


def test_otherwise_later_ones_pass() -> None:
    with host(waits=False) as pool, being_spooled(pool, pool.place("first")) as (first, _):
        pool.until_done(submit(pool, pool.place("second"), 2, COUNT))
        assert pool.statuses(first) == [5]
        pool.tool("condor_rm", str(first))
