"""Files where they are (want_remote_io) beside files that are transferred: one large file, and many small ones.

A job reads a large file from its beginning to its end, another writes one, another reads many small files; each once by
remote I/O and once with the files transferred. Of rates what an empty job takes is taken off. `REMOTE_IO_MB`,
`REMOTE_IO_FILES` and `REMOTE_IO_ROUNDS` in the environment scale the suite; the best of the rounds counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.measure import Figure, cpu_seconds
from benchmarks.pool_run import Bench, bench

MB: Final = int(os.environ.get("REMOTE_IO_MB", "1024"))
FILES: Final = int(os.environ.get("REMOTE_IO_FILES", "1000"))
ROUNDS: Final = int(os.environ.get("REMOTE_IO_ROUNDS", "3"))
PATIENCE_S: Final = 600.0
JOB: Final = """executable = /bin/sh
arguments = "-c '{script}'"
{how}
output = {name}.out
error = {name}.err
request_disk = {disk}M
log = {name}.log
queue
"""
REMOTE: Final = "want_remote_io = true"
TRANSFERRED: Final = "should_transfer_files = YES\ntransfer_input_files = {inputs}"


class Work(NamedTuple):
    """What a job does: its script, what that needs, what comes back."""

    name: str
    script: str
    inputs: str
    amount: float
    unit: str


def figures() -> Iterator[Figure]:
    """How fast, and how much longer than with transfers."""
    works = (
        Work(f"read {MB} MiB in order", "cat large > /dev/null", "large", MB, "MiB/s"),
        Work(f"write {MB} MiB", f"head -c {MB}M /dev/zero > made", "", MB, "MiB/s"),
        Work(f"read {FILES} files of 1 KiB", "cat small/* > /dev/null", "small", FILES, "files/s"),
    )
    with bench({"NUM_CPUS": "1"}) as pool:
        pool.home.chmod(0o777)
        _make(pool.home)
        _timed(pool, "warm", "true", REMOTE)
        idle = min(_timed(pool, f"idle{number}", "true", REMOTE)[0] for number in range(3))
        for number, work in enumerate(works):
            yield from _compared(pool, f"work{number}", work, idle)


def _compared(pool: Bench, name: str, work: Work, idle: float) -> Iterator[Figure]:
    ways: dict[str, list[tuple[float, float]]] = {REMOTE: [], TRANSFERRED: []}
    for number in range(ROUNDS):
        for at, (how, taken) in enumerate(ways.items()):
            wall_s, cpu_s = _timed(pool, f"{name}.{number}.{at}", work.script, how.format(inputs=work.inputs))
            taken.append((wall_s, cpu_s))
    (remote, remote_cpu), (moved, moved_cpu) = (min(taken) for taken in ways.values())
    how = f"{remote:.2f} s, {idle:.2f} s of it an empty job's; {remote_cpu:.2f} s of processor time; best of {ROUNDS}"
    yield Figure(f"remote I/O, {work.name}", work.amount / max(remote - idle, 0.001), work.unit, how)
    how = f"{moved:.2f} s with transfer, {moved_cpu:.2f} s of processor time"
    yield Figure(f"remote I/O, {work.name}, against transfer", remote / moved, "times", how)


def _make(home: Path) -> None:
    piece = os.urandom(1 << 20)
    with open(home / "large", "wb") as file:
        for number in range(MB):
            file.write(number.to_bytes(8, "big") + piece[8:])
    (home / "small").mkdir()
    for number in range(FILES):
        (home / "small" / f"f{number}").write_bytes(number.to_bytes(8, "big") * 128)


def _timed(pool: Bench, name: str, script: str, how: str) -> tuple[float, float]:
    """From submit to the end in the log, and the processor time of all of the pool's processes."""
    log = pool.home / f"{name}.log"
    cpu, began = cpu_seconds(pool.root), time.perf_counter()
    pool.submit(JOB.format(script=script, how=how, name=name, disk=2 * MB + 1024), cwd=pool.home)
    while not log.exists() or "Job terminated." not in (text := log.read_text()):
        if time.perf_counter() - began > PATIENCE_S:
            raise TimeoutError(f"{name} does not end")
        time.sleep(0.005)
    wall_s = time.perf_counter() - began
    if "return value 0" not in text:
        raise RuntimeError(f"{name} failed: {(pool.home / f'{name}.err').read_text()}")
    return wall_s, cpu_seconds(pool.root) - cpu
