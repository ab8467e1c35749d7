"""Many files between a starter and a file agent, over `protocol.bulk`: one after another, in the order of a list.

Small files are in the list itself: to stream one costs both sides more than to send it.

A file that cannot be read or written costs itself only: both sides stay in step, the others still move, and the first
trouble is what is told at the end. A cut connection costs what was on its way: the next attempt goes on from there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import trio

from pool.errors import PeerError
from protocol.bulk import FileChanged, RunSync, receive_file, send_file
from protocol.file_list import FileTrouble, regular, trouble_of
from protocol.messages.agent import FileEntry, Partial
from protocol.rpc import ConnectionLost, Peer


async def in_place(fn: Callable[..., Any], *args: Any) -> Any:
    """Run `fn` here: for a process that may wait for its own disk, and must stay free of threads."""
    result = fn(*args)
    await trio.lowlevel.checkpoint()
    return result


async def send_files(
    peer: Peer,
    entries: Iterable[FileEntry],
    open_file: Callable[[FileEntry], int],
    run_sync: RunSync = in_place,
    *,
    have: Mapping[str, int] | None = None,
) -> FileTrouble | None:
    """Send the bytes of each, less what the other side has already; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    for entry, start in still_to_move(entries, have or {}):
        try:
            fd = open_file(entry)
        except OSError as error:
            await peer.fail_bulk(error.strerror or str(error))
            trouble = trouble or trouble_of("reading from file", entry.name, error)
            continue
        try:
            os.lseek(fd, start, os.SEEK_SET)
            await send_file(peer, fd, entry.size - start, run_sync=run_sync)
        except OSError as error:
            trouble = trouble or trouble_of("reading from file", entry.name, error)
        except FileChanged as error:
            trouble = trouble or FileTrouble("reading from file", entry.name, errno.EIO, str(error))
        finally:
            os.close(fd)
    return trouble


async def receive_files(
    peer: Peer,
    entries: Iterable[FileEntry],
    open_file: Callable[[FileEntry], int],
    run_sync: RunSync = in_place,
    *,
    have: Mapping[str, int] | None = None,
    came: dict[str, Partial] | None = None,
) -> FileTrouble | None:
    """Take the bytes of each into the descriptor that `open_file` gives; the first trouble with any of them.

    A file of which there is something in `have` is opened with that in it. `came` learns how far each file got.
    """
    trouble: FileTrouble | None = None
    for entry, start in still_to_move(entries, have or {}):
        try:
            fd = open_file(entry)
            if start:
                if os.fstat(fd).st_size < start:
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), entry.name)  # somebody took it away
                os.ftruncate(fd, start)
                os.lseek(fd, start, os.SEEK_SET)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
            fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # its bytes come all the same
        try:
            await receive_file(peer, fd, entry.size - start, run_sync=run_sync)
            _note(came, entry, entry.size)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
        except ConnectionLost:
            _note(came, entry, os.fstat(fd).st_size)
            raise
        except PeerError as error:
            trouble = trouble or FileTrouble("receiving file", entry.name, errno.EIO, str(error))
        finally:
            os.close(fd)
    return trouble


def still_to_move(entries: Iterable[FileEntry], have: Mapping[str, int]) -> Iterator[tuple[FileEntry, int]]:
    """The files whose bytes follow, and from where on."""
    for entry in regular(entries):
        start = have.get(entry.name, 0)
        if not start or start < entry.size:
            yield entry, start


def acceptable(came: Mapping[str, Partial], entries: Iterable[FileEntry]) -> dict[str, int]:
    """How many bytes of these files are there already, as far as the files are what they were."""
    return {
        entry.name: known.have
        for entry in regular(entries)
        if (known := came.get(entry.name)) is not None
        and entry.mtime
        and (known.size, known.mtime) == (entry.size, entry.mtime)
        and 0 < known.have <= entry.size
    }


def _note(came: dict[str, Partial] | None, entry: FileEntry, have: int) -> None:
    if came is not None and have:
        came[entry.name] = Partial(name=entry.name, have=have, size=entry.size, mtime=entry.mtime)
