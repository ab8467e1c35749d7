"""A client that knows nothing of this pool: dask-jobqueue types condor_submit and condor_rm, and reads what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.whole.real_pool import DEADLINE_S, as_account, real_pool

pytest.importorskip("dask_jobqueue")

PROGRAM = """
import json, sys, time
from dask_jobqueue import HTCondorCluster
from distributed import Client


def square(number):
    time.sleep(0.02)
    return number * number


def until(count, client):
    deadline = time.monotonic() + 60
    while len(client.scheduler_info(n_workers=-1)["workers"]) != count and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(client.scheduler_info(n_workers=-1)["workers"])


if __name__ == "__main__":
    settings = {"cores": 1, "memory": "200MB", "disk": "100MB", "death_timeout": 60, "log_directory": "logs"}
    with HTCondorCluster(**settings, python=sys.executable, scheduler_options={"host": "127.0.0.1"}) as cluster:
        cluster.scale(4)
        with Client(cluster) as client:
            client.wait_for_workers(4, timeout=60)
            total = sum(client.gather(client.map(square, range(100))))
            names = sorted(worker["name"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
            cluster.scale(1)
            left = until(1, client)
            jobs = sorted(str(worker.job_id) for worker in cluster.workers.values())
            print(json.dumps({"total": total, "names": names, "left": left, "jobs": jobs}), flush=True)
"""


@pytest.mark.slow
def test_dask_runs_a_hundred_tasks_on_four_workers_and_scales_down() -> None:
    with real_pool(NUM_CPUS=4, MEMORY=4096) as pool:
        home = pool.directory / "home"
        home.mkdir()
        home.chmod(0o777)
        (home / "program.py").write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=home,
            env={**pool.env(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
            **as_account(pool.user),
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{pool.logs()}"
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["total"] == sum(number * number for number in range(100))
        assert found["names"] == [f"HTCondorCluster-{number}" for number in range(4)]
        assert found["left"] == 1
        pool.until(lambda: not pool.jobs(), "the end of all workers")
        assert len(pool.history()) == 4
