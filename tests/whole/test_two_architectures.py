"""A pool of two architectures: a host of aarch64 joins a central manager of this machine's, and runs what asks for it.

The other host is a virtual machine: `tests/aarch64/machine mixed` makes it, and a network that leads to it, and runs
these tests there. All is slow in it, so they wait long.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pool.base.version import arch
from tests.whole.hosts import SETTINGS, Host, new_host

MACHINE = os.environ.get("MINIPOOL_AARCH64", "")
HERE = arch(os.uname().machine)
HERE_ADDRESS, THERE_ADDRESS = "10.98.0.1", "10.98.0.2"
THERE, ACCESS = "there.hosts.test", "access.hosts.test"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not MACHINE, reason="takes a host of aarch64: tests/aarch64/machine mixed"),
]

PATIENCE_S = 900.0
_KNOBS = {
    **SETTINGS,
    "NETWORK_HOSTNAME": THERE,
    "NETWORK_INTERFACE": THERE_ADDRESS,
    "NUM_CPUS": "1",
    "MEMORY": "512",
    "DOCKER": "",
}
_PROGRAM = """import os, sys
sys.argv = sys.argv[1:]
from minipool.cli.entry import main
(main.pool if sys.argv[0] == "pool" else main.condor)()"""


_JOB = "executable = /usr/bin/uname\ntransfer_executable = false\narguments = -m\nrequest_memory = 16\nrequest_disk = 1024\n"


def _join(where: str, word: str, directory: str, knobs: Mapping[str, str]) -> str:
    settings = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in knobs.items())
    return f"mkdir {directory}; echo {shlex.quote(word.strip())} | tool pool join {where} --dir {directory} {settings}"


def _submitted(name: str, more: str) -> str:
    """What a user of the guest's access point does: a job, and what it has printed."""
    text = f"{_JOB}{more}output = {name}.out\nlog = {name}.log\nqueue\n"
    return f"""printf %s {shlex.quote(text)} > {name}.sub; until user condor_submit {name}.sub; do sleep 5; done
tool condor_wait {name}.log; echo "{name} ran on $(cat {name}.out)" """


def _script(where: str, execute: str, submit: str) -> str:
    """What the guest runs: an execute host, and beside it an access point, whose jobs are told of."""
    access = {**SETTINGS, "NETWORK_HOSTNAME": ACCESS, "NETWORK_INTERFACE": THERE_ADDRESS}
    return f"""set -ex
export POOL_DIR=/tmp/there
tool() {{ python3 -c {shlex.quote(_PROGRAM)} "$@"; }}
user() {{ setpriv --reuid 65534 --regid 65534 --clear-groups python3 -c {shlex.quote(_PROGRAM)} "$@"; }}
{_join(where, execute, "/tmp/there", _KNOBS)}
tool condor_version
tool condor_config_val ARCH UNAME_ARCH
python3 -m daemons master --dir /tmp/there &
export POOL_DIR=/tmp/access
{_join(where, submit, "/tmp/access", access)}
python3 -m daemons master --dir /tmp/access &
mkdir -m 777 /tmp/home; cd /tmp/home
set +ex
until user condor_q >/dev/null 2>&1; do sleep 5; done
{_submitted("own", "")}
{_submitted("foreign", f'requirements = Arch == "{HERE}"' + chr(10))}
wait
"""


