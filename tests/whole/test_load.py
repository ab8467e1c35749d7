"""Who uses the machine: real daemons, the default layout of one partitionable slot, busy jobs and an owner at work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import RealPool, real_pool

BUSY = "executable = /bin/sh\narguments = \"-c 'while :; do :; done'\"\ntransfer_executable = false\n"
RUNNING, SUSPENDED = 2, 7
SOME = 0.03
SPIN = (sys.executable, "-c", "while True: pass")


def dynamic(pool: RealPool) -> list[ClassAd]:
    return [ad for ad in pool.slots() if ad.eval_bool("DynamicSlot", False)]


@contextmanager
def an_owner_at_work(processes: int) -> Iterator[None]:
    """Processes that are no job's keep cores busy."""
    with ExitStack() as stack:
        for _ in range(processes):
            spinning = stack.enter_context(subprocess.Popen(SPIN))
            stack.callback(spinning.kill)
        yield


@pytest.mark.parametrize("grouped", [True, False])
def test_a_busy_job_is_the_pools_own_load(grouped: bool) -> None:
    owner = None if grouped else "nobody"
    if grouped and os.geteuid() != 0:
        pytest.skip("an ordinary account may have no control groups")
    with real_pool(owner=owner, POLLING_INTERVAL=1, UPDATE_INTERVAL=2) as pool:
        cluster = pool.submit(BUSY + "queue\n")
        pool.until_status(cluster, RUNNING)

        def seen() -> list[ClassAd]:
            names = "CondorLoadAvg", "CpusUsage"
            return [ad for ad in dynamic(pool) if all(ad.eval_float(name, 0.0) > SOME for name in names)]

        (slot,) = pool.until(seen, "the load of the job")
        assert slot.eval_float("TotalCondorLoadAvg", 0.0) > SOME / 2
        assert (
            slot.eval_float("CondorLoadAvg", 0.0)
            <= slot.eval_float("LoadAvg", 0.0)
            <= slot.eval_float("TotalLoadAvg", 0.0) + 0.01
        )
        pool.tool("condor_rm", str(cluster))
        pool.until(lambda: not pool.jobs(), "the end of the job")


@pytest.mark.slow
def test_an_owner_at_work_suspends_the_job_of_a_dynamic_slot_and_the_job_itself_does_not() -> None:
    """The load beyond idle cores arrives at the slot that runs the job, and is what a policy with CPUBusy is about."""
    policy = {
        "WANT_SUSPEND": "true",
        "SUSPEND": "(LoadAvg - CondorLoadAvg) >= 0.5",
        "CONTINUE": "(LoadAvg - CondorLoadAvg) <= 0.3",
    }
    with real_pool(NUM_CPUS=1, POLLING_INTERVAL=1, UPDATE_INTERVAL=2, **policy) as pool:
        cluster = pool.submit(BUSY + "queue\n")
        begun = f"{cluster} has begun"  # and may be suspended at once, where others use the machine already
        pool.until(lambda: pool.jobs(str(cluster))[0].eval_int("JobStatus") in (RUNNING, SUSPENDED), begun)
        with an_owner_at_work(3 * (os.cpu_count() or 1)):
            pool.until_status(cluster, SUSPENDED)

            def of_the_owner() -> list[ClassAd]:
                loads = (
                    (ad, ad.eval_float("LoadAvg", 0.0) - ad.eval_float("CondorLoadAvg", 0.0)) for ad in dynamic(pool)
                )
                return [ad for ad, load in loads if load >= 0.5]

            pool.until(of_the_owner, "the owner's load in the slot's ad")
        pool.tool("condor_rm", str(cluster))
        pool.until(lambda: not pool.jobs(), "the end of the job")


def test_typing_at_any_terminal_is_seen_where_utmp_is_bad() -> None:
    """The terminal is in no list of people who are logged in, as those of terminal emulators often are not."""
    ours, theirs = os.openpty()
    try:
        with real_pool(STARTD_HAS_BAD_UTMP="true", SLOTS_CONNECTED_TO_KEYBOARD=1, UPDATE_INTERVAL=2) as pool:
            os.write(ours, b"a key\n")
            os.read(theirs, 100)

            def used() -> list[ClassAd]:
                return [ad for ad in pool.slots() if ad.eval_int("KeyboardIdle", 10**6) < 120]

            pool.until(used, "the key press")
    finally:
        os.close(ours)
        os.close(theirs)


def test_benchmarks_run_once_for_anything_but_false() -> None:
    never = "time() - LastBenchmark > 4000000000"
    with real_pool(RunBenchmarks=never, UPDATE_INTERVAL=2) as pool:

        def measured() -> list[ClassAd]:
            return [ad for ad in pool.slots() if ad.eval_int("LastBenchmark", 0) and ad.eval_int("KFlops", 0)]

        (slot,) = pool.until(measured, "the first benchmark")
        assert slot.eval_int("Mips", 0) > 10  # on a machine with other work far fewer than on an idle one
        assert slot.eval_int("KFlops", 0) > 1000
