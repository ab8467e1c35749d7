"""What a benchmark does as the submitting user: `python -m benchmarks.pool_client DIR HOME N api|condor_submit`.

Prints the seconds to the Terminated event in the job's log, one a line: from each submit call on one open connection,
or from each exec of condor_submit. A process that is the user's already starts the tool without a copy of itself, which
would be counted as the tool's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def by_tool(directory: str, log: Path) -> None:
    """Submit a job with condor_submit."""
    text = f"executable = /bin/true\nlog = {log}\nshould_transfer_files = NO\nqueue\n"
    program, env = Path(sys.executable).with_name("condor_submit"), {**os.environ, "POOL_DIR": directory}
    subprocess.run([program], input=text, env=env, check=True, capture_output=True, text=True)


@contextmanager
def submitting(directory: str) -> Iterator[dict[str, Callable[[Path], object]]]:
    """The ways to submit a job with this log, by name."""
    with minipool.connect(directory) as pool:
        yield {
            "api": lambda log: pool.submit(
                minipool.Submit(executable="/bin/true", log=str(log), should_transfer_files="NO")
            ),
            "condor_submit": lambda log: by_tool(directory, log),
        }


def seconds(submit: Callable[[Path], object], log: Path) -> float:
    """From the submit to the end in the log."""
    began = time.perf_counter()
    submit(log)
    until_terminated(log)
    return time.perf_counter() - began


def main(directory: str, home: str, count: int, way: str) -> None:
    """Submit jobs one at a time, each when the pool is idle again; the first ones warm it."""
    with submitting(directory) as ways:
        for number in range(count):
            print(f"{seconds(ways[way], Path(home, f'{way}.{number}.log')):.6f}", flush=True)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
