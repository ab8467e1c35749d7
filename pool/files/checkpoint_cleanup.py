"""What becomes of checkpoints at a URL when their job has left: which program removes them, and what it is told.

CHECKPOINT_DESTINATION_MAPFILE has a line for each destination whose checkpoints can be removed:

    *   URL-PREFIX   PROGRAM,ARGUMENT,...        the longest prefix counts; \\0 in the last column stands for it
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from pool.classad import ClassAd
from pool.files.checkpoint import destination, stored_at

LOCAL_CLEANER: Final = "cleanup_locally_mounted_checkpoint"
"""The program that comes with the pool, for destinations that this host has mounted."""
JOB_AD: Final = ".job.ad"


def read_map(lines: Iterable[str]) -> list[tuple[str, str]]:
    """The prefixes and their commands, the longest prefix first; lines that are none of these are passed over."""
    found = []
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[0] == "*":
            found.append((words[1], words[2]))
    return sorted(found, key=lambda pair: -len(pair[0]))


def command_for(rules: Iterable[tuple[str, str]], url: str, libexec: str) -> list[str] | None:
    """The program that removes what is at this URL, and its first arguments; None where none is known."""
    for prefix, text in rules:
        if url.startswith(prefix):
            program, *arguments = text.split(",")
            if "/" not in program:
                program = posixpath.join(libexec, program)
            return [program, *(argument.replace("\\0", prefix) for argument in arguments)]
    return None


def removals(job: ClassAd, number: int, names: Iterable[str], job_ad: str) -> Iterator[list[str]]:
    """What the program is told, for each file of a checkpoint. `job_ad`: the file that has the job's ad."""
    base = stored_at(job, number, "").rstrip("/")
    for name in names:
        yield ["-from", base, "-delete", name, "-jobad", job_ad]


def is_at_url(job: ClassAd) -> bool:
    """Whether the job's checkpoints are somewhere that the access point's own directories do not show."""
    return destination(job) is not None
