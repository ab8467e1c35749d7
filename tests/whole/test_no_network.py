"""NO_JOB_NETWORKING: jobs without a network, and only those that want none."""

from __future__ import annotations

import pytest

from daemons.host.namespaces import can_isolate
from tests.whole.real_pool import real_pool

JOB = """executable = /bin/sh
arguments = "-c 'cut -d: -f1 -s /proc/net/dev; ls .chirp.config'"
transfer_executable = false
want_job_networking = {wanted}
want_io_proxy = true
output = out
queue
"""


@pytest.mark.skipif(not can_isolate(), reason="namespaces are root's to make")
def test_jobs_that_want_no_network_run_without_one_and_others_elsewhere() -> None:
    with real_pool(NO_JOB_NETWORKING="true") as pool:
        here = pool.place("home")
        waits = pool.submit(JOB.format(wanted="true"))
        pool.until_done(pool.submit(JOB.format(wanted="false"), cwd=here))
        assert (here / "out").read_text().split() == ["lo"]
        assert [ad.eval_int("ClusterId") for ad in pool.jobs()] == [waits]
        assert pool.machine().eval_bool("HasJobNetworking") is False
        assert "TARGET.WantJobNetworking" in pool.machine().text("WithinResourceLimits")


@pytest.mark.skipif(can_isolate(), reason="root can keep jobs from the network")
def test_where_jobs_cannot_be_kept_from_the_network_none_runs_and_the_log_says_why() -> None:
    with real_pool(NO_JOB_NETWORKING="true") as pool:
        assert pool.machine().text("WithinResourceLimits").endswith(" && false")
        assert "jobs cannot be kept from the network" in (pool.directory / "log" / "StartLog").read_text()
