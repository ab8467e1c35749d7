"""Many files between a starter and a file agent, over `protocol.bulk`: one after another, in the order of a list.

Small files are in the list itself: to stream one costs both sides more than to send it.

A file that cannot be read or written costs itself only: both sides stay in step, the others still move, and the first
trouble is what is told at the end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import trio

from pool.errors import PeerError, PoolError
from protocol.bulk import FileChanged, RunSync, receive_file, send_file
from protocol.message import replace
from protocol.messages.agent import FileEntry
from protocol.rpc import ConnectionLost, Peer

SMALL_BYTES_MAX: Final = 64 * 1024
LIST_BYTES_MAX: Final = 1024 * 1024
"""What the small files of one list may have together, each counted as a page more than it has."""
PAGE_BYTES: Final = 4096


class FileTrouble(PoolError):
    """A file could not be read or written; `number` is the errno."""

    def __init__(self, doing: str, path: str, number: int, said: str = "") -> None:
        super().__init__(f"{doing} {path}: " + (said or f"(errno {number}) {os.strerror(number)}"))
        self.number = number


async def in_place(fn: Callable[..., Any], *args: Any) -> Any:
    """Run `fn` here: for a process that may wait for its own disk, and must stay free of threads."""
    result = fn(*args)
    await trio.lowlevel.checkpoint()
    return result


def regular(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """Those whose bytes follow the list."""
    return [entry for entry in entries if entry.kind == "file" and entry.data is None]


def with_small(entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]) -> list[FileEntry]:
    """The list, with the small files in it. One that cannot be read is left to `send_files`, which says so."""
    made: list[FileEntry] = []
    left = LIST_BYTES_MAX
    for entry in entries:
        data = None
        if entry.kind == "file" and entry.size <= min(SMALL_BYTES_MAX, left - PAGE_BYTES):
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
            trouble = trouble or _trouble("writing to file", entry.name, error)
    return trouble


async def send_files(
    peer: Peer, entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int], run_sync: RunSync = in_place
) -> FileTrouble | None:
    """Send the bytes of each; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    for entry in regular(entries):
        try:
            fd = open_file(entry)
        except OSError as error:
            await peer.fail_bulk(error.strerror or str(error))
            trouble = trouble or _trouble("reading from file", entry.name, error)
            continue
        try:
            await send_file(peer, fd, entry.size, run_sync=run_sync)
        except OSError as error:
            trouble = trouble or _trouble("reading from file", entry.name, error)
        except FileChanged as error:
            trouble = trouble or FileTrouble("reading from file", entry.name, errno.EIO, str(error))
        finally:
            os.close(fd)
    return trouble


async def receive_files(
    peer: Peer, entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int], run_sync: RunSync = in_place
) -> FileTrouble | None:
    """Take the bytes of each into the descriptor that `open_file` gives; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    for entry in regular(entries):
        try:
            fd = open_file(entry)
        except OSError as error:
            trouble = trouble or _trouble("writing to file", entry.name, error)
            fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # its bytes come all the same
        try:
            await receive_file(peer, fd, entry.size, run_sync=run_sync)
        except OSError as error:
            trouble = trouble or _trouble("writing to file", entry.name, error)
        except ConnectionLost:
            raise
        except PeerError as error:
            trouble = trouble or FileTrouble("receiving file", entry.name, errno.EIO, str(error))
        finally:
            os.close(fd)
    return trouble


def _trouble(doing: str, path: str, error: OSError) -> FileTrouble:
    return FileTrouble(doing, path, error.errno or errno.EIO)
