"""A startd gives its slots to one schedd alone, which puts them to work without a negotiator. Real daemons."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator

import pytest

from tests.whole.hosts import DOMAIN as HOSTS
from tests.whole.hosts import four_hosts
from tests.whole.real_pool import RealPool, real_pool

SLEEP = "executable = /bin/sleep\narguments = 0\n"
NO_NEGOTIATOR = "MASTER, COLLECTOR, SCHEDD, STARTD"
SCHEDD = "here@$(FULL_HOSTNAME)"
USER = "nobody" if os.geteuid() == 0 else getpass.getuser()
DOMAIN = "attach.test"


@pytest.fixture(scope="module")
def attached() -> Iterator[RealPool]:
    """A host whose one partitionable slot is its own schedd's, and no negotiator."""
    with real_pool(
        DAEMON_LIST=NO_NEGOTIATOR,
        SCHEDD_NAME=SCHEDD,
        STARTD_DIRECT_ATTACH_SCHEDD_NAME="$(SCHEDD_NAME)",
        STARTD_DIRECT_ATTACH_INTERVAL=1,
    ) as pool:
        yield pool


def log_of(pool: RealPool, name: str) -> str:
    return (pool.directory / "log" / name).read_text()


def reconfigure(pool: RealPool) -> None:
    """As whoever runs the pool."""
    user, pool.user = pool.user, None
    pool.tool("condor_reconfig")
    pool.user = user


def test_jobs_run_without_a_negotiator(attached: RealPool) -> None:
    done = attached.until_done(attached.submit(f"{SLEEP}queue 5\n"))
    assert [(ad.eval_int("JobStatus"), ad.eval_int("ExitCode")) for ad in done] == [(4, 0)] * 5
    assert {ad.eval_str("LastRemoteHost", "").partition("@")[0].partition("_")[0] for ad in done} == {"slot1"}


def test_as_many_run_together_as_there_is_room_for(attached: RealPool) -> None:
    large = attached.submit(f"{SLEEP}request_cpus = 3\nqueue\n")
    cluster = attached.submit("executable = /bin/sleep\narguments = 600\nqueue 3\n")
    attached.until_status(cluster, 2, count=2)
    slots = {ad.eval_str("RemoteHost") for ad in attached.jobs(str(cluster)) if ad.eval_int("JobStatus") == 2}
    assert len(slots) == 2
    assert [ad.eval_int("JobStatus") for ad in attached.jobs(str(large))] == [1]
    attached.tool("condor_rm", str(cluster), str(large))
    attached.until(lambda: not attached.jobs(), "the end of all jobs")


def test_the_pool_sees_whose_the_slots_are(attached: RealPool) -> None:
    (schedd,) = attached.tool("condor_status", "-schedd", "-af", "Name").split()
    slot = attached.machine()
    assert slot.eval_str("IsDirectAttach") == schedd
    assert slot.eval_str("Start") == f"Directly attached to schedd {schedd}"


def test_a_schedd_that_comes_back_is_given_the_slots_again(attached: RealPool) -> None:
    running = attached.submit("executable = /bin/sleep\narguments = 600\nqueue\n")
    attached.until(lambda: attached.jobs(str(running))[0].eval_int("NumJobStarts") == 1, "the start of its program")
    attached.restart_of("schedd")
    done = attached.until_done(attached.submit(f"{SLEEP}queue 2\n"))
    assert [ad.eval_int("ExitCode") for ad in done] == [0, 0]
    (job,) = attached.jobs(str(running))
    assert (job.eval_int("JobStatus"), job.eval_int("NumJobStarts")) == (2, 1)
    attached.tool("condor_rm", str(running))
    attached.until(lambda: not attached.jobs(), "the end of all jobs")


