"""What is mounted where, as this process sees it: /proc/self/mountinfo, read (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
from typing import NamedTuple

from pool.hosts.mounts import as_path


class Mount(NamedTuple):
    """One mount: its device's number (MAJOR:MINOR), where it is, its file system's type, and what is mounted."""

    device: str
    point: str
    kind: str
    source: str


def mount_lines() -> list[str]:
    """The lines as the kernel writes them, oldest mount first."""
    with open("/proc/self/mountinfo", "rb", buffering=0) as file:
        return os.fsdecode(file.readall()).split("\n")[:-1]


def mounts() -> list[Mount]:
    """All mounts, oldest first: of two at one place the later one is seen."""
    return [_mount(line.split(" ")) for line in mount_lines()]


def _mount(fields: list[str]) -> Mount:
    rest = fields[fields.index("-") + 1 :]  # the fields before it are of no fixed number
    return Mount(fields[2], as_path(fields[4]), rest[0], as_path(rest[1]))


def mounted_below(directory: str) -> list[str]:
    """Where something is mounted in a directory or on it, the innermost first."""
    found = [as_path(line.split(" ", 5)[4]) for line in mount_lines()]
    return [point for point in reversed(found) if point == directory or point.startswith(directory + "/")]
