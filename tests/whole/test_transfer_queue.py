"""The transfer queue of a whole pool: every job gets its turn, whatever dies, and nobody keeps one.

The pool lets one input and one output move at a time, and few bytes are enough to need a turn.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import htcondor2
import pytest

from protocol.messages.common import GetAd
from protocol.rpc.blocking import connect
from protocol.security.credentials import Security
from tests.whole.real_pool import RealPool, real_pool

POINTS = (
    "schedd.transfer_queued",  # while others move and wait
    "agent.input_file:2",  # with a turn
    "starter.input_piece",
    "agent.output_piece",
    "starter.output_pushed",
)
SIZE = 24 << 20
JOBS = 4


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    knobs = {
        "NUM_CPUS": JOBS,
        "MASTER_BACKOFF_CEILING": 1,
        "BYTES_REQUIRED_TO_QUEUE_FOR_TRANSFER": 1_000_000,
        "MAX_CONCURRENT_UPLOADS": 1,
        "MAX_CONCURRENT_DOWNLOADS": 1,
        "FILE_TRANSFER_DISK_LOAD_THROTTLE": "",
        "FAULT_POINTS": " ".join(POINTS),
    }
    with real_pool(start=False, **knobs) as pool:
        faults = pool.run_dir / "faults"
        faults.mkdir(parents=True)
        faults.chmod(0o777)
        for point in POINTS:
            (faults / point.partition(":")[0]).touch()
        pool.start()
        yield pool


@pytest.fixture
def home(pool: RealPool, request: pytest.FixtureRequest) -> Path:
    home = Path(tempfile.mkdtemp(dir=pool.directory, prefix=re.sub(r"\W+", "-", request.node.name)[:80]))
    home.chmod(0o777)
    return home


def submit(pool: RealPool, home: Path) -> int:
    (home / "large").write_bytes(os.urandom(SIZE))
    return pool.submit(
        f"""executable = /bin/sh
arguments = "-c 'cp large out.$(Process)'"
transfer_input_files = large
transfer_output_files = out.$(Process)
should_transfer_files = YES
log = log
queue {JOBS}
""",
        cwd=home,
    )


def has_left(pool: RealPool, cluster: int) -> bool:
    """Whether all jobs have left the queue, as a schedd says that may have just begun to live again."""
    said = pool.tool("condor_q", "-allusers", str(cluster), "-af", "JobStatus", check=False).split()
    there = pool.tool("condor_history", str(cluster), "-af", "ExitCode", check=False).split()
    return not said and len(there) == JOBS


def is_quiet(pool: RealPool) -> bool:
    """Whether nobody moves files or waits for it, by the schedd's own word."""
    with connect(str(pool.run_dir / "schedd.sock"), Security()) as peer:
        ad = peer.call(GetAd()).ad
    names = ("NumUploading", "NumDownloading", "NumWaitingToUpload", "NumWaitingToDownload")
    return all(ad[f"TransferQueue{name}"] == 0 for name in names)


def assert_all_there(home: Path) -> None:
    content = (home / "large").read_bytes()
    for number in range(JOBS):
        assert (home / f"out.{number}").read_bytes() == content
    assert not [name for name in os.listdir(home) if name.endswith(".part")]


def test_every_job_gets_its_turn_and_its_log_tells_of_it(pool: RealPool, home: Path) -> None:
    cluster = submit(pool, home)
    ads = pool.until_done(cluster)
    assert_all_there(home)
    assert all(ad["TransferInStarted"] <= ad["TransferInFinished"] <= ad["TransferOutStarted"] for ad in ads)
    assert not any(name in ad for ad in ads for name in ("TransferQueued", "TransferringInput", "TransferringOutput"))
    kinds: dict[int, list[int]] = {}
    for event in htcondor2.JobEventLog(str(home / "log")).events(stop_after=0):
        if event.type == htcondor2.JobEventType.FILE_TRANSFER:
            kinds.setdefault(event.proc, []).append(event["Type"])
    assert len(kinds) == JOBS
    for seen in kinds.values():
        assert [kind for kind in seen if kind not in (1, 4)] == [2, 3, 5, 6]
        assert seen == sorted(seen)


@pytest.mark.slow
@pytest.mark.parametrize("point", [point.partition(":")[0] for point in POINTS])
def test_no_turn_is_lost_or_kept_whatever_dies(pool: RealPool, home: Path, point: str) -> None:
    (pool.run_dir / "faults" / point).unlink()
    cluster = submit(pool, home)
    pool.until(lambda: has_left(pool, cluster), "the end of all jobs", deadline_s=200)
    assert {ad["ExitCode"] for ad in pool.history(str(cluster))} == {0}
    assert_all_there(home)
    pool.until(lambda: is_quiet(pool), "an empty queue of transfers")