def test_what_is_wrong_is_said_and_a_reconfiguration_mends_it_at_once() -> None:
    with real_pool(
        start=False, DAEMON_LIST=NO_NEGOTIATOR, SCHEDD_NAME=SCHEDD, STARTD_DIRECT_ATTACH_INTERVAL=3600
    ) as pool:
        pool.start()

        def attach(name: str, **knobs: str) -> None:
            lines = {"NAME": name, **knobs}
            text = "".join(f"STARTD_DIRECT_ATTACH_SCHEDD_{knob} = {value}\n" for knob, value in lines.items())
            (pool.directory / "config").write_text(text)
            reconfigure(pool)

        cluster = pool.submit(f"{SLEEP}queue\n")
        for knobs, said in (
            ({"name": "no_such@schedd"}, "No slots for the schedd no_such@schedd: .* knows of no schedd of this name"),
            ({"name": "$(SCHEDD_NAME)", "POOL": "127.0.0.1:1"}, "No slots for the schedd here@.*: .*127.0.0.1:1"),
        ):
            attach(**knobs)
            pool.until(lambda said=said: re.search(said, log_of(pool, "StartLog")), "what is wrong, in the log")
            assert [ad.eval_int("JobStatus") for ad in pool.jobs()] == [1]
        attach("$(SCHEDD_NAME)", POOL=(pool.run_dir / "collector.address").read_text().splitlines()[0])
        assert [ad.eval_int("ExitCode") for ad in pool.until_done(cluster)] == [0]


def test_a_negotiator_gives_such_slots_to_nobody() -> None:
    with real_pool(STARTD_DIRECT_ATTACH_SCHEDD_NAME="far@away", NEGOTIATOR_INTERVAL=1) as pool:
        cluster = pool.submit(f"{SLEEP}queue\n")
        pool.until(lambda: pool.jobs()[0].eval_str("LastRejMatchReason"), "the negotiator's word")
        assert [ad.eval_int("JobStatus") for ad in pool.jobs(str(cluster))] == [1]


def test_the_slots_may_be_for_one_submitter() -> None:
    with real_pool(
        DAEMON_LIST=NO_NEGOTIATOR,
        SCHEDD_NAME=SCHEDD,
        UID_DOMAIN=DOMAIN,
        STARTD_DIRECT_ATTACH_SCHEDD_NAME="$(SCHEDD_NAME)",
        STARTD_DIRECT_ATTACH_SCHEDD_SUBMITTER=f"chem.{USER}@{DOMAIN}",
        STARTD_DIRECT_ATTACH_INTERVAL=1,
    ) as pool:
        plain = pool.submit(f"{SLEEP}queue\n")
        chemists = pool.submit(f"{SLEEP}accounting_group = chem\nqueue\n")
        assert [ad.eval_int("ExitCode") for ad in pool.until_done(chemists)] == [0]
        assert [ad.eval_int("JobStatus") for ad in pool.jobs(str(plain))] == [1]


def test_a_slot_that_is_free_again_is_offered_at_once() -> None:
    """Whatever the interval: while the one static slot is taken there is nothing to offer."""
    with real_pool(
        start=False, DAEMON_LIST=NO_NEGOTIATOR, SCHEDD_NAME=SCHEDD, NUM_SLOTS_TYPE_1=1, SLOT_TYPE_1="100%"
    ) as pool:
        config = pool.directory / "config"
        attached = "SLOT_TYPE_1_PARTITIONABLE = false\nSTARTD_DIRECT_ATTACH_SCHEDD_NAME = $(SCHEDD_NAME)\n"
        config.write_text(f"{attached}STARTD_DIRECT_ATTACH_INTERVAL = 1\n")
        pool.start()
        first = pool.submit("executable = /bin/sleep\narguments = 600\nqueue\n")
        pool.until_status(first, 2)
        config.write_text(f"{attached}STARTD_DIRECT_ATTACH_INTERVAL = 3600\n")
        reconfigure(pool)
        second = pool.submit(f"{SLEEP}request_memory = 10\nqueue\n")
        pool.tool("condor_rm", str(first))
        assert [ad.eval_int("ExitCode") for ad in pool.until_done(second)] == [0]


def test_slots_of_other_hosts_reach_their_schedd_with_their_certificates() -> None:
    with four_hosts(
        NUM_CPUS="1", STARTD_DIRECT_ATTACH_SCHEDD_NAME=f"submit.{HOSTS}", STARTD_DIRECT_ATTACH_INTERVAL="1"
    ) as hosts:
        submit = hosts.submit
        done = submit.until_done(submit.submit(f"{SLEEP}transfer_executable = false\nqueue 2\n", cwd=submit.directory))
        assert [ad.eval_int("ExitCode") for ad in done] == [0, 0]
        machines = {ad.eval_str("LastRemoteHost", "").rpartition("@")[2] for ad in done}
        assert machines <= {host.name for host in hosts.execute}
