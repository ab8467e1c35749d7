"""Jobs whose files stay at another host (want_remote_io): over TLS, with cables that are pulled and disks that are full."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from daemons.host.namespaces import can_isolate
from pool.classad import ClassAd
from tests.whole.hosts import new_host_of
from tests.whole.networks import Network, NetworkHost, network, why_not

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.slow,
    pytest.mark.skipif(
        not can_isolate() or not os.path.exists("/dev/fuse"), reason="file systems take root's rights and /dev/fuse"
    ),
]
MIB = 1 << 20
LINE_BYTES = 64
USER = "nobody"
LONG_S = 3000.0
"""How long a gibibyte may take."""
LEASE_S = 12
PORT = {"SHARED_PORT_PORT": "9618"}
REST = "want_remote_io = true\noutput = out\nerror = err\nlog = log\nqueue\n"


class Pool(NamedTuple):
    """An access point, and a host that executes."""

    net: Network
    home: NetworkHost
    away: NetworkHost


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    if why := why_not():
        pytest.skip(why)
    with ExitStack() as stack:
        net = stack.enter_context(network())
        hosts = []
        for name, address in (("home", "10.98.0.2"), ("away", "10.98.0.3")):
            net.add(address)
            host = stack.enter_context(new_host_of(NetworkHost, name, address))
            host.network = net
            hosts.append(host)
        home, away = hosts
        home.be_central({**PORT, "DAEMON_LIST": "MASTER, COLLECTOR, NEGOTIATOR, SCHEDD"})
        away.join(home, "execute", {**PORT, "NUM_CPUS": "1"})
        home.until(home.slots, "the slot")
        yield Pool(net, home, away)


def directory(pool: Pool, case: str) -> Path:
    """One of the user's."""
    place = pool.home.place(case)
    shutil.chown(place, USER)
    return place


def submitted(pool: Pool, here: Path, description: str) -> int:
    with pool.home.as_user(USER):
        return pool.home.submit(description + REST, cwd=here)


def done(pool: Pool, cluster: int, deadline_s: float = 120.0) -> ClassAd:
    """The job's last ad."""
    pool.home.until(lambda: not pool.home.jobs(str(cluster)), "the end of the job", deadline_s=deadline_s)
    (ad,) = pool.home.until_done(cluster)
    return ad


def starter_log(pool: Pool) -> str:
    return "".join(path.read_text() for path in (pool.away.directory / "log").glob("StarterLog*"))


# ---- an unmodified sort


