"""Lists of files on their way: small ones are in the list itself, since to stream one costs both sides more.

Neither side needs an event loop for this part; the bytes that follow a list are `protocol.files.bulk`'s in daemons, and
`protocol.files.blocking_files`' in tools.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from pool.base.errors import PoolError
from protocol.messages.agent import FileEntry
from protocol.wire.message import replace

SMALL_BYTES_MAX: Final = 64 * 1024
LIST_BYTES_MAX: Final = 1024 * 1024
"""What the small files of one list may have together, each counted as a page more than it has."""
PAGE_BYTES: Final = 4096
PACK_BYTES_MAX: Final = 1024 * 1024
"""How many bytes of small files follow the list as one."""


class FileTrouble(PoolError):
    """A file could not be read or written; `number` is the errno."""

    def __init__(self, doing: str, path: str, number: int, said: str = "") -> None:
        super().__init__(f"{doing} {path}: " + (said or f"(errno {number}) {os.strerror(number)}"))
        self.number = number


def regular(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """Those whose bytes follow the list."""
    return [entry for entry in entries if entry.kind == "file" and entry.data is None]


def still_to_move(entries: Iterable[FileEntry], have: Mapping[str, int]) -> Iterator[tuple[FileEntry, int]]:
    """The files whose bytes follow, and from where on."""
    for entry in regular(entries):
        start = have.get(entry.name, 0)
        # A file that came whole before the connection was cut needs nothing more; an empty one has to be made.
        if not start or start < entry.size:
            yield entry, start


def packs(moves: Iterable[tuple[FileEntry, int]]) -> Iterator[list[tuple[FileEntry, int]]]:
    """How they are sent: each large file alone, small ones that come one after another as one run of bytes."""
    pack: list[tuple[FileEntry, int]] = []
    size = 0
    for entry, start in moves:
        # Both sides cut the list into packs by the same rule: nothing on the wire says where one ends.
        small = entry.size <= SMALL_BYTES_MAX
        if pack and (not small or size + entry.size > PACK_BYTES_MAX):
            yield pack
            pack, size = [], 0
        if small:
            pack.append((entry, start))
            size += entry.size - start
        else:
            yield [(entry, start)]
    if pack:
        yield pack


def read_pack(pack: Iterable[tuple[FileEntry, int]], open_file: Callable[[FileEntry], int]) -> bytes:
    """The bytes of a pack; FileTrouble names the first file that cannot be read whole."""
    pieces: list[bytes] = []
    for entry, start in pack:
        try:
            fd = open_file(entry)
            try:
                data = os.pread(fd, entry.size - start, start)
            finally:
                os.close(fd)
        except OSError as error:
            raise trouble_of("reading from file", entry.name, error) from None
        if len(data) != entry.size - start:
            said = f"the file ends {entry.size - start - len(data)} bytes early"
            raise FileTrouble("reading from file", entry.name, errno.EIO, said)
        pieces.append(data)
    return b"".join(pieces)


def write_pack(
    pack: Iterable[tuple[FileEntry, int]], data: bytes, open_file: Callable[[FileEntry], int]
) -> FileTrouble | None:
    """Write each file of a pack; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    view = memoryview(data)
    for entry, start in pack:
        own, view = view[: entry.size - start], view[entry.size - start :]
        try:
            fd = open_file(entry)
            try:
                if start:
                    os.ftruncate(fd, start)
                while own:
                    written = os.pwrite(fd, own, start) if start else os.write(fd, own)
                    own, start = own[written:], start + written if start else 0
            finally:
                os.close(fd)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
    return trouble


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
            # One byte more than was said: a file that has grown meanwhile is told from one that has not.
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
