"""The file agent, the starter or the schedd dies, or the connection breaks, at each step of a transfer: what arrives is whole.

A thousand small files, and one large file that is handed over open. At each step the process that takes it stops, or
breaks its own connection; while it is stopped the test kills whom it wants, and lets it go on if it still lives.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

FILES = 1000
LARGE = 2 << 30
EXTENTS = 128
MANY = (
    "agent.input_file:300",
    "starter.input_file:700",
    "starter.output_file:300",
    "agent.output_file:700",
    "agent.output_came",
    "agent.output_placed",
    "starter.output_pushed",
)
ONE = ("starter.input_piece:60", "agent.output_piece:60", "agent.output_came")


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    points = [*MANY, *ONE]
    with real_pool(NUM_CPUS=2, MASTER_BACKOFF_CEILING=1, FAULT_POINTS=" ".join(points), start=False) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in points:
            (faults / name_of(point)).touch()
        pool.start()
        yield pool


def name_of(point: str) -> str:
    return point.partition(":")[0]


@pytest.fixture
def home(pool: RealPool) -> Path:
    home = Path(tempfile.mkdtemp(prefix="home-", dir=pool.directory))
    home.chmod(0o777)
    return home


# ---- what happens at a step


def of_agent(pool: RealPool) -> int:
    (log,) = (pool.directory / "log").glob("FileAgentLog.*")
    return int(re.findall(r"File agent starts.* pid=(\d+)", log.read_text())[-1])


def of_starter(pool: RealPool) -> int:
    """The starter whose sandbox it is, once that of the job before has been removed."""
    execute = pool.directory / "execute"
    pool.until(lambda: len(list(execute.glob("dir_*"))) == 1, "one sandbox")
    (sandbox,) = execute.glob("dir_*")
    return int(sandbox.name.removeprefix("dir_"))


def of_schedd(pool: RealPool) -> int:
    return pool.pid_of("schedd")


Victim = Callable[[RealPool], int] | None
VICTIMS = [
    pytest.param(of_agent, id="agent"),
    pytest.param(of_starter, id="starter"),
    pytest.param(of_schedd, id="schedd"),
    pytest.param(None, id="connection"),
]


def arm(pool: RealPool, point: str, victim: Victim) -> None:
    """The next process at this point stops there, or cuts its connection."""
    faults = pool.run_dir / "faults"
    (faults / f"{point}.do").write_text("cut" if victim is None else "stop")
    (faults / point).unlink()


def strike(pool: RealPool, point: str, victim: Victim) -> None:
    """Wait until a process stands at the point, and kill the victim."""
    marker = pool.run_dir / "faults" / point
    pool.until(lambda: marker.exists() and bool(marker.read_text()), f"a process at {point}", deadline_s=200)
    if victim is None:
        return
    stopped = int(marker.read_text())
    pool.until(lambda: is_stopped(stopped), f"process {stopped} to stop")
    killed = victim(pool)
    assert killed, "there is nobody to kill"
    os.kill(killed, signal.SIGKILL)
    if killed != stopped:
        os.kill(stopped, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether all its threads stand; one that is gone is waited for in vain, and the logs are shown."""
    try:
        stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return bool(stats) and {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}


def has_left(pool: RealPool, cluster: int) -> bool:
    """Whether the job has left the queue, as a schedd says that may have just begun to live again."""
    said = pool.tool("condor_q", "-allusers", str(cluster), "-af", "JobStatus", check=False).split()
    there = pool.tool("condor_history", str(cluster), "-af", "ExitCode", check=False).split()
    return not said and bool(there)


def assert_ended_well(pool: RealPool, home: Path, cluster: int) -> None:
    pool.until(lambda: has_left(pool, cluster), "the job's end", deadline_s=200)
    (ad,) = pool.history(str(cluster))
    assert ad.eval_int("ExitCode") == 0
    assert (home / "log").read_text().count("\n005 (") == 1
    assert not [name for _, _, names in os.walk(home) for name in names if name.endswith(".part")]


# ---- a thousand files


def content(number: int) -> bytes:
    """Mostly small, some of them handed over on their own."""
    return (f"file {number}\n" * (1 + number % 50)).encode() * (200 if number % 100 == 0 else 1)


def submit_many(pool: RealPool, home: Path) -> int:
    (home / "in").mkdir()
    for number in range(FILES):
        (home / "in" / f"f{number}").write_bytes(content(number))
    return pool.submit(
        """executable = /bin/sh
arguments = "-c 'cp -r in out; ls in | wc -l'"
transfer_input_files = in
transfer_output_files = out
should_transfer_files = YES
output = said
log = log
queue
""",
        cwd=home,
    )


@pytest.mark.slow
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("point", [name_of(point) for point in MANY])
def test_a_thousand_files_arrive_whatever_breaks_on_their_way(
    pool: RealPool, home: Path, point: str, victim: Victim
) -> None:
    arm(pool, point, victim)
    cluster = submit_many(pool, home)
    strike(pool, point, victim)
    assert_ended_well(pool, home, cluster)
    assert (home / "said").read_text().strip() == str(FILES)
    assert sorted(os.listdir(home / "out")) == sorted(f"f{number}" for number in range(FILES))
    for number in range(FILES):
        assert (home / "out" / f"f{number}").read_bytes() == content(number)


# ---- one large file


def write_large(path: Path) -> str:
    """Two gigabytes, of which a little is not zero in each of many places; the digest of that."""
    whole = hashlib.sha256()
    with open(path, "wb") as file:
        for number in range(EXTENTS):
            data = os.urandom(4096)
            file.seek(number * (LARGE // EXTENTS))
            file.write(data)
            whole.update(data)
        file.truncate(LARGE)
    path.chmod(0o644)
    return whole.hexdigest()


def digest_of_large(path: Path) -> str:
    whole = hashlib.sha256()
    with open(path, "rb") as file:
        for number in range(EXTENTS):
            file.seek(number * (LARGE // EXTENTS))
            whole.update(file.read(4096))
    return whole.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("point", [name_of(point) for point in ONE])
def test_a_large_file_arrives_whatever_breaks_on_its_way(
    pool: RealPool, home: Path, point: str, victim: Victim
) -> None:
    digest = write_large(home / "large")
    arm(pool, point, victim)
    cluster = pool.submit(
        """executable = /bin/sh
arguments = "-c 'mv large made; stat -c %s made'"
transfer_input_files = large
transfer_output_files = made
should_transfer_files = YES
request_disk = 3G
output = said
log = log
queue
""",
        cwd=home,
    )
    strike(pool, point, victim)
    assert_ended_well(pool, home, cluster)
    assert (home / "said").read_text().strip() == str(LARGE)
    assert (home / "made").stat().st_size == LARGE
    assert digest_of_large(home / "made") == digest
    for name in ("large", "made"):
        (home / name).unlink()
