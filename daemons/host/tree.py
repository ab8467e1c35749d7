"""The processes of a job: who they are, what they use, and how to end them all.

The starter is a subreaper: a process whose parent has gone becomes its child, so every descendant of the job is one of
the starter's, in whatever session it hides.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Final

from daemons.base.linux import all_pids, stat_fields
from pool.execute.usage import DiskTraffic, UsageSample

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_IO_BYTES: Final = 4096


def start_ticks(pid: int) -> int | None:
    """When a process was started, in clock ticks since the machine's start: with its number, its name for ever."""
    fields = stat_fields(pid)
    return None if fields is None else int(fields[19])


def sample(pids: Iterable[int]) -> UsageSample:
    """What these processes use now; times include children that they have collected."""
    image = resident = user = system = count = read = written = 0
    for pid in pids:
        fields = stat_fields(pid)
        # A zombie's times come with those of whoever collects it.
        if fields is None or fields[0] == "Z":
            continue
        count += 1
        user += int(fields[11]) + int(fields[13])
        system += int(fields[12]) + int(fields[14])
        image += int(fields[20])
        resident += int(fields[21]) * _PAGE
        traffic = _traffic(pid)
        read, written = read + traffic[0], written + traffic[1]
    return UsageSample(image, resident, user / _TICKS, system / _TICKS, count, DiskTraffic(read, written))


def memory(pids: Iterable[int], limit: int) -> int:
    """How many bytes of memory these processes have. Pages that they share count once; that costs more to find out,
    and is done where `limit` is exceeded otherwise."""
    resident = {pid: _resident(pid) for pid in pids}
    if sum(resident.values()) <= limit:
        return sum(resident.values())
    return sum(_proportional(pid, size) for pid, size in resident.items())


def _resident(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[21]) * _PAGE if fields is not None else 0


def _proportional(pid: int, resident: int) -> int:
    """Its proportional set size; the resident one where that cannot be seen."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            # Pss divides each shared page among those that share it (Linux 4.14 has the sum in one file).
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    except (OSError, StopIteration):
        return resident


def _traffic(pid: int) -> tuple[int, int]:
    """How many bytes a process has had read from disks, and written to them."""
    try:
        with open(f"/proc/{pid}/io", "rb", buffering=0) as file:
            fields = dict(line.split(b": ") for line in file.read(_IO_BYTES).splitlines())
        return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])
    except (OSError, KeyError, ValueError):  # it has gone, or is somebody else's
        return 0, 0


def send(pids: Iterable[int], signum: int) -> int:
    """Send a signal to each; how many there were to receive it."""
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, signum)
            sent += 1
        except (ProcessLookupError, PermissionError):
            continue
    return sent


def stop_all(everybody: Callable[[], set[int]]) -> None:
    """Stop everybody, until nobody new appears (somebody may have been forking)."""
    stopped: set[int] = set()
    # Who was stopped cannot fork: this ends.
    while new := everybody() - stopped:
        send(new, signal.SIGSTOP)
        stopped |= new


def marked(mark: bytes) -> set[int]:
    """Processes whose environment has the variable `mark` (`NAME=value`), by which orphans are found."""
    found: set[int] = set()
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.add(pid)
        except OSError:
            continue
    return found
