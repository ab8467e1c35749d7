"""A pool of two architectures: a host of aarch64 joins a central manager of this machine's, and runs what asks for it.

The other host is a virtual machine: `tests/aarch64/machine mixed` makes it, and a network that leads to it, and runs
these tests there. All is slow in it, so they wait long.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pool.base.version import arch
from tests.whole.hosts import SETTINGS, Host, new_host

MACHINE = os.environ.get("MINIPOOL_AARCH64", "")
HERE = arch(os.uname().machine)
HERE_ADDRESS, THERE_ADDRESS = "10.98.0.1", "10.98.0.2"
THERE = "there.hosts.test"

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


def _script(where: str, word: str) -> str:
    """What the guest runs: a look at its tools, and its master, until somebody switches it off."""
    settings = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in _KNOBS.items())
    return f"""set -ex
mkdir /tmp/there; export POOL_DIR=/tmp/there
tool() {{ python3 -c {shlex.quote(_PROGRAM)} "$@"; }}
echo {shlex.quote(word.strip())} | tool pool join {where} --dir /tmp/there {settings}
tool condor_version
tool condor_config_val ARCH UNAME_ARCH
printf 'executable = /bin/true\\nqueue\\n' > /tmp/job.sub
tool condor_submit -dry-run - /tmp/job.sub
echo READY
exec python3 -m daemons master --dir /tmp/there
"""


@contextmanager
def other_host(central: Host) -> Iterator[Path]:
    """The guest, which joins; gives the file with what it prints."""
    word = central.tool("pool", "token", "create", "--for", "execute")
    said = central.directory / "guest.out"
    with open(said, "wb") as out:
        # A group of its own, as QEMU is below a shell.
        guest = subprocess.Popen(
            [MACHINE, "guest", _script(central.where(), word)],
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
    """`here` is a whole pool, with an execute host of the other architecture; `said`: what that has printed."""

    here: Host
    said: str

    def ran(self, description: str, home: Path) -> str:
        """What a job has printed, once it has left the queue."""
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
            yield Mixed(here, said.read_text())


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


def test_tools_of_the_other_host_know_where_they_are(mixed: Mixed) -> None:
    assert 'TARGET.Arch == "aarch64"' in mixed.said  # of a job that is submitted there
    assert "$CondorPlatform: aarch64-Linux $" in mixed.said
    assert "\naarch64\naarch64\n" in mixed.said
