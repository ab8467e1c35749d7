"""A machine that sleeps and is woken for a job: all daemons are real, and the machine's sleep is a program that waits."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pool.classad import ClassAd
from tests.whole.real_pool import DEADLINE_S, RealPool, real_pool

PLUGIN = """\
#!/bin/sh
if [ "$1" = ad ]; then echo 'HibernationSupportedStates = "S3,S5"'; exit 0; fi
echo "$@" >> {directory}/asleep
while [ ! -e {directory}/woken ]; do sleep 0.05; done
"""
DAEMONS = "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, ROOSTER"
JOB = "executable = /bin/true\nqueue\n"


@contextmanager
def a_listener() -> Iterator[socket.socket]:
    """What a sleeping interface listens to: broadcasts of its subnet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.255.255.255", 0))
        listener.settimeout(DEADLINE_S)
        yield listener


@contextmanager
def a_machine(port: int, **knobs: object) -> Iterator[RealPool]:
    """A pool whose machine sleeps as soon as it is idle."""
    idle = 'ifThenElse(State == "Unclaimed" && Activity == "Idle", "RAM", "NONE")'
    wanted = {"HIBERNATE": idle, "HIBERNATE_CHECK_INTERVAL": 1, "HIBERNATION_OVERRIDE_WOL": True, "ROOSTER_INTERVAL": 1}
    ports = {"STARTD_ATTRS": "WakePort", "WakePort": port}
    with real_pool(start=False, DAEMON_LIST=DAEMONS) as pool:
        plugin = pool.directory / "plugin"
        plugin.write_text(PLUGIN.format(directory=pool.directory))
        plugin.chmod(0o755)
        with open(pool.directory / "config", "a") as config:
            config.write(f"HIBERNATION_PLUGIN = {plugin}\nCOLLECTOR_PERSISTENT_AD_LOG = {pool.directory}/offline.ads\n")
            config.writelines(f"{name} = {value}\n" for name, value in {**wanted, **ports, **knobs}.items())
        pool.start()
        try:
            yield pool
        finally:
            wake(pool)


def wake(pool: RealPool) -> None:
    (pool.directory / "woken").touch()


def until_asleep(pool: RealPool) -> ClassAd:
    """The ad of its slot."""
    pool.until((pool.directory / "asleep").exists, "the machine to sleep")
    return pool.machine()


def test_a_job_has_a_sleeping_machine_woken_and_runs_there() -> None:
    with a_listener() as listener, a_machine(listener.getsockname()[1]) as pool:
        slot = until_asleep(pool)
        assert (pool.directory / "asleep").read_text() == "set S3\n"
        assert (slot["Offline"], slot["State"], slot["HibernationState"]) == (True, "Unclaimed", "S3")
        cluster = pool.submit(JOB)
        packet, _ = listener.recvfrom(1024)
        assert packet == b"\xff" * 6 + bytes.fromhex(str(slot["HardwareAddress"]).replace(":", "")) * 16
        slot = pool.machine()
        assert slot["MachineLastMatchTime"] >= slot["LastHeardFrom"]
        assert [one["RequestCount"] for one in slot["OfflineMatches"]] == [1]
        said = "whose machine is to be woken"
        pool.until(lambda: said in str(pool.jobs(str(cluster))[0].get("LastRejMatchReason")), "the job to be told")
        wake(pool)
        (job,) = pool.until_done(cluster)
        assert job["ExitCode"] == 0
        slot = pool.machine()
        assert "Offline" not in slot
        assert "MachineLastMatchTime" not in slot
        assert (slot["HibernationLevel"], slot["CanHibernate"]) == (0, True)


@pytest.mark.slow
def test_the_machine_sleeps_only_when_the_last_of_its_slots_wants_it() -> None:
    """The job itself looks, so many times HIBERNATE_CHECK_INTERVAL after the idle slot has begun to want it."""
    two = {"NUM_CPUS": 2, "NUM_SLOTS": 2, "NUM_SLOTS_TYPE_1": 2, "SLOT_TYPE_1": "cpus=1"}
    idle = 'ifThenElse(MaySleep && State == "Unclaimed" && Activity == "Idle", "RAM", "NONE")'
    attributes = {"STARTD_ATTRS": "WakePort MaySleep", "MaySleep": False}
    with a_machine(9, HIBERNATE=idle, **two, **attributes) as pool:
        go, asleep = pool.directory / "go", pool.directory / "asleep"
        script = f"while [ ! -e {go} ]; do sleep 0.1; done; sleep 4; [ ! -e {asleep} ]"
        cluster = pool.submit(f"executable = /bin/sh\narguments = \"-c '{script}'\"\nqueue\n")
        pool.until_status(cluster, 2)
        pool.user = None
        with open(pool.directory / "config", "a") as config:
            config.write("MaySleep = True\n")
        pool.tool("condor_reconfig")
        pool.until(lambda: all(slot.eval_bool("MaySleep", False) for slot in pool.slots()), "the new policy")
        assert sorted(slot.eval_str("State") for slot in pool.slots()) == ["Claimed", "Unclaimed"]
        go.touch()
        (job,) = pool.until_done(cluster)
        assert job["ExitCode"] == 0
        pool.until(asleep.exists, "the machine to sleep")
        assert asleep.read_text() == "set S3\n"


def test_a_machine_that_no_packet_would_wake_stays_awake_and_says_why() -> None:
    with a_machine(9, HIBERNATION_OVERRIDE_WOL=False) as pool:
        log = pool.directory / "log" / "StartLog"
        said = "HIBERNATE wants S3, and nothing is done: no packet would wake this machine"
        pool.until(lambda: said in log.read_text(), "the reason")
        (job,) = pool.until_done(pool.submit(JOB))
        assert job["ExitCode"] == 0
        assert not (pool.directory / "asleep").exists()


def test_a_machine_that_goes_down_keeps_its_offline_ads_and_the_next_startd_replaces_them() -> None:
    with a_machine(9, HIBERNATE='"OFF"', ROOSTER_INTERVAL=0) as pool:
        pool.user = None
        wake(pool)  # the program that switches it off does not wait for that
        until_asleep(pool)
        before = pool.pid_of("startd")
        pool.tool("condor_off", "-daemon", "startd")
        pool.until(lambda: not os.path.exists(f"/proc/{before}"), "the machine to be down")
        assert [slot["Offline"] for slot in pool.slots()] == [True]
        with open(pool.directory / "config", "a") as config:
            config.write("HIBERNATE_CHECK_INTERVAL = 0\n")
        pool.tool("condor_on", "-daemon", "startd")
        pool.until(lambda: [slot for slot in pool.slots() if "Offline" not in slot], "its own ad")
