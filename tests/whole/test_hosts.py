"""A pool over several hosts: each with its own master, address, name, directory and keys, joined by tokens."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from minipool.cli.admin_tools.tokens import join_word, read_join_word
from tests.whole.hosts import Host, Hosts, four_hosts, new_host

pytestmark = pytest.mark.timeout(900)

JOBS = 200
RUNNING = 2
CPUS = 4


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with four_hosts(NUM_CPUS=str(CPUS), MEMORY="4096") as hosts:
        yield hosts


@pytest.fixture
def home(hosts: Hosts, request: pytest.FixtureRequest) -> Path:
    """A directory of the access point in which the submitting user may write."""
    return hosts.submit.place(request.node.name)


def test_200_jobs_with_files_run_once_each_on_both_nodes(hosts: Hosts, home: Path) -> None:
    work = home / "work.sh"
    work.write_text(
        f'#!/bin/sh\nwhile [ ! -e {home}/go ]; do sleep 0.1; done\ntr a-z A-Z <"$1" >"$2"\necho done "$1"\n'
    )
    work.chmod(0o755)
    for number in range(JOBS):
        (home / f"in.{number}").write_text(f"input of {number}\n")
    submit = hosts.submit
    with submit.as_user("nobody"):
        cluster = submit.submit(
            f"""executable = work.sh
arguments = in.$(Process) result.$(Process)
should_transfer_files = YES
transfer_input_files = in.$(Process)
transfer_output_files = result.$(Process)
request_memory = 16
request_disk = 1024
output = out.$(Process)
error = err.$(Process)
log = log
queue {JOBS}
""",
            cwd=home,
        )
    running = submit.until_status(cluster, RUNNING, count=2 * CPUS)
    assert {str(ad["RemoteHost"]).partition("@")[2] for ad in running} == {node.name for node in hosts.execute}
    (home / "go").touch()
    with submit.as_user("nobody"):  # who is told of no job's end before his log tells of it
        submit.until(lambda: not submit.jobs(str(cluster)), "the end of all jobs", deadline_s=600)

    ads = submit.history(str(cluster))
    assert sorted(ad.eval_int("ProcId", -1) for ad in ads) == list(range(JOBS))
    assert {(ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts")) for ad in ads} == {(0, 1)}
    events = Counter(re.findall(r"^(\d{3}) \(\d+\.(\d+)", (home / "log").read_text(), re.MULTILINE))
    assert events == Counter(
        {(code, f"{number:03}"): 1 for code in ("000", "001", "005") for number in range(JOBS)}
    ) + (Counter({key: count for key, count in events.items() if key[0] not in ("000", "001", "005")}))
    for number in range(JOBS):
        assert (home / f"result.{number}").read_text() == f"INPUT OF {number}\n"
        assert (home / f"out.{number}").read_text() == f"done in.{number}\n"
        assert (home / f"err.{number}").read_text() == ""


def test_every_host_sees_the_nodes_and_the_queue(hosts: Hosts, home: Path) -> None:
    with hosts.submit.as_user("nobody"):
        cluster = hosts.submit.submit("executable = /bin/true\nhold = true\nqueue\n", cwd=home)
    for host in hosts.all():
        for account in (None, "nobody"):  # whose daemons they are, and somebody who has neither token nor certificate
            host.user = account
            assert {ad["Machine"] for ad in host.slots()} == {node.name for node in hosts.execute}
            queue = host.tool("condor_q", "-allusers", "-name", hosts.submit.name, "-af", "ClusterId", "JobStatus")
            assert f"{cluster} 5" in queue.splitlines()
            host.user = None
    with hosts.submit.as_user("nobody"):
        hosts.submit.tool("condor_rm", str(cluster))


def test_no_ad_of_a_host_is_refused(hosts: Hosts) -> None:
    for host in hosts.all():
        for log in (host.directory / "log").glob("*Log"):
            assert "refuses ads" not in log.read_text(), (host.name, log.name)


def test_a_user_with_jobs_at_two_access_points_is_known_at_both(hosts: Hosts) -> None:
    def known() -> list[str]:
        said = hosts.central.tool("condor_status", "-submitters", "-constraint", "HeldJobs == 1", "-af", "ScheddName")
        return sorted(said.split())

    def submit(host: Host) -> int:
        with host.as_user("nobody"):
            return host.submit("executable = /bin/true\nhold = true\nqueue\n")

    with new_host("submit2", "127.0.0.7") as second:
        second.join(hosts.central, "submit", {})
        cluster = submit(hosts.submit)
        submit(second)
        hosts.central.until(lambda: known() == [hosts.submit.name, second.name], "the user's jobs at both")
        second.stop()
        hosts.central.until(lambda: known() == [hosts.submit.name], "those of one alone")
        forget(hosts.central, second)
    with hosts.submit.as_user("nobody"):
        hosts.submit.tool("condor_rm", str(cluster))
    hosts.central.until(lambda: not known(), "the end of the user's jobs")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second account")
def test_a_users_token_of_the_central_manager_is_good_on_every_host(hosts: Hosts, home: Path) -> None:
    with hosts.submit.as_user("nobody"):
        cluster = hosts.submit.submit("executable = /bin/true\nhold = true\nqueue\n", cwd=home)
    remove = ("condor_rm", "-name", hosts.submit.name, str(cluster))
    with hosts.execute[0].as_user("nobody"), pytest.raises(AssertionError, match="needs WRITE"):
        hosts.execute[0].tool(*remove)  # a node vouches for who reads, no more
    with hosts.central.as_user("nobody"):
        hosts.central.tool(*remove)
    assert hosts.submit.jobs(str(cluster)) == []


def forget(central: Host, host: Host) -> None:
    """A host of a test's own is no more: another may have its name."""
    central.tool("pool", "hosts", "revoke", host.name)


