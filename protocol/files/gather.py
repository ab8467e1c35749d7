"""Files and directories that are to move become a list of entries, directories walked."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pool.files.transfer import InputItem
from protocol.messages.agent import FileEntry

ENTRIES_MAX = 1_000_000
DEPTH_MAX = 200


@dataclass(frozen=True)
class Gathered:
    """The entries in order, and where each regular file is."""

    entries: list[FileEntry]
    sources: dict[str, str]


def gather(items: Iterable[InputItem]) -> Gathered:
    """All files of these. OSError (with its path) when one is missing or cannot be read."""
    entries: dict[str, FileEntry] = {}
    sources: dict[str, str] = {}
    for item in items:
        for entry, source in _expand(item):
            entries[entry.name] = entry  # a later one of the same name replaces the earlier
            if entry.kind == "file":
                sources[entry.name] = source
        if len(entries) > ENTRIES_MAX:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), item.source)
    return Gathered(list(entries.values()), sources)


def _expand(item: InputItem) -> Iterator[tuple[FileEntry, str]]:
    try:
        status = os.stat(item.source)
    except ValueError:  # no file can have such a name
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), item.source) from None
    if stat.S_ISDIR(status.st_mode):
        yield from _parents(item.name if not item.contents else f"{item.name}/x" if item.name else "")
        if not item.contents:
            yield _directory(item.name, status), item.source
        yield from _walk(item.source, "" if item.contents and not item.name else item.name, 0)
        return
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", item.source)
    # Before anything is sent: a job is better held for its first missing file than in the middle of the others.
    if not os.access(item.source, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), item.source)
    yield from _parents(item.name)
    mode = stat.S_IMODE(status.st_mode) | (0o755 if item.program else 0)
    yield file_entry(item.name, status, mode), item.source


def _parents(name: str) -> Iterator[tuple[FileEntry, str]]:
    """The directories above a name that keeps its relative path."""
    parts = name.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        yield FileEntry(name="/".join(parts[:count]), mode=0o755, kind="dir"), ""


def file_entry(name: str, status: os.stat_result, mode: int) -> FileEntry:
    """A regular file. All fields are given: to fill in defaults for each of ten thousand takes a while."""
    return FileEntry(
        name=name,
        size=status.st_size,
        mode=mode & 0o777,
        kind="file",
        target="",
        data=None,
        mtime=status.st_mtime_ns,
    )


def _directory(name: str, status: os.stat_result) -> FileEntry:
    return FileEntry(name=name, mode=stat.S_IMODE(status.st_mode) & 0o777 | 0o700, kind="dir")


def _walk(path: str, name: str, depth: int) -> Iterator[tuple[FileEntry, str]]:
    """What is in a directory. Links to files are followed; links to directories, sockets, pipes and devices stay."""
    if depth > DEPTH_MAX:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    with os.scandir(path) as found:
        inner = sorted(found, key=lambda entry: entry.name)
    prefix = f"{name}/" if name else ""
    for entry in inner:
        below = prefix + entry.name
        # A link to a directory may lead anywhere, and round in a circle (file transfer in the manual leaves them out,
        # too).
        if entry.is_symlink() and not entry.is_file():
            continue
        status = entry.stat()
        if stat.S_ISREG(status.st_mode):
            yield file_entry(below, status, status.st_mode), entry.path
        elif stat.S_ISDIR(status.st_mode):
            yield _directory(below, status), entry.path
            yield from _walk(entry.path, below, depth + 1)
