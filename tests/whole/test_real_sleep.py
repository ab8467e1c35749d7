"""A machine that sleeps in earnest (ACPI's S3, or a suspend to idle, in QEMU) until a job wants it: kernel, card, packet and daemons are real."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from pool.classad import ClassAd
from tests.whole.hosts import Host, new_host, new_host_of
from tests.whole.linux_guests import kernel, why_not
from tests.whole.networks import NetworkHost, network
from tests.whole.networks import why_not as why_no_network
from tests.whole.sleepers import HARDWARE, MAGIC, Guest, asleep_when_idle

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]
PORT = {"SHARED_PORT_PORT": "9618"}
CENTRAL = {
    **PORT,
    "DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, ROOSTER",
    "ROOSTER_INTERVAL": "1",
    "COLLECTOR_PERSISTENT_AD_LOG": "$(SPOOL)/offline.ads",
}
SLEEPER = {
    **PORT,
    "NUM_CPUS": "1",
    "HIBERNATE_CHECK_INTERVAL": "2",
    "SleepsIn": "RAM",
    "HIBERNATE": 'ifThenElse(State == "Unclaimed" && Activity == "Idle", "$(SleepsIn)", "NONE")',
}
BOOTS_S = 300.0
KILL_STARTD = "for one in /proc/[0-9]*; do grep -qs startd $one/comm && kill -9 ${one#/proc/}; done"
JOB = "executable = /bin/uname\ntransfer_executable = false\narguments = -rn\nrequest_disk = 8MB\noutput = out\nlog = log\nqueue\n"


class Pool(NamedTuple):
    """A central manager, which is the access point too, and the machine that sleeps."""

    home: NetworkHost
    sleeper: Host
    guest: Guest


@contextmanager
def a_pool(**knobs: str) -> Iterator[Pool]:
    """Of the two; the knobs are the sleeper's."""
    linux = kernel()
    if (why := why_not() or why_no_network()) or linux is None:
        pytest.skip(why)
    with ExitStack() as stack:
        net = stack.enter_context(network())
        net.add("10.98.0.2")
        home = stack.enter_context(new_host_of(NetworkHost, "home", "10.98.0.2"))
        home.network = net
        home.be_central(CENTRAL)
        sleeper = stack.enter_context(new_host("sleeper", "10.98.0.3"))
        word = home.tool("pool", "token", "create", "--for", "execute")
        with net.at(home.address):
            sleeper.join_with(home, word, {**SLEEPER, **knobs})
        guest = stack.enter_context(asleep_when_idle(net, linux, sleeper))
        yield Pool(home, sleeper, guest)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with a_pool() as made:
        yield made


def until_asleep(pool: Pool) -> ClassAd:
    """The ad of its slot."""
    pool.home.until(pool.guest.sleeps, "the machine to sleep", deadline_s=BOOTS_S)
    (slot,) = pool.home.slots()
    return slot


def until_awake(pool: Pool) -> None:
    """The machine's own ad is in the place of its offline ad, and in that of no other."""

    def awake() -> bool:
        (slot,) = (ad for ad in pool.home.slots() if ad["Name"] == f"slot1@{pool.sleeper.name}")
        return "Offline" not in slot and (slot["HibernationLevel"], slot["CanHibernate"]) == (0, True)

    pool.home.until(awake, "its own ad")


def ran(pool: Pool) -> tuple[ClassAd, float]:
    """A job that only the machine can run, and how long it took from its submission until it ran."""
    place = pool.home.place("job")
    with pool.home.as_user("nobody"):
        began = time.monotonic()
        cluster = pool.home.submit(JOB, cwd=place)
        pool.home.until(lambda: "Job executing" in (place / "log").read_text(), "the job to run")
        took_s = time.monotonic() - began
        (job,) = pool.home.until_done(cluster)
    assert (place / "out").read_text().split()[0] == pool.sleeper.name
    return job, took_s


def test_a_machine_sleeps_when_idle_and_a_magic_packet_wakes_it_for_a_job(pool: Pool) -> None:
    slot = until_asleep(pool)
    facts = {
        name: slot.eval(name) for name in ("Offline", "State", "HibernationState", "IsWakeAble", "HardwareAddress")
    }
    expected = {"Offline": True, "State": "Unclaimed", "HibernationState": "S3", "IsWakeAble": True}
    assert facts == {**expected, "HardwareAddress": HARDWARE}
    assert pool.guest.woken_by == []
    job, took_s = ran(pool)
    print(f"from submission to execution: {took_s:.1f} s")
    assert job["ExitCode"] == 0
    (frame,) = pool.guest.woken_by
    assert frame[:6] == b"\xff" * 6
    assert frame.endswith(MAGIC)
    until_awake(pool)
    assert "awake again, from S3" in pool.home.tool("condor_fetchlog", pool.sleeper.name, "STARTD")


def test_a_machine_that_suspends_to_idle_is_woken_as_well() -> None:
    """It may be called more than once: its power button is not heard while it falls asleep."""
    with a_pool(SleepsIn="S1") as pool:
        slot = until_asleep(pool)
        assert (slot["Offline"], slot["HibernationState"]) == (True, "S1")
        job, took_s = ran(pool)
        print(f"from submission to execution: {took_s:.1f} s")
        assert job["ExitCode"] == 0
        until_awake(pool)
        assert pool.guest.woken_by
        assert "awake again, from S1" in startd_log(pool)


def test_a_machine_is_woken_that_sleeps_while_the_collector_dies_and_connections_break(pool: Pool) -> None:
    until_asleep(pool)
    pool.home.restart_of("collector")
    (slot,) = pool.home.until(pool.home.slots, "the offline ad, from the file")
    assert slot["Offline"] is True
    job, took_s = ran(pool)
    print(f"from submission to execution, with a new collector: {took_s:.1f} s")
    assert job["ExitCode"] == 0
    until_awake(pool)


def startd_log(pool: Pool) -> str:
    return pool.home.tool("condor_fetchlog", pool.sleeper.name, "STARTD", check=False)


def test_it_sleeps_a_second_time_and_each_time_for_hours(pool: Pool) -> None:
    until_asleep(pool)
    for count in (1, 2):
        pool.guest.clock_goes_on(hours=5)
        job, took_s = ran(pool)
        print(f"from submission to execution, after five hours of sleep: {took_s:.1f} s")
        assert job["ExitCode"] == 0
        until_awake(pool)
        assert len(pool.guest.woken_by) == count
        if count == 1:  # a startd that was woken stays awake for an hour, another one does not know of it
            pool.guest.order(KILL_STARTD)
            until_asleep(pool)
