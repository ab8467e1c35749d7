"""File transfer against cp and rsync on the same disk: one large file, and many small ones, in and out.

A round is a copy with each program, and a job that gets the files as input, copies them and returns the copy; it says
when it begins and when it has copied. The best of some rounds counts, for either side: for minutes after many files
were removed, as those of a sandbox are, ext4 makes new ones ten times as slowly where it meets their places.
What becomes slow beside transfers is `benchmarks/beside.py`'s.

`TRANSFER_MB`, `TRANSFER_FILES` and `TRANSFER_ROUNDS` in the environment scale the suite.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.beside import beside
from benchmarks.measure import Figure, cpu_seconds
from benchmarks.pool_run import Bench, bench

MB: Final = int(os.environ.get("TRANSFER_MB", "4096"))
FILES: Final = int(os.environ.get("TRANSFER_FILES", "10000"))
ROUNDS: Final = int(os.environ.get("TRANSFER_ROUNDS", "5"))
PATIENCE_S: Final = 1800.0
JOB: Final = """executable = /bin/sh
arguments = "-c 'touch {marks}.begun; {script} touch {marks}.done'"
{names}
should_transfer_files = YES
request_disk = {disk}M
log = {marks}.log
queue
"""


def figures() -> Iterator[Figure]:
    """Each way of each load, as a multiple of what cp and rsync take; then what others notice of it."""
    with bench({"NUM_CPUS": "1"}) as pool:
        pool.home.chmod(0o777)
        _job(pool, "warm", "", "")
        idle = min((_job(pool, f"idle{number}", "", "") for number in range(3)), key=lambda both: both[0].wall_s)
        small = _small(pool.home)
        yield from _load(pool, small, f"{FILES} x 1 KiB", idle, Unit("1,000 files", FILES / 1000), ROUNDS)
        large = _large(pool.home)
        yield from _load(pool, large, f"1 x {MB} MiB", idle, Unit("GiB", MB / 1024), 1)
        yield from beside(pool, [large, small], f"one file of {MB} MiB and {FILES} small ones")


class Run(NamedTuple):
    """What something took."""

    wall_s: float
    cpu_s: float

    def less(self, other: Run) -> Run:
        """What is left when this is taken off."""
        return Run(max(self.wall_s - other.wall_s, 0.001), max(self.cpu_s - other.cpu_s, 0.0))


class Unit(NamedTuple):
    """For how much CPU is told, and how many of these there are."""

    name: str
    units: float


def _load(pool: Bench, source: Path, what: str, idle: tuple[Run, Run], unit: Unit, rounds: int) -> Iterator[Figure]:
    programs = [program for program in ("cp", "rsync") if shutil.which(program) is not None]
    copies: dict[str, list[Run]] = {program: [] for program in programs}
    moves: dict[str, list[Run]] = {"input": [], "output": []}
    for number in range(rounds):
        for program in programs:
            copies[program].append(_copied(program, source, pool.home / f"{source.name}.{number}.{program}"))
        made = f"{source.name}.made{number}"
        names = f"transfer_input_files = {source}\ntransfer_output_files = {made}"
        came, went = _job(pool, f"{source.name}{number}", f"cp -r {source.name} {made};", names)
        moves["input"].append(came.less(idle[0]))
        moves["output"].append(went.less(idle[1]))
    for direction, runs in moves.items():
        taken = min(run.wall_s for run in runs)
        for program in programs:
            theirs = min(run.wall_s for run in copies[program])
            how = f"{taken:.2f} s against {theirs:.2f} s of {program}, less what an empty job takes; best of {rounds}"
            yield Figure(f"{direction} of {what}, against {program}", taken / theirs, "times", how)
        used, copied = (min(run.cpu_s for run in of) / unit.units for of in (runs, copies["cp"]))
        how = f"of all of the pool's processes, less what an empty job takes; cp takes {copied:.3f} s"
        yield Figure(f"{direction} of {what}, CPU for each {unit.name}", used, "s", how)
    _remove(pool.home, source.name)


def _job(pool: Bench, name: str, script: str, names: str) -> tuple[Run, Run]:
    """From submit to where the job begins, and from where it has done its work to the end in the log."""
    marks = pool.home / name
    log, begun, done = (marks.with_name(f"{name}.{end}") for end in ("log", "begun", "done"))
    description = JOB.format(script=script, names=names, marks=marks, disk=3 * MB + 1024)
    cpu, at = [cpu_seconds(pool.root)], [time.time()]
    pool.submit(description, cwd=pool.home)
    for mark in (begun, done):
        _until(mark.exists, name)
        cpu.append(cpu_seconds(pool.root))
        at.append(mark.stat().st_mtime)
    _until(lambda: "Job terminated." in log.read_text(), name)
    cpu.append(cpu_seconds(pool.root))
    at.append(time.time())
    return Run(at[1] - at[0], cpu[1] - cpu[0]), Run(at[3] - at[2], cpu[3] - cpu[2])


def _until(come: Callable[[], bool], name: str) -> None:
    began = time.perf_counter()
    while not come():
        if time.perf_counter() - began > PATIENCE_S:
            raise TimeoutError(f"{name} does not go on")
        time.sleep(0.005)


def _copied(program: str, source: Path, target: Path) -> Run:
    argv = {"cp": ["cp", "-r"], "rsync": ["rsync", "-a"]}[program]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*argv, str(source), str(target)], check=True)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


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


def _remove(home: Path, name: str) -> None:
    """What was made of a load."""
    for path in home.glob(f"{name}.*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