def make_words(path: Path, mib: int) -> None:
    """Lines of random words."""
    with path.open("wb") as file:
        for _ in range(mib):
            block = os.urandom(MIB // 2).hex().encode()
            file.write(b"".join(block[at + 1 : at + LINE_BYTES] + b"\n" for at in range(0, MIB, LINE_BYTES)))
    shutil.chown(path, USER)


def made_of(path: Path) -> tuple[int, ...]:
    """A sum of a file's words, column by column of its lines: the same for the same lines in any order."""
    words = np.memmap(path, dtype=np.uint64, mode="r").reshape(-1, LINE_BYTES // 8)
    return tuple(int(one) for one in words.sum(axis=0))


def sorted_through_cuts(pool: Pool, mib: int, cable_s: float) -> Path:
    """A sort whose cable is pulled while it reads, and whose schedd is killed while it writes."""
    here = directory(pool, "sort")
    make_words(here / "words", mib)
    memory = max(mib // 5, 4)
    cluster = submitted(
        pool,
        here,
        f"executable = /usr/bin/sort\narguments = -S {memory}M words -o sorted\nenvironment = LC_ALL=C\n"
        "request_memory = 512\n",
    )

    def written() -> int:
        return (here / "sorted").stat().st_size if (here / "sorted").exists() else -1

    # It makes its output before it reads, and writes it when it has read all.
    quickly(pool, lambda: written() == 0, "the sort that reads")
    with pool.net.unplugged(pool.home.address):
        time.sleep(cable_s)
        assert written() == 0
    quickly(pool, lambda: written() > 0, "the sort that writes")
    pool.home.restart_of("schedd")
    ad = done(pool, cluster, LONG_S)
    assert (ad.eval("ExitCode"), (here / "err").read_text()) == (0, "")
    assert ad.eval("NumJobStarts") == 1
    assert ad.eval_int("BytesRecvd", 0) == 0
    subprocess.run(["sort", "-c", here / "sorted"], check=True, env={"LC_ALL": "C", "PATH": os.environ["PATH"]})
    assert made_of(here / "sorted") == made_of(here / "words")
    return here


def quickly(pool: Pool, state: Callable[[], bool], what: str) -> None:
    """Wait for a state that does not last."""
    deadline = time.monotonic() + LONG_S
    while not state():
        assert time.monotonic() < deadline, f"waited in vain for {what}\n{pool.home.logs()}"
        time.sleep(0.005)


def test_a_sort_goes_on_when_its_home_is_there_again(pool: Pool) -> None:
    sorted_through_cuts(pool, 48, 3.0)
    assert "The job's files are there again" in starter_log(pool)


@pytest.mark.long
@pytest.mark.timeout(4000)
def test_an_unmodified_sort_of_a_gibibyte_that_only_the_access_point_has(pool: Pool) -> None:
    # So long that the connection is given up, and made anew.
    here = sorted_through_cuts(pool, 1024, 45.0)
    shutil.rmtree(here)


# ---- what does not go on


@pytest.mark.long
def test_a_cut_that_is_longer_than_the_lease_has_the_job_begin_again(pool: Pool) -> None:
    here = directory(pool, "lease")
    script = "n=0; while [ ! -e go ]; do n=$((n+1)); echo $n >> counted; sleep 0.05; done"
    cluster = submitted(
        pool, here, f"executable = /bin/sh\narguments = \"-c '{script}'\"\njob_lease_duration = {LEASE_S}\n"
    )
    pool.home.until(lambda: (here / "counted").exists(), "the job at work")
    # A start of which the schedd has not heard yet is none that it counts.
    pool.home.until(
        lambda: [job.eval("NumJobStarts") for job in pool.home.jobs(str(cluster))] == [1], "the start counted"
    )
    with pool.net.unplugged(pool.home.address):
        pool.home.until(lambda: "The job ended" in ended_of(pool, cluster), "the eviction")
    (here / "go").touch()
    # The starter counts, and so does the startd; whoever is first says it.
    assert re.search(
        r'ending=evicted reason=".*(lease|heard nothing from the schedd for \d+ s)', ended_of(pool, cluster)
    )
    ad = done(pool, cluster)
    assert (ad.eval("ExitCode"), ad.eval("NumJobStarts")) == (0, 2)


def ended_of(pool: Pool, cluster: int) -> str:
    """What the starter has said of the job's first end."""
    lines = [line for line in starter_log(pool).splitlines() if "The job ended" in line and f"job={cluster}.0" in line]
    return lines[0] if lines else ""


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of 4 MiB, in a file."""
    path.mkdir()
    image = path.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(4 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, path], check=True)
    try:
        shutil.chown(path, USER)
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="mkfs.ext4 makes the disk")
def test_a_full_disk_at_home_is_told_the_program(pool: Pool) -> None:
    here = directory(pool, "full")
    with small_disk(here / "small"):
        script = "head -c 30000000 /dev/zero > small/file; echo $? >&2; rm small/file; echo fits > small/file"
        ad = done(pool, submitted(pool, here, f"executable = /bin/sh\narguments = \"-c '{script}'\"\n"))
        told = (here / "err").read_text()
        assert "No space left on device" in told
        assert told.endswith("1\n")
        assert (ad.eval("ExitCode"), (here / "small" / "file").read_text()) == (0, "fits\n")
