"""Many files between a starter and a file agent, over `protocol.files.bulk`: one after another, in the order of a list.

Small files are in the list itself: to stream one costs both sides more than to send it. To a process of the same host
large ones are handed over open.

A file that cannot be read or written costs itself only: both sides stay in step, the others still move, and the first
trouble is what is told at the end. A cut connection costs what was on its way: the next attempt goes on from there.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import trio

from pool.base.errors import PeerError
from protocol.files.bulk import CHUNK_BYTES, RunSync, receive_file, send_file
from protocol.files.file_copy import FileChanged
from protocol.files.file_list import FileTrouble, packs, read_pack, regular, still_to_move, trouble_of, write_pack
from protocol.messages.agent import FileEntry, Partial
from protocol.rpc.endpoints import ConnectionLost, Peer
from protocol.rpc.events import Bulk, BulkEnded, BulkFailed


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
    hands_over: bool = False,
) -> FileTrouble | None:
    """Send the bytes of each, less what the other side has already; the first trouble with any of them.

    `hands_over`: the other side takes open files.
    """
    trouble: FileTrouble | None = None
    for pack in packs(still_to_move(entries, have or {})):
        if len(pack) > 1:
            said = await _send_pack(peer, pack, open_file, run_sync)
            trouble = trouble or said
            continue
        ((entry, start),) = pack
        try:
            fd = open_file(entry)
        except OSError as error:
            await peer.bulk.fail(error.strerror or str(error))
            trouble = trouble or trouble_of("reading from file", entry.name, error)
            continue
        # Closed by the one that takes it; here it is gone with the call.
        if hands_over:
            await peer.bulk.hand_over(fd, entry.size - start)
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
    after_piece: Callable[[], None] = lambda: None,
) -> FileTrouble | None:
    """Take the bytes of each into the descriptor that `open_file` gives; the first trouble with any of them.

    A file of which there is something in `have` is opened with that in it. `came` learns how far each file got;
    `after_piece` is called whenever some more of a large one has come.
    """
    trouble: FileTrouble | None = None
    for pack in packs(still_to_move(entries, have or {})):
        if len(pack) > 1:
            said = await _receive_pack(peer, pack, open_file, run_sync)
            trouble = trouble or said
            for entry, _ in pack if said is None else ():
                _note(came, entry, entry.size)
            continue
        ((entry, start),) = pack
        try:
            fd = open_file(entry)
            if start:
                # To go on where there is nothing would leave a hole that nobody notices.
                if os.fstat(fd).st_size < start:
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), entry.name)  # somebody took it away
                os.ftruncate(fd, start)
                os.lseek(fd, start, os.SEEK_SET)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
            fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # its bytes come all the same
        try:
            await receive_file(peer, fd, entry.size - start, run_sync=run_sync, after_piece=after_piece)
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


async def _send_pack(
    peer: Peer, pack: list[tuple[FileEntry, int]], open_file: Callable[[FileEntry], int], run_sync: RunSync
) -> FileTrouble | None:
    try:
        data: bytes = await run_sync(read_pack, pack, open_file)
    except FileTrouble as error:
        await peer.bulk.fail(str(error))
        return error
    view = memoryview(data)
    for at in range(0, len(data), CHUNK_BYTES):
        await peer.bulk.send(view[at : at + CHUNK_BYTES])
    await peer.bulk.end(len(data), zlib.crc32(data))
    return None


async def _receive_pack(
    peer: Peer, pack: list[tuple[FileEntry, int]], open_file: Callable[[FileEntry], int], run_sync: RunSync
) -> FileTrouble | None:
    wanted = sum(entry.size - start for entry, start in pack)
    pieces: list[bytes | memoryview] = []
    size = 0
    while True:
        match await peer.bulk.next():
            case Bulk(piece):
                pieces.append(piece)
                size += len(piece)
                if size > wanted:
                    raise PeerError(f"more bytes than were announced: {size}", expected=f"{wanted}")
            case BulkFailed(message):
                return FileTrouble("receiving file", pack[0][0].name, errno.EIO, f"the sender says: {message}")
            case BulkEnded(_, crc):
                break
    data = b"".join(pieces)
    if size != wanted or zlib.crc32(data) != crc:
        said = "the bytes are not as they were sent (CRC-32)"
        return FileTrouble("receiving file", pack[0][0].name, errno.EIO, said)
    trouble: FileTrouble | None = await run_sync(write_pack, pack, data, open_file)
    return trouble


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