@contextmanager
def other_host(central: Host) -> Iterator[Path]:
    """The guest, which joins; gives the file with what it prints."""
    words = [central.tool("pool", "token", "create", "--for", duty) for duty in ("execute", "submit")]
    said = central.directory / "guest.out"
    with open(said, "wb") as out:
        # A group of its own, as QEMU is below a shell.
        guest = subprocess.Popen(
            [MACHINE, "guest", _script(central.where(), *words)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield said
    finally:
        os.killpg(guest.pid, signal.SIGTERM)
        guest.wait(60)


@dataclass(frozen=True)
class Mixed:
    """`here` is a whole pool, with hosts of the other architecture; `said`: the file with what those have printed."""

    here: Host
    said: Path

    def has_said(self, text: str) -> bool:
        """Wait for what is printed there."""
        return self.here.until(
            lambda: text in self.said.read_text(errors="replace"), f"{text!r} there", deadline_s=PATIENCE_S
        )

    def is_whole(self) -> bool:
        """Whether there are both machines' partitionable slots, and nothing is carved from them."""
        slots = self.here.slots()
        return len(slots) == 2 and all(slot.eval("State") == "Unclaimed" for slot in slots)

    def ran(self, description: str, home: Path) -> str:
        """What a job has printed, once it has left the queue; no slot is another's, nor kept for its submitter, before."""
        self.here.until(self.is_whole, "the end of all claims", deadline_s=PATIENCE_S)
        with self.here.as_user("nobody"):
            cluster = self.here.submit(
                description + "output = out\nlog = log\nrequest_memory = 16\nrequest_disk = 1024\nqueue\n", cwd=home
            )
        self.here.until(lambda: not self.here.statuses(cluster), "the job's end", deadline_s=PATIENCE_S)
        return (home / "out").read_text()


@pytest.fixture(scope="module")
def mixed() -> Iterator[Mixed]:
    with new_host("here", HERE_ADDRESS) as here:
        here.be_central({"DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD", "NUM_CPUS": "1", "DOCKER": ""})
        with other_host(here) as said:
            try:
                here.until(lambda: len(here.slots()) == 2, "the slots of both hosts", deadline_s=PATIENCE_S)
            except AssertionError as error:
                raise AssertionError(said.read_text()) from error
            yield Mixed(here, said)


@pytest.fixture
def home(mixed: Mixed, request: pytest.FixtureRequest) -> Path:
    return mixed.here.place(request.node.name)


def test_the_ads_say_which_is_which(mixed: Mixed) -> None:
    ads = {ad.eval_str("Machine"): ad for ad in mixed.here.slots()}
    other = ads[THERE]
    assert ads[mixed.here.name].eval_str("Arch") == HERE
    assert (other.eval_str("Arch"), other.eval_str("UtsnameMachine")) == ("aarch64", "aarch64")
    assert (other.eval_str("OpSys"), other.eval_str("OpSysAndVer")) == ("LINUX", "Debian12")
    assert other.eval_str("CondorPlatform") == "$CondorPlatform: aarch64-Linux $"
    foreign = [name for name in other if name.lower().startswith(("has_", "microarch", "cpufamily", "cpumodel"))]
    assert foreign == []


def test_a_job_that_asks_for_the_other_architecture_runs_there(mixed: Mixed, home: Path) -> None:
    said = mixed.ran(
        'executable = /usr/bin/uname\ntransfer_executable = false\narguments = -m\nrequirements = Arch == "aarch64"\n',
        home,
    )
    assert said == "aarch64\n"


def test_a_job_that_asks_for_none_stays_on_its_submitters(mixed: Mixed, home: Path) -> None:
    """Though the other machine's slots are the only ones that are free."""
    script = home / "which.sh"
    script.write_text('#!/bin/sh\nuname -m; echo "$_CONDOR_SLOT"\n')
    script.chmod(0o755)
    # It prefers the other host, and does not get it.
    said = mixed.ran('executable = which.sh\nrank = TARGET.Arch == "aarch64"\n', home)
    assert said.splitlines()[0] == os.uname().machine
    ad = mixed.here.history()[0]
    assert f'TARGET.Arch == "{HERE}"' in ad.text("Requirements")


def test_the_machine_that_is_found_chooses_the_program(mixed: Mixed, home: Path) -> None:
    """The manual's example of a submission to both: the name of the executable has $$(OpSys) and $$(Arch)."""
    for machine in ("X86_64", "aarch64"):
        script = home / f"work.LINUX.{machine}"
        script.write_text(f"#!/bin/sh\necho for {machine} on $(uname -m)\n")
        script.chmod(0o755)
    both = '(Arch == "X86_64" && OpSys == "LINUX") || (Arch == "aarch64" && OpSys == "LINUX")'
    said = mixed.ran(
        f'executable = work.$$(OpSys).$$(Arch)\nrequirements = {both}\nrank = TARGET.Arch == "aarch64"\n', home
    )
    assert said == "for aarch64 on aarch64\n"


def test_a_cluster_runs_on_both_each_job_with_its_program(mixed: Mixed, home: Path) -> None:
    for machine in ("X86_64", "aarch64"):
        script = home / f"work.{machine}"
        script.write_text(f"#!/bin/sh\nsleep 20\necho for {machine} on $(uname -m)\n")  # so that both slots are wanted
        script.chmod(0o755)
    with mixed.here.as_user("nobody"):
        cluster = mixed.here.submit(
            'executable = work.$$(Arch)\nrequirements = Arch == "X86_64" || Arch == "aarch64"\n'
            "request_memory = 16\nrequest_disk = 1024\noutput = out.$(Process)\nlog = log\nqueue 2\n",
            cwd=home,
        )
    mixed.here.until(lambda: not mixed.here.statuses(cluster), "the jobs' end", deadline_s=PATIENCE_S)
    said = sorted((home / f"out.{number}").read_text() for number in range(2))
    assert said == sorted(["for aarch64 on aarch64\n", f"for {HERE} on {os.uname().machine}\n"])


def test_the_tables_count_both_kinds_and_only_one_has_a_level(mixed: Mixed) -> None:
    table = mixed.here.tool("condor_status", "-compact")
    assert f"{'x64' if HERE == 'X86_64' else HERE}/" in table
    assert "aarch64/Debian12" in table
    levels = mixed.here.tool("condor_status", "-constraint", 'Microarch >= "x86_64-v1"', "-af", "Machine", "Microarch")
    if HERE == "X86_64":
        assert [line.split()[0] for line in levels.splitlines()] == [mixed.here.name]
    assert THERE not in levels


def test_a_job_whose_own_kind_keeps_it_from_a_machine_is_told_so(mixed: Mixed, home: Path) -> None:
    """condor_submit has added the condition; the user has asked for a machine by its name alone."""
    with mixed.here.as_user("nobody"):
        cluster = str(mixed.here.submit(f'{_JOB}requirements = Machine == "{THERE}"\nlog = log\nqueue\n', cwd=home))
        for words in (("pool", "why", cluster), ("condor_q", "-better-analyze", cluster)):
            said = mixed.here.tool(*words)
            assert f'TARGET.Arch == "{HERE}"' in said, said
        mixed.here.tool("condor_rm", cluster)


def test_tools_of_the_other_host_know_where_they_are(mixed: Mixed) -> None:
    assert mixed.has_said("$CondorPlatform: aarch64-Linux $")
    assert mixed.has_said("\naarch64\naarch64\n")


def test_jobs_of_an_access_point_there_stay_there_unless_they_ask(mixed: Mixed) -> None:
    assert mixed.has_said("own ran on aarch64\n")
    assert mixed.has_said(f"foreign ran on {os.uname().machine}\n")