def refused(host: Host, central: Host, word: str) -> str:
    """What `pool join` with this word says; it must not succeed."""
    with pytest.raises(AssertionError) as error:
        host.join_with(central, word)
    return str(error.value)


def test_a_host_with_a_wrong_token_is_refused(hosts: Hosts) -> None:
    token, ca = read_join_word(hosts.central.tool("pool", "token", "create", "--for", "execute").strip())
    start, _, signature = token.rpartition(".")
    wrong = join_word(f"{start}.{signature[::-1]}", ca)
    with new_host("stranger", "127.0.0.6") as stranger:
        assert "did not take this host" in refused(stranger, hosts.central, wrong)
        assert "is not what `pool token create" in refused(stranger, hosts.central, "pool:nonsense")
        assert not (stranger.directory / "keys" / "host.pem").exists()


def test_the_token_of_a_user_joins_no_host(hosts: Hosts) -> None:
    _, ca = read_join_word(hosts.central.tool("pool", "token", "create", "--for", "execute").strip())
    word = join_word(hosts.central.tool("pool", "token", "create").strip(), ca)
    with new_host("stranger", "127.0.0.6") as stranger:
        assert "a token with a duty is needed" in refused(stranger, hosts.central, word)


def test_a_name_that_another_host_has_is_refused(hosts: Hosts) -> None:
    word = hosts.central.tool("pool", "token", "create", "--for", "execute")
    with new_host("execute1", "127.0.0.6") as stranger:
        assert "has joined before, with another key" in refused(stranger, hosts.central, word)


@pytest.mark.slow
def test_a_host_that_never_joined_is_not_seen(hosts: Hosts) -> None:
    with new_host("stranger", "127.0.0.6") as stranger:
        settings = {
            "LOCAL_DIR": str(stranger.directory),
            **stranger.own(),
            "COLLECTOR_HOST": hosts.central.where(),
            "UID_DOMAIN": hosts.central.name.partition(".")[2],
            "DAEMON_LIST": "MASTER, STARTD",
        }
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        (stranger.directory / "config").write_text(text)
        stranger.start()
        log = stranger.directory / "log" / "StartLog"
        stranger.until(lambda: "certificate of the pool's CA" in log.read_text(), "the startd to be told why")
        assert stranger.name not in {ad["Machine"] for ad in hosts.central.slots()}


def test_a_node_that_joined_to_execute_cannot_be_an_access_point(hosts: Hosts) -> None:
    with new_host("greedy", "127.0.0.6") as greedy:
        greedy.join(hosts.central, "execute", {"DAEMON_LIST": "MASTER, SCHEDD"})
        log = greedy.directory / "log" / "SchedLog"
        greedy.until(lambda: "ADVERTISE_SCHEDD" in log.read_text(), "the schedd to be told why")
        names = hosts.central.tool("condor_status", "-schedd", "-af", "Name").split()
        assert names == [hosts.submit.name]
        forget(hosts.central, greedy)
