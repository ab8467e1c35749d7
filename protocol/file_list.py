"""Lists of files on their way: small ones are in the list itself, since to stream one costs both sides more.

Neither side needs an event loop for this part; the bytes that follow a list are `protocol.bulk`'s in daemons, and
`protocol.blocking_files`' in tools.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import Final

from pool.errors import PoolError
from protocol.message import replace
from protocol.messages.agent import FileEntry

SMALL_BYTES_MAX: Final = 64 * 1024
LIST_BYTES_MAX: Final = 1024 * 1024
"""What the small files of one list may have together, each counted as a page more than it has."""
PAGE_BYTES: Final = 4096


class FileTrouble(PoolError):
    """A file could not be read or written; `number` is the errno."""

    def __init__(self, doing: str, path: str, number: int, said: str = "") -> None:
        super().__init__(f"{doing} {path}: " + (said or f"(errno {number}) {os.strerror(number)}"))
        self.number = number


def regular(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """Those whose bytes follow the list."""
    return [entry for entry in entries if entry.kind == "file" and entry.data is None]


def with_small(entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]) -> list[FileEntry]:
    """The list, with the small files in it. One that cannot be read is left to whoever streams it, which says so."""
    made: list[FileEntry] = []
    left = LIST_BYTES_MAX
    for entry in entries:
        data = None
        if entry.kind == "file" and entry.data is None and entry.size <= min(SMALL_BYTES_MAX, left - PAGE_BYTES):
            data = _bytes_of(entry, open_file)
        if data is not None:
            left -= entry.size + PAGE_BYTES
        made.append(entry if data is None else replace(entry, data=data))
    return made


def _bytes_of(entry: FileEntry, open_file: Callable[[FileEntry], int]) -> bytes | None:
    """All of a file; None when it cannot be read, or is not as long as was said."""
    try:
        fd = open_file(entry)
        try:
            data = os.read(fd, entry.size + 1)
        finally:
            os.close(fd)
    except OSError:
        return None
    return data if len(data) == entry.size else None


def write_small(entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]) -> FileTrouble | None:
    """Write the files that came in the list; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    for entry in entries:
        if entry.kind != "file" or entry.data is None:
            continue
        try:
            fd = open_file(entry)
            try:
                view = memoryview(entry.data)
                while view:
                    view = view[os.write(fd, view) :]
            finally:
                os.close(fd)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
    return trouble


def trouble_of(doing: str, path: str, error: OSError) -> FileTrouble:
    """What an error means for a file."""
    return FileTrouble(doing, path, error.errno or errno.EIO)
