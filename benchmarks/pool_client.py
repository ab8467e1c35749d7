"""What a benchmark does as the submitting user, on one open connection: `python -m benchmarks.pool_client DIR HOME N`.

Prints the seconds from each submit call to the Terminated event in the job's log, one a line.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import minipool

LOOK_S = 0.0005
GIVE_UP_S = 60.0
PAUSE_S = 0.15


def until_terminated(log: Path, count: int = 1) -> None:
    """Wait until the log has this many Terminated events."""
    deadline = time.monotonic() + GIVE_UP_S
    while not log.exists() or log.read_text().count("Job terminated.") < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{log} has not {count} ended jobs")
        time.sleep(LOOK_S)


def main(directory: str, home: str, count: int) -> None:
    """Submit jobs one at a time, each when the pool is idle again; the first ones warm it."""
    with minipool.connect(directory) as pool:
        for number in range(count):
            log = Path(home, f"api.{number}.log")
            began = time.perf_counter()
            pool.submit(minipool.Submit(executable="/bin/true", log=str(log), should_transfer_files="NO"))
            until_terminated(log)
            print(f"{time.perf_counter() - began:.6f}", flush=True)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
