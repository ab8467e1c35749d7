"""Where the daemons' CPU goes while many short jobs run: `make profile`.

py-spy reads each daemon's stack from outside, some hundred times a second, and counts only who holds the interpreter:
who waits is not seen, and neither is a system call that lets others go on. The starters are read by way of the zygote
that forks them. What is printed for each daemon: the functions in which it was found (self), and those that were
somewhere on its stack (all), as shares of its samples. ARGS: `--jobs N`, `--rate N`, `--transfer`, `--raw DIRECTORY`
for the stacks as they were found, which flame graphs are drawn from, and names of daemons.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from benchmarks.pool_run import SLOTS, Bench, _until_many_ended, bench
from tests.whole.real_pool import pool_directory

DAEMONS: Final = ("schedd", "startd", "starters", "agent", "negotiator", "collector", "master")
SHOWN: Final = 15
WARM_JOBS: Final = 3 * SLOTS
LONGEST_S: Final = 3600
_PLACE: Final = r":\d+\)$"
"""The line in `function (file:line)`."""
_LOOP: Final = "unrolled_run (trio/"


def pids(pool: Bench) -> dict[str, int]:
    """The process that is sampled for each daemon."""
    found = {}
    for process in pool.daemons():
        try:
            name, parent = process.name().removeprefix("condor_"), process.parent()
        except psutil.NoSuchProcess:  # a starter that had nothing left to do
            continue
        if name == "zygote" and parent is not None and parent.name() == "condor_startd":
            found["starters"] = process.pid
        for daemon in DAEMONS:
            if name and daemon.startswith(name) and daemon != "starters":  # the kernel keeps fifteen letters
                found[daemon] = process.pid
    return found


@contextmanager
def sampled(pid: int, out: Path, rate: int, *, children: bool) -> Iterator[None]:
    """Sample a process for the time of the block."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    command = [spy, "record", "--pid", str(pid), "--rate", str(rate), "--duration", str(LONGEST_S)]
    command += ["--gil", "--nonblocking", "--format", "raw", "--output", str(out)]
    if children:
        command.append("--subprocesses")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    if not out.exists():
        raise SystemExit(f"py-spy could not read process {pid}: {errors.strip()}")


def stacks(path: Path) -> Iterator[tuple[list[str], int]]:
    """The stacks in a file of py-spy's, outermost function first, and how often each was found."""
    for line in path.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        yield [frame for frame in frames.split(";") if not frame.startswith("process ")], int(count)


def report(name: str, path: Path) -> str:
    """The functions in which a daemon was found most often."""
    alone: Counter[str] = Counter()
    above: Counter[str] = Counter()
    total = 0
    for frames, count in stacks(path):
        named = [re.sub(_PLACE, ")", frame) for frame in frames] or ["?"]
        total += count
        alone[named[-1]] += count
        for one in set(named[_in_loop(named) :]):
            above[one] += count
    lines = [f"{name}: {total} samples"]
    for title, counted in (("self", alone), ("all", above)):
        lines += [f"  {title} {count / total:6.1%}  {where}" for where, count in counted.most_common(SHOWN)]
    return "\n".join(lines)


def _in_loop(frames: Sequence[str]) -> int:
    """Where the task begins that the event loop was running; what is outside of that is the same in all stacks."""
    return max((number + 1 for number, frame in enumerate(frames) if frame.startswith(_LOOP)), default=0)


def run_jobs(pool: Bench, name: str, count: int, *, transfer: bool) -> None:
    """Submit this many jobs and wait for their ends."""
    description, log = pool.jobs_file(name, count=count, transfer=transfer)
    pool.submit(description)
    _until_many_ended(log, count)


def profile(daemons: Sequence[str], jobs: int, rate: int, raw: Path, *, transfer: bool) -> None:
    """Sample the daemons one after another, each over a run of its own, so that they do not wait for the sampler."""
    with bench({"NUM_CPUS": str(SLOTS)}) as pool:
        run_jobs(pool, "warm", WARM_JOBS, transfer=transfer)
        for daemon in daemons:
            out = raw / f"{daemon}.raw"
            with sampled(pids(pool)[daemon], out, rate, children=daemon == "starters"):
                run_jobs(pool, daemon, jobs, transfer=transfer)
            sys.stdout.write(report(daemon, out) + "\n\n")
            sys.stdout.flush()


def main() -> None:
    """The words of the command line."""
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("daemons", nargs="*", metavar="DAEMON", default=DAEMONS[:4])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--rate", type=int, default=250)
    parser.add_argument("--transfer", action="store_true")
    parser.add_argument("--raw", type=Path)
    words = parser.parse_args()
    if unknown := [name for name in words.daemons if name not in DAEMONS]:
        parser.error(f"no such daemon: {' '.join(unknown)} (there are: {' '.join(DAEMONS)})")
    with pool_directory() as directory:
        raw = words.raw or directory
        raw.mkdir(parents=True, exist_ok=True)
        profile(words.daemons, words.jobs, words.rate, raw, transfer=words.transfer)


if __name__ == "__main__":
    main()
