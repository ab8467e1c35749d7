"""What a host of the pool can do with its certificate: be itself, and nobody whose jobs a queue takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.whole.hosts import Hosts, four_hosts


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with four_hosts(NUM_CPUS="1") as hosts:
        yield hosts


def test_an_execute_host_manages_nobodys_jobs(hosts: Hosts) -> None:
    submit, attacker = hosts.submit, hosts.execute[0]
    with submit.as_user("nobody"):
        cluster = submit.submit("executable = /bin/true\nhold = true\nqueue\n", cwd=submit.directory)
    try:
        for tool in ("condor_release", "condor_qedit", "condor_rm"):
            words = [str(cluster), *(["JobPrio", "7"] if tool == "condor_qedit" else [])]
            with pytest.raises(AssertionError, match="needs WRITE"):
                attacker.tool(tool, "-name", submit.name, *words)
        assert [ad.eval_int("JobStatus") for ad in submit.jobs(str(cluster))] == [5]
    finally:
        submit.tool("condor_rm", str(cluster))


def test_an_execute_host_submits_nothing(hosts: Hosts) -> None:
    job = "executable = /bin/true\nrequirements = false\nqueue\n"
    with pytest.raises(AssertionError, match="needs WRITE"):
        hosts.execute[0].tool("condor_submit", "-remote", hosts.submit.name, text=job)


def test_a_host_is_itself(hosts: Hosts) -> None:
    for host in hosts.execute:
        said = host.tool("condor_ping", "-name", hosts.submit.name, "-type", "SCHEDD", "READ", "DAEMON", "-table")
        assert said.count(f"ALLOW host/{host.name}@hosts.test") == 2


def test_a_host_puts_no_other_host_to_sleep_and_wakes_none(hosts: Hosts) -> None:
    attacker, victim = hosts.execute
    slot = f"slot1@{victim.name}"

    def offline() -> list[object]:
        return [ad.get("Offline") for ad in hosts.central.slots() if ad["Name"] == slot]

    asleep = f'MyType = "Machine"\nName = "{slot}"\nMachine = "{victim.name}"\nOffline = true\n'
    awake = asleep.replace("Offline = true", "Offline = false")
    with pytest.raises(AssertionError, match=f"does not belong to {attacker.name}"):
        attacker.tool("condor_advertise", "UPDATE_STARTD_AD", "-", text=asleep)
    with pytest.raises(AssertionError):
        hosts.submit.tool("condor_advertise", "UPDATE_STARTD_AD", "-", text=asleep)
    assert offline() == [None], "it is as it was"
    victim.tool("condor_off", "-daemon", "startd")  # or it may say meanwhile, of itself, that the slot is there
    hosts.central.until(lambda: not offline(), "the end of the startd's own ad")
    victim.tool("condor_advertise", "UPDATE_STARTD_AD", "-", text=asleep)
    assert offline() == [True], "a host speaks of itself"
    own = awake.replace(victim.name, attacker.name).replace("slot1@", f"slot9@{victim.name}@")
    for ad in (
        awake,
        awake.replace("slot1", "slot9"),
        awake.replace(f'Machine = "{victim.name}"', f'Machine = "{attacker.name}"'),
    ):
        with pytest.raises(AssertionError, match=f"does not belong to {attacker.name}"):
            attacker.tool("condor_advertise", "UPDATE_STARTD_AD", "-", text=ad)
    attacker.tool("condor_advertise", "UPDATE_STARTD_AD", "-", text=own)
    query = f'MyType = "Query"\nTargetType = "Machine"\nName = "{slot}"\nRequirements = Name == "{slot}"\n'
    attacker.tool("condor_advertise", "INVALIDATE_STARTD_ADS", "-", text=query, check=False)
    assert offline() == [True], "nobody else wakes it"
    victim.tool("condor_on", "-daemon", "startd")
    hosts.central.until(lambda: offline() == [None], "the slot of the startd that is back")
