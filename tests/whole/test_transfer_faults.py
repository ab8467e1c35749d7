"""kill -9 of the file agent, the starter and the schedd while files move: what arrives is whole, or the job says why.

A thousand small files, with a process dying at each step of their way; and one large file, with each process killed
while it is under way.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.whole.real_pool import RealPool, real_pool

FILES = 1000
LARGE = 2 << 30
POINTS = (
    "agent.input_file:300",
    "starter.input_file:700",
    "starter.output_file:300",
    "agent.output_file:700",
    "agent.output_came",
    "agent.output_placed",
    "starter.output_pushed",
)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    points = " ".join(POINTS)
    with real_pool(NUM_CPUS=2, MASTER_BACKOFF_CEILING=1, FAULT_POINTS=points, start=False) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in POINTS:
            (faults / point.partition(":")[0]).touch()
        pool.start()
        yield pool


@pytest.fixture
def home(pool: RealPool, request: pytest.FixtureRequest) -> Path:
    home = pool.directory / re.sub(r"\W+", "-", request.node.name)[:80]
    home.mkdir()
    home.chmod(0o777)
    return home


def content(number: int) -> bytes:
    """Mostly small, some of them streamed on their own."""
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


def assert_all_there(home: Path) -> None:
    assert (home / "said").read_text().strip() == str(FILES)
    assert sorted(os.listdir(home / "out")) == sorted(f"f{number}" for number in range(FILES))
    for number in range(FILES):
        assert (home / "out" / f"f{number}").read_bytes() == content(number)


def has_left(pool: RealPool, cluster: int) -> bool:
    """Whether the job has left the queue, as a schedd says that may have just begun to live again."""
    said = pool.tool("condor_q", "-allusers", str(cluster), "-af", "JobStatus", check=False).split()
    there = pool.tool("condor_history", str(cluster), "-af", "ExitCode", check=False).split()
    return not said and bool(there)


@pytest.mark.slow
@pytest.mark.parametrize("point", [point.partition(":")[0] for point in POINTS])
def test_a_thousand_files_arrive_whatever_dies_on_their_way(pool: RealPool, home: Path, point: str) -> None:
    marker = pool.run_dir / "faults" / point
    marker.unlink()
    cluster = submit_many(pool, home)
    pool.until(lambda: has_left(pool, cluster), "the job's end", deadline_s=200)
    (ad,) = pool.history(str(cluster))
    assert marker.exists(), f"{point} did not fire"
    assert ad.eval_int("ExitCode") == 0
    assert_all_there(home)
    assert (home / "log").read_text().count("\n005 (") == 1


def of_agent(pool: RealPool) -> int:
    (log,) = (pool.directory / "log").glob("FileAgentLog.*")
    return int(re.findall(r"File agent starts.* pid=(\d+)", log.read_text())[-1])


def of_starter(pool: RealPool) -> int:
    (sandbox,) = (pool.directory / "execute").glob("dir_*")
    return int(sandbox.name.removeprefix("dir_"))


def of_schedd(pool: RealPool) -> int:
    return pool.pid_of("schedd")


def size_of(paths: list[Path]) -> int:
    sizes = []
    for path in paths:
        try:
            sizes.append(path.stat().st_size)
        except OSError:
            continue
    return max(sizes, default=0)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in", "out"])
@pytest.mark.parametrize("victim", [of_agent, of_starter, of_schedd])
def test_a_large_file_arrives_whatever_dies_while_it_moves(
    pool: RealPool, home: Path, victim: Callable[[RealPool], int], way: str
) -> None:
    mark = os.urandom(4096)
    if way == "in":
        with open(home / "large", "wb") as file:
            file.write(mark)
            file.truncate(LARGE - len(mark))
            file.seek(LARGE - len(mark))
            file.write(mark)
        script, names = "stat -c %s large; tail -c 4096 large | sha256sum", "transfer_input_files = large"
        growing: Callable[[], list[Path]] = lambda: list((pool.directory / "execute").glob("dir_*/large"))  # noqa: E731
    else:
        (home / "mark").write_bytes(mark)
        script = f"cp mark large; truncate -s {LARGE - 4096} large; cat mark >> large; echo $$"
        names = "transfer_input_files = mark\ntransfer_output_files = large"
        growing = lambda: list(home.glob(".large*.part"))  # noqa: E731
    cluster = pool.submit(
        f"""executable = /bin/sh
arguments = "-c '{script}'"
{names}
should_transfer_files = YES
output = said
log = log
request_disk = 3G
queue
""",
        cwd=home,
    )
    pool.until(lambda: size_of(growing()) > LARGE // 10, "the file to be on its way", deadline_s=200)
    os.kill(victim(pool), signal.SIGKILL)
    pool.until(lambda: has_left(pool, cluster), "the job's end", deadline_s=300)
    (ad,) = pool.history(str(cluster))
    assert ad.eval_int("ExitCode") == 0
    if way == "in":
        size, digest = (home / "said").read_text().split()[:2]
        assert (int(size), digest) == (LARGE, hashlib.sha256(mark).hexdigest())
    else:
        assert (home / "large").stat().st_size == LARGE
        with open(home / "large", "rb") as file:
            assert file.read(4096) == mark
            file.seek(-4096, os.SEEK_END)
            assert file.read() == mark
        assert not [name for name in os.listdir(home) if name.endswith(".part")]
    (home / "large").unlink()
