"""Starters that rest where schedd and startd are two hosts with TLS between them, and where that network breaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons.base.linux import descendants
from tests.whole.hosts import Host, new_host
from tests.whole.rest import resting_keepers, starters_of

pytestmark = pytest.mark.timeout(900)

RUNNING, HELD = 2, 5
LEASE_S = 20
JOB = """executable = /bin/sh
arguments = "-c 'echo begun >> {home}/begun; cp given made; while [ ! -e {home}/go ]; do sleep 0.1; done; echo words; exit 3'"
transfer_executable = false
transfer_input_files = given
should_transfer_files = yes
output = out
log = log
job_lease_duration = {lease}
{more}
queue
"""


class Site:
    """An access point and a node."""

    def __init__(self, access: Host, node: Host) -> None:
        self.access, self.node = access, node

    def resting(self, more: str = "") -> tuple[int, Path, int]:
        """A job whose starter rests: its cluster, its home, and the keeper."""
        home = self.access.place("home")
        (home / "given").write_text("some input\n")
        with self.access.as_user("nobody"):
            cluster = self.access.submit(JOB.format(home=home, lease=LEASE_S, more=more), cwd=home)
        self.access.until_status(cluster, RUNNING)
        return cluster, home, self.node.until(lambda: resting_keepers(self.node), "the starter to rest")[0]

    def tool(self, *words: str) -> str:
        with self.access.as_user("nobody"):
            return self.access.tool(*words)

    def until_well_ended(self, cluster: int, home: Path, starts: int = 1) -> None:
        """It ended once, with its output."""
        (home / "go").touch()
        (ad,) = self.access.until_done(cluster)
        assert (ad.eval_int("ExitCode"), ad.eval_int("NumJobStarts")) == (3, starts)
        assert (home / "begun").read_text() == "begun\n" * starts
        assert ((home / "out").read_text(), (home / "made").read_text()) == ("words\n", "some input\n")

    def until_nothing_is_left(self, of: set[int]) -> None:
        self.node.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in of), "the end of its processes")
        self.node.until(lambda: not list((self.node.directory / "execute").iterdir()), "the end of its sandbox")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with (
        new_host("central", "127.0.0.11") as central,
        new_host("access", "127.0.0.12") as access,
        new_host("node", "127.0.0.13") as node,
    ):
        central.be_central({})
        access.join(central, "submit", {})
        rests = {"STARTER_REST_AFTER": "1", "STARTER_INITIAL_UPDATE_INTERVAL": "1", "STARTER_UPDATE_INTERVAL": "2"}
        node.join(central, "execute", {"NUM_CPUS": "2", "MASTER_BACKOFF_CEILING": "1", **rests})
        access.until(access.slots, "the node's slot")
        yield Site(access, node)


@pytest.mark.slow
def test_a_job_of_another_host_rests_is_told_of_and_ends(site: Site) -> None:
    cluster, home, keeper = site.resting()
    assert site.tool("condor_ssh_to_job", str(cluster), "cat", "made") == "some input\n"
    assert site.tool("condor_tail", str(cluster)) == ""
    site.node.until(lambda: not starters_of(keeper), "the starter to rest again")
    site.access.until(lambda: site.access.jobs(str(cluster))[0].eval_int("DiskUsage", 0) > 0, "what the job uses")
    assert not starters_of(keeper)
    site.until_well_ended(cluster, home)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["condor_rm", "condor_hold", "condor_vacate_job"])
def test_a_job_of_another_host_leaves_while_its_starter_rests(site: Site, tool: str) -> None:
    cluster, home, keeper = site.resting()
    inner = descendants(keeper)
    site.tool(tool, str(cluster))
    if tool == "condor_rm":
        site.access.until_gone(cluster)
        site.until_nothing_is_left(inner)
        return
    if tool == "condor_hold":
        site.access.until_status(cluster, HELD)
        site.until_nothing_is_left(inner)
        site.tool("condor_release", str(cluster))
    site.access.until(lambda: (home / "begun").read_text().count("begun") == 2, "the job to run again")
    site.until_well_ended(cluster, home, starts=2)


@pytest.mark.long
def test_a_jobs_lease_is_lost_while_its_starter_rests(site: Site) -> None:
    cluster, home, keeper = site.resting()
    inner = descendants(keeper)
    site.access.kill()
    site.until_nothing_is_left(inner)
    site.access.start()
    site.access.until(lambda: (home / "begun").read_text().count("begun") == 2, "the job to run again")
    site.until_well_ended(cluster, home, starts=2)
