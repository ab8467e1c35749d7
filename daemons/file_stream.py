"""Many files between a starter and a file agent, over `protocol.bulk`: one after another, in the order of a list.

Small files are in the list itself: to stream one costs both sides more than to send it.

A file that cannot be read or written costs itself only: both sides stay in step, the others still move, and the first
trouble is what is told at the end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import Any

import trio

from pool.errors import PeerError
from protocol.bulk import FileChanged, RunSync, receive_file, send_file
from protocol.file_list import FileTrouble, regular, trouble_of
from protocol.messages.agent import FileEntry
from protocol.rpc import ConnectionLost, Peer


async def in_place(fn: Callable[..., Any], *args: Any) -> Any:
    """Run `fn` here: for a process that may wait for its own disk, and must stay free of threads."""
    result = fn(*args)
    await trio.lowlevel.checkpoint()
    return result


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
            trouble = trouble or trouble_of("reading from file", entry.name, error)
            continue
        try:
            await send_file(peer, fd, entry.size, run_sync=run_sync)
        except OSError as error:
            trouble = trouble or trouble_of("reading from file", entry.name, error)
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
            trouble = trouble or trouble_of("writing to file", entry.name, error)
            fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # its bytes come all the same
        try:
            await receive_file(peer, fd, entry.size, run_sync=run_sync)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
        except ConnectionLost:
            raise
        except PeerError as error:
            trouble = trouble or FileTrouble("receiving file", entry.name, errno.EIO, str(error))
        finally:
            os.close(fd)
    return trouble
