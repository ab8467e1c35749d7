"""Jobs that find no slot in their pool run in another that lends to it. Real daemons, pools with CAs of their own."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.flocks import FlockHost, configure, flocking_pools

LONG = "executable = /bin/sleep\narguments = 600\nrequest_memory = 64\n"
FILES = "should_transfer_files = yes\nwhen_to_transfer_output = on_exit\n"


@pytest.fixture(scope="module")
def two() -> Iterator[dict[str, FlockHost]]:
    """Pool `a` flocks to pool `b`, which lends to it."""
    with flocking_pools({"a": ["b"], "b": []}, {"a": {"SCHEDD_INTERVAL": "5"}}) as pools:
        yield pools


@pytest.fixture
def full(two: dict[str, FlockHost]) -> Iterator[tuple[FlockHost, FlockHost]]:
    """Both of them, with jobs in all slots of the first; at the end its queue is empty."""
    a = two["a"]
    a.until_status(a.submit(f'{LONG}requirements = TARGET.Machine == "{a.name}"\nqueue 2\n'), 2, count=2)
    yield a, two["b"]
    a.tool("condor_rm", "-all")
    a.until(lambda: not a.jobs(), "the end of all jobs")


@contextmanager
def knobs(pool: FlockHost, daemon: str, **changed: str) -> Iterator[None]:
    """Other knobs for the time of the block, of a daemon that is told itself: it has read them when the tool returns."""
    config = pool.directory / "config"
    before = config.read_text()
    configure(pool, changed)
    pool.as_administrator("condor_reconfig", "-daemon", daemon)
    try:
        yield
    finally:
        config.write_text(before)
        pool.as_administrator("condor_reconfig", "-daemon", daemon)


def submitters(pool: FlockHost) -> list[ClassAd]:
    return list(parse_longs(pool.tool("condor_status", "-submitters", "-long").splitlines()))


def schedd_ad(pool: FlockHost) -> ClassAd:
    (ad,) = parse_longs(pool.tool("condor_status", "-schedd", pool.name, "-long").splitlines())
    return ad


def figures(ads: list[ClassAd]) -> list[tuple[int | None, ...]]:
    return [tuple(ad.eval_int(name) for name in ("RunningJobs", "FlockedJobs", "IdleJobs")) for ad in ads]


def test_a_job_without_a_slot_at_home_runs_in_the_other_pool(full: tuple[FlockHost, FlockHost]) -> None:
    a, b = full
    (job,) = a.until_status(a.submit(f"{LONG}{FILES}queue\n"), 2)
    assert job.eval_str("RemotePool") == b.where_it_was
    assert job.eval_str("RemoteHost", "").endswith(b.name)
    a.until(lambda: figures(submitters(a)) == [(2, 1, 0)], "what the home pool is told")
    a.until(lambda: figures(submitters(b)) == [(1, 2, 0)], "what the other pool is told")
    assert [ad.eval_str("SubmitterTag") for ad in (*submitters(a), *submitters(b))] == ["", b.where_it_was]
    ad = a.until(lambda: (found := schedd_ad(a)).eval_int("TotalFlockedJobs") == 1 and found, "the schedd's ad")
    assert ad.eval_int("TotalRunningJobs") == 2
    (slot,) = b.until(lambda: [ad for ad in b.slots() if ad.eval_str("State") == "Claimed"], "the slot's ad")
    assert slot.eval_str("RemoteUser", "").endswith("@a.test")


def test_its_files_go_there_and_come_home(full: tuple[FlockHost, FlockHost]) -> None:
    a, b = full
    place = a.place("files")
    (place / "in").write_text("from home\n")
    (place / "in").chmod(0o644)
    done = a.until_done(
        a.submit(
            f"executable = /bin/cat\narguments = in\n{FILES}transfer_input_files = in\noutput = out\nlog = log\nqueue\n",
            cwd=place,
        )
    )
    assert (place / "out").read_text() == "from home\n"
    assert [(ad.eval_int("ExitCode"), ad.eval_str("LastRemotePool"), "RemotePool" in ad) for ad in done] == [
        (0, b.where_it_was, False)
    ]


def test_where_jobs_do_not_flock_by_default_those_go_that_name_the_pool(full: tuple[FlockHost, FlockHost]) -> None:
    a, b = full
    with knobs(a, "schedd", FLOCK_BY_DEFAULT="false"):
        stays = a.submit(f"{LONG}{FILES}queue\n")
        goes = a.submit(f'{LONG}{FILES}+FlockTo = "{b.where_it_was}"\nqueue\n')
        a.until_status(goes, 2)
        assert [ad.eval_int("JobStatus") for ad in a.jobs(str(stays))] == [1]
    a.until_status(stays, 2)


def test_the_lending_owners_policy_wins(full: tuple[FlockHost, FlockHost]) -> None:
    a, b = full
    with knobs(b, "startd", START="TARGET.RequestMemory < 100"):
        refused = a.submit(f"{LONG}{FILES}request_memory = 128\nqueue\n")
        taken = a.submit(f"{LONG}{FILES}queue\n")
        a.until_status(taken, 2)
        assert [ad.eval_int("JobStatus") for ad in a.jobs(str(refused))] == [1]
        a.tool("condor_rm", str(refused))
    b.as_administrator("condor_drain", "-fast", b.name)
    (job,) = a.until_status(taken, 1)
    assert (job.eval_str("LastRemotePool"), "RemotePool" in job) == (b.where_it_was, False)
    b.as_administrator("condor_drain", "-cancel", b.name)
    a.until_status(taken, 2)


def test_a_schedd_that_was_killed_finds_its_flocked_job_again(full: tuple[FlockHost, FlockHost]) -> None:
    a, b = full
    cluster = a.submit(f"{LONG}{FILES}queue\n")
    a.until(lambda: a.jobs(str(cluster))[0].eval_int("NumJobStarts") == 1, "the start of its program")
    a.restart_of("schedd")
    a.until(lambda: figures(submitters(b)) == [(1, 2, 0)], "the other pool to hear of the job again")
    # That its program runs may have been in no commit yet: the schedd hears of it again.
    a.until(lambda: a.jobs(str(cluster))[0].eval_int("NumJobStarts") == 1, "the start of its program, again")
    (job,) = a.until_status(cluster, 2)
    assert job.eval_str("RemotePool") == b.where_it_was
    assert job.eval_int("NumShadowStarts") == 1


def test_pools_come_and_go_with_a_reconfiguration(full: tuple[FlockHost, FlockHost]) -> None:
    a, b = full
    (runs,) = a.until_status(a.submit(f"{LONG}{FILES}queue\n"), 2)
    assert runs.eval_str("RemotePool") == b.where_it_was
    with knobs(a, "schedd", FLOCK_TO=""):
        a.until(lambda: submitters(b) == [], "the end of what the other pool is told")
        stays = a.submit(f"{LONG}{FILES}queue\n")
        a.until(lambda: figures(submitters(a)) == [(2, 1, 1)], "what waits at home")
        assert a.statuses(stays) == [1]
        assert a.statuses(runs.eval_int("ClusterId", 0)) == [2]
    a.until_status(stays, 2)
    a.until(lambda: figures(submitters(b)) == [(2, 2, 0)], "what the other pool is told again")


def test_jobs_flock_although_the_home_pool_has_no_negotiator(two: dict[str, FlockHost]) -> None:
    a, b = two["a"], two["b"]
    negotiator = a.pid_of("negotiator")
    a.as_administrator("condor_off", "-daemon", "negotiator")
    try:
        a.until(lambda: negotiator not in a.processes(), "the end of the negotiator")
        (job,) = a.until_status(a.submit(f"{LONG}{FILES}queue\n"), 2)
        assert job.eval_str("RemotePool") == b.where_it_was
    finally:
        a.as_administrator("condor_on", "-daemon", "negotiator")
        a.tool("condor_rm", "-all")
    a.until(lambda: not a.jobs(), "the end of all jobs")


@pytest.mark.skipif(os.geteuid() != 0, reason="users of two pools are accounts of two kinds")
def test_tools_of_one_pool_look_into_another_and_submit_there(two: dict[str, FlockHost]) -> None:
    a, b = two["a"], two["b"]
    with pytest.raises(AssertionError, match="certificate does not hold"):
        a.tool("condor_status", "-pool", b.where_it_was)
    a.befriend(b, "b.test")
    there = ("-pool", b.where_it_was)
    assert a.tool("condor_status", *there, "-af", "Machine").split()[0] == b.name
    place = a.place("remote")
    (place / "in").write_text("from far away\n")
    job = "executable = /bin/cat\narguments = in\ntransfer_input_files = in\noutput = out\nqueue\n"
    cluster = re.findall(r"cluster (\d+)", a.tool("condor_submit", "-remote", b.name, *there, cwd=place, text=job))[0]
    b.until(lambda: a.tool("condor_q", *there, "-name", b.name, cluster, "-af", "JobStatus") == "4\n", "the job's end")
    a.tool("condor_transfer_data", *there, "-name", b.name, cluster, cwd=place)
    assert (place / "out").read_text() == "from far away\n"
    waits = a.tool(
        "condor_submit", "-terse", *there, "-name", b.name, text="executable = /bin/true\nhold = true\nqueue\n"
    )
    a.tool("condor_prio", *there, "-name", b.name, "-p", "3", waits.split()[0])
    a.tool("condor_rm", *there, "-name", b.name, "-all")
    b.until(lambda: not b.jobs(), "the end of all jobs")
    assert a.jobs() == []


@pytest.mark.slow
def test_three_hundred_jobs_spread_over_a_ring_and_come_home() -> None:
    """Three pools, each with a quota of its own for the group whose jobs they are."""
    ring = {"a": ["b", "c"], "b": ["c", "a"], "c": ["a", "b"]}
    quotas = {"a": 2, "b": 1, "c": 3}
    settings = {
        name: {"NUM_CPUS": "4", "GROUP_NAMES": "physics", "GROUP_QUOTA_physics": str(quota)}
        for name, quota in quotas.items()
    }
    with flocking_pools(ring, settings) as pools:
        a, names = pools["a"], {pool.where_it_was: name for name, pool in pools.items()}
        place = a.place("out")
        cluster = a.submit(
            f"executable = /bin/sh\narguments = \"-c 'echo $(Process); sleep 0.2'\"\n{FILES}"
            f"output = {place}/$(Process)\naccounting_group = physics\nrequest_memory = 64\nqueue 300\n"
        )
        most: Counter[str] = Counter()

        def all_done() -> bool:
            running = [ad for ad in a.jobs(str(cluster)) if ad.eval_int("JobStatus") == 2]
            now = Counter(names[ad.eval_str("RemotePool", a.where_it_was)] for ad in running)
            most.update({name: count - most[name] for name, count in now.items() if count > most[name]})
            return a.statuses(cluster) == []

        a.until(all_done, "the end of all jobs", deadline_s=240)
        done = a.history(str(cluster))
        assert [ad.eval_int("ExitCode") for ad in done] == [0] * 300
        assert [(place / str(number)).read_text() for number in range(300)] == [f"{number}\n" for number in range(300)]
        ran = Counter(names[ad.eval_str("LastRemotePool", a.where_it_was)] for ad in done)
        assert set(ran) == {"a", "b", "c"}
        assert all(most[name] <= quota for name, quota in quotas.items()), most
        for name in ("b", "c"):
            pool = pools[name]
            pool.until(lambda pool=pool: not submitters(pool), "the other pools to hear no more of them")  # type: ignore[misc]
        assert "EffectiveFlockList" not in a.until(
            lambda: (ad := schedd_ad(a)).eval_int("TotalFlockedJobs") == 0 and ad, "the schedd's ad"
        )
