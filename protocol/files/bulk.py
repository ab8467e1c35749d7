"""File bytes, on a connection of their own between a starter and a file agent.

The two sides have agreed by messages on which files follow, and how long each is; then for each file one calls
`send_file` and the other `receive_file`, in the same order. Memory is constant, reading and writing happen in threads,
and a CRC-32 guards each file. After an error that a file causes on either side both are still in step: the rest of the
file is skipped, and the next may follow.

On one host the sender may hand the open file over instead (`Peer.bulk.hand_over`): then no byte passes through either
side, the receiver has the kernel copy it (`protocol/files/file_copy.py`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from pool.base.errors import PeerError
from protocol.files.file_copy import FileChanged, begin_copy, copy_piece, is_new_space
from protocol.rpc.events import Bulk, BulkEnded, BulkFailed, BulkHanded
from protocol.rpc.peer import Peer

CHUNK_BYTES: Final = 256 * 1024
READ_BYTES: Final = 4 * CHUNK_BYTES
"""How much is read at once: each time costs a way to a thread and back."""
_ZEROS: Final = bytes(CHUNK_BYTES)

RunSync = Callable[..., Awaitable[Any]]
"""Runs a function where it may block, such as `trio.to_thread.run_sync`."""


async def send_file(peer: Peer, descriptor: int, size: int, *, run_sync: RunSync = trio.to_thread.run_sync) -> int:
    """Send `size` bytes of an open file from where it stands; returns their CRC-32.

    OSError or FileChanged when it cannot be read to its end; the receiver then gets a PeerError that says so.
    """
    left, crc = size, 0
    try:
        while left:
            data, crc = await run_sync(_read, descriptor, min(left, READ_BYTES), crc)
            if not data:
                raise FileChanged(f"the file ends {left} bytes early", expected=f"{size} bytes")
            # Views, so that cutting into frames copies nothing.
            view = memoryview(data)
            for at in range(0, len(data), CHUNK_BYTES):
                await peer.bulk.send(view[at : at + CHUNK_BYTES])
            left -= len(data)
    except (OSError, FileChanged) as error:
        await peer.bulk.fail(str(error))
        raise
    await peer.bulk.end(size, crc)
    return crc


def _nothing() -> None:
    """What is done after each piece, if nothing is."""


async def receive_file(
    peer: Peer,
    descriptor: int,
    size: int,
    *,
    run_sync: RunSync = trio.to_thread.run_sync,
    after_piece: Callable[[], None] = _nothing,
) -> int:
    """Write the `size` bytes that follow to an open file, from where it stands; returns their CRC-32 (0: handed over).

    OSError when they cannot be written, PeerError when they are not as promised; ConnectionLost.
    """
    received, crc = 0, 0
    fault: OSError | None = None
    write = _write_sparse if is_new_space(descriptor) else _write
    while True:
        match await peer.bulk.next():
            case Bulk(data):
                received += len(data)
                if received > size:
                    raise PeerError(f"more bytes than were announced: {received}", expected=f"{size}")
                if fault is None:
                    try:
                        # A full disk, or one that is gone, stops the writing but not the reading: the next file must
                        # begin where it should.
                        crc = await run_sync(write, descriptor, data, crc)
                        after_piece()
                    except OSError as error:
                        fault = error  # what follows of this file is passed over
            # Only in the place of all bytes: a file that begins on one way does not end on another.
            case BulkHanded(said_size, file) if not received:
                if said_size != size:
                    raise PeerError(f"a file of {said_size} bytes", expected=f"{size}")
                try:
                    await _copy(file.descriptor, descriptor, size, run_sync, after_piece)
                finally:
                    file.close()
                return 0
            case BulkFailed(message):
                raise fault or PeerError(f"the sender cannot read the file: {message}")
            case BulkEnded(said_size, said_crc):
                if fault is not None:
                    raise fault
                if received != size or said_size != size:
                    raise PeerError(f"a file of {received} bytes", expected=f"{size}")
                if said_crc != crc:
                    raise PeerError("the file's bytes were changed on their way (CRC-32)")
                return crc


async def _copy(source: int, target: int, size: int, run_sync: RunSync, after_piece: Callable[[], None]) -> None:
    """All of a file that was handed over, but for what is there already."""
    at, end, way = begin_copy(source, target, size)
    while at < end:
        at, way = await run_sync(copy_piece, source, target, at, end, way)
        after_piece()


def _read(descriptor: int, count: int, crc: int) -> tuple[bytes, int]:
    data = os.read(descriptor, count)
    return data, zlib.crc32(data, crc)


def _write(descriptor: int, data: bytes | memoryview, crc: int) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return zlib.crc32(data, crc)


def _write_sparse(descriptor: int, data: bytes | memoryview, crc: int) -> int:
    """The same for a file that is new: zeros are left out, and take neither time nor place on the disk."""
    # A few bytes tell nearly always; to compare all of each piece would cost as much as to write it.
    if len(data) == CHUNK_BYTES and bytes(data[:64]) == _ZEROS[:64] and bytes(data) == _ZEROS:
        os.ftruncate(descriptor, os.lseek(descriptor, CHUNK_BYTES, os.SEEK_CUR))
        return zlib.crc32(data, crc)
    return _write(descriptor, data, crc)
