"""File transfer against cp and rsync on the same disk: one large file, and many small ones, in and out.

`TRANSFER_MB` and `TRANSFER_FILES` in the environment scale the suite down on a small or busy machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure, cpu_seconds
from benchmarks.pool_run import Bench, bench

MB: Final = int(os.environ.get("TRANSFER_MB", "4096"))
FILES: Final = int(os.environ.get("TRANSFER_FILES", "10000"))
PATIENCE_S: Final = 1800.0
JOB: Final = """executable = /bin/sh
arguments = "-c '{script}'"
{names}
should_transfer_files = YES
request_disk = {disk}M
log = {log}
queue
"""


def figures() -> Iterator[Figure]:
    """Each way of each load, as a multiple of what cp and rsync take."""
    with bench({"NUM_CPUS": "1", "MAX_FILE_TRANSFER_PLUGIN_LIFETIME": "3600"}) as pool:
        pool.home.chmod(0o777)
        _job_s(pool, "warm", "true", "")
        idle = min(_job_s(pool, f"idle{number}", "true", "") for number in range(3))
        yield from _load(pool, "large", _large(pool.home), f"1 x {MB} MiB", idle)
        yield from _load(pool, "small", _small(pool.home), f"{FILES} x 1 KiB", idle)


def _load(pool: Bench, name: str, source: Path, what: str, idle: float) -> Iterator[Figure]:
    copy = pool.home / "copy"
    programs = {"cp": ["cp", "-r", str(source), str(copy)], "rsync": ["rsync", "-a", str(source), str(copy)]}
    others = {}
    for program, argv in programs.items():
        if shutil.which(program) is not None:
            others[program] = _timed(argv)
            _remove(copy)
    before = cpu_seconds(pool.root)
    taken = _job_s(pool, f"{name}-in", "true", f"transfer_input_files = {source}") - idle
    cpu = cpu_seconds(pool.root) - before
    yield from _compared(f"input of {what}", taken, others, f"{cpu:.1f} s of CPU")
    before = cpu_seconds(pool.root)
    made = f"cp -r {source} made && sync made"
    local = _timed(["sh", "-c", f"cd {pool.home} && {made}"])
    _remove(pool.home / "made")
    taken = _job_s(pool, f"{name}-out", made, "transfer_output_files = made") - idle - local
    cpu = cpu_seconds(pool.root) - before
    yield from _compared(
        f"output of {what}", max(taken, 0.001), others, f"{cpu:.1f} s of CPU, copying in the job included"
    )
    for left in (source, pool.home / "made"):
        _remove(left)


def _compared(what: str, taken: float, others: dict[str, float], more: str) -> Iterator[Figure]:
    for program, theirs in others.items():
        how = f"{taken:.2f} s against {theirs:.2f} s of {program}, less what an empty job takes; {more}"
        yield Figure(f"{what}, against {program}", taken / theirs, "times", how, "")


def _job_s(pool: Bench, name: str, script: str, names: str) -> float:
    """From submit to the end in the log."""
    log = pool.home / f"{name}.log"
    description = JOB.format(script=script, names=names, log=log, disk=3 * MB + 1024)
    began = time.perf_counter()
    pool.submit(description, cwd=pool.home)
    while not log.exists() or "Job terminated." not in log.read_text():
        if time.perf_counter() - began > PATIENCE_S:
            raise TimeoutError(f"{name} has not ended:\n{log.read_text() if log.exists() else ''}")
        time.sleep(0.005)
    return time.perf_counter() - began


def _large(home: Path) -> Path:
    """A file without holes, whose bytes no file system finds alike."""
    path, piece = home / "large", os.urandom(1 << 20)
    with open(path, "wb") as file:
        for number in range(MB):
            file.write(number.to_bytes(8, "big"))
            file.write(piece[8:])
    os.chmod(path, 0o644)
    return path


def _small(home: Path) -> Path:
    directory = home / "small"
    directory.mkdir()
    for number in range(FILES):
        (directory / f"f{number}").write_bytes(number.to_bytes(8, "big") * 128)
    return directory


def _timed(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - began


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
