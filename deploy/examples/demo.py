"""A personal pool from start to stop: it estimates pi with 24 jobs, which are queued by condor_submit and shown live.

    python deploy/examples/demo.py            (or: make demo)

Real daemons run in a temporary directory, which is gone at the end. Run by root, the pool runs the jobs as an account
without rights; run by anybody else, all of it is that account's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from minipool.cli.log_tools.watch import render
from minipool.client import host
from minipool.client.progress import Progress, bars, follow
from minipool.client.session import Session
from protocol.messages.schedd import Selection

SIZES = (20_000, 60_000, 200_000)
SEEDS = range(8)
SLOTS = 8
BIN = Path(sys.executable).parent

PROGRAM = '''#!{python}
"""How many of N random points of the unit square lie in the quarter circle?"""
import json, random, sys, time
n, seed = int(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
begun = time.time()
hits = sum(chance.random() ** 2 + chance.random() ** 2 <= 1 for _ in range(n))
time.sleep(max(0, 0.4 - (time.time() - begun)))  # long enough to be seen
print(json.dumps({{"n": n, "seed": seed, "hits": hits}}))
'''

DESCRIPTION = """# 24 jobs: each of three sample sizes with eight seeds
executable  = pi.py
arguments   = $(samples) $(seed)
output      = out/$(samples)-$(seed).json
error       = out/$(samples)-$(seed).err
log         = pi.log
batch_name  = pi
request_cpus   = 1
request_memory = 32
should_transfer_files   = YES
when_to_transfer_output = ON_EXIT
queue samples, seed from (
{rows}
)
"""


def main() -> int:
    """Start a pool, run the sweep, say what it computed, stop the pool; the exit status."""
    began = time.monotonic()
    with temporary_directory() as directory, pool_in(directory) as session:
        print(f"A pool of {SLOTS} cores is up in {directory} ({time.monotonic() - began:.1f} s).", flush=True)
        work = prepare(directory / "work")
        answer = submit(work, directory)
        print(answer, flush=True)
        watch(session, answer.rsplit(maxsplit=1)[1].rstrip("."))
        report(work)
    print("The pool is stopped, and its directory removed.")
    return 0


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory that all accounts can reach, for as long as the block lasts."""
    path = Path(tempfile.mkdtemp(prefix="minipool-demo-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def pool_in(directory: Path) -> Iterator[Session]:
    """A pool of real daemon processes; stopped when the block ends, however it ends."""
    environ = {key: value for key, value in os.environ.items() if key != "CONDOR_CONFIG"}
    environ["POOL_DIR"] = str(directory)
    host.prepare(str(directory), (), {"NUM_CPUS": str(SLOTS), "UPDATE_INTERVAL": "5"})
    session = Session.open(directory=str(directory))
    try:
        host.start(str(directory), ["--dir", str(directory)], environ=environ)
        if not host.wait_for_slots(session):
            raise SystemExit(f"no slot came up; {last_lines(directory / 'log' / 'StartLog')}")
        yield session
    finally:
        host.stop(session, "fast")


def prepare(work: Path) -> Path:
    """The program, its submit description, and a directory for the output."""
    (work / "out").mkdir(parents=True)
    program = work / "pi.py"
    program.write_text(PROGRAM.format(python=os.path.realpath(sys.executable)))
    program.chmod(0o755)
    rows = "\n".join(f"  {size}, {seed}" for size in SIZES for seed in SEEDS)
    (work / "pi.sub").write_text(DESCRIPTION.format(rows=rows))
    return work


def submit(work: Path, directory: Path) -> str:
    """Queue the jobs as a user would; what condor_submit answered."""
    done = subprocess.run(
        [BIN / "condor_submit", "pi.sub"],
        cwd=work,
        env={**os.environ, "POOL_DIR": str(directory)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit("condor_submit refused the jobs")
    return done.stdout.strip().splitlines()[-1]


def watch(session: Session, cluster: str) -> None:
    """Show the jobs until all have left the queue; a held one ends the demonstration."""
    with closing(follow(session, Selection(ids=[cluster]))) as steps:
        show(steps)


def show(steps: Iterator[Progress]) -> None:
    """Each step of the progress: redrawn on a terminal, else a line for each change."""
    if sys.stdout.isatty():
        from rich.live import Live

        with Live(auto_refresh=False) as live:
            for progress in steps:
                live.update(render(progress.batches()), refresh=True)
                if is_over(progress):
                    return
    last = ""
    for progress in steps:
        now = bars(progress.batches())
        if now != last:
            last = now
            print(now, flush=True)
        if is_over(progress):
            return


def is_over(progress: Progress) -> bool:
    """Whether all jobs are done; SystemExit with the reason when one is held."""
    for name, ad in progress.ads.items():
        if ad.eval_int("JobStatus") == 5 and name not in progress.left:
            raise SystemExit(f"job {name} is held: {ad.eval_str('HoldReason')}")
    return progress.over


def report(work: Path) -> None:
    """What the jobs computed."""
    total = hits = 0
    for size in SIZES:
        found = [json.loads((work / "out" / f"{size}-{seed}.json").read_text()) for seed in SEEDS]
        points, inside = sum(one["n"] for one in found), sum(one["hits"] for one in found)
        print(f"  {len(found)} x {size:>7,} points: pi is about {4 * inside / points:.4f}")
        total, hits = total + points, hits + inside
    print(f"  all {total:,} points: pi is about {4 * hits / total:.5f}")


def last_lines(path: Path) -> str:
    """The end of a log, for somebody who has to find out what went wrong."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-10:])
    except OSError:
        return f"there is no {path.name}"


if __name__ == "__main__":
    sys.exit(main())
