"""File bytes between a tool and a file agent: `protocol.files.bulk` without an event loop."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from pool.base.errors import PeerError
from protocol.files.file_list import FileTrouble, packs, read_pack, still_to_move, trouble_of, write_pack
from protocol.messages.agent import FileEntry
from protocol.rpc.blocking import BlockingPeer
from protocol.rpc.events import Bulk, BulkEnded, BulkFailed

CHUNK_BYTES: Final = 256 * 1024
Pack = list[tuple[FileEntry, int]]


def send_files(
    peer: BlockingPeer, entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]
) -> FileTrouble | None:
    """Send the bytes of those that are not in their list; the first trouble with any of them."""
    return _each(
        entries, lambda entry: _send_one(peer, entry, open_file), lambda pack: _send_pack(peer, pack, open_file)
    )


def receive_files(
    peer: BlockingPeer, entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]
) -> FileTrouble | None:
    """Take the bytes of those that are not in their list; the first trouble with any of them."""
    return _each(
        entries, lambda entry: _receive_one(peer, entry, open_file), lambda pack: _receive_pack(peer, pack, open_file)
    )


def _each(
    entries: Iterable[FileEntry],
    one: Callable[[FileEntry], FileTrouble | None],
    together: Callable[[Pack], FileTrouble | None],
) -> FileTrouble | None:
    """Move all of them, whatever becomes of each: both sides stay in step."""
    trouble: FileTrouble | None = None
    for pack in packs(still_to_move(entries, {})):
        said = together(pack) if len(pack) > 1 else one(pack[0][0])
        trouble = trouble or said
    return trouble


def _send_one(peer: BlockingPeer, entry: FileEntry, open_file: Callable[[FileEntry], int]) -> FileTrouble | None:
    try:
        fd = open_file(entry)
    except OSError as error:
        peer.fail_bulk(error.strerror or str(error))
        return trouble_of("reading from file", entry.name, error)
    try:
        _send(peer, fd, entry)
    except OSError as error:
        peer.fail_bulk(str(error))
        return trouble_of("reading from file", entry.name, error)
    except FileTrouble as error:
        peer.fail_bulk(str(error))
        return error
    finally:
        os.close(fd)
    return None


def _receive_one(peer: BlockingPeer, entry: FileEntry, open_file: Callable[[FileEntry], int]) -> FileTrouble | None:
    trouble: FileTrouble | None = None
    try:
        fd = open_file(entry)
    except OSError as error:
        trouble = trouble_of("writing to file", entry.name, error)
        fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # its bytes come all the same
    try:
        said = _receive(peer, fd, entry)
    finally:
        os.close(fd)
    return trouble or said


def _send_pack(peer: BlockingPeer, pack: Pack, open_file: Callable[[FileEntry], int]) -> FileTrouble | None:
    try:
        data = read_pack(pack, open_file)
    except FileTrouble as error:
        peer.fail_bulk(str(error))
        return error
    # In frames of this size, as from a starter: the agent reads no longer ones.
    for at in range(0, len(data), CHUNK_BYTES):
        peer.send_bulk(data[at : at + CHUNK_BYTES])
    peer.end_bulk(len(data), zlib.crc32(data))
    return None


def _receive_pack(peer: BlockingPeer, pack: Pack, open_file: Callable[[FileEntry], int]) -> FileTrouble | None:
    wanted = sum(entry.size - start for entry, start in pack)
    data, first = b"", pack[0][0].name
    while True:
        match peer.next_bulk():
            case Bulk(piece):
                data += piece
                if len(data) > wanted:
                    raise PeerError(f"more bytes than were announced: {len(data)}", expected=f"{wanted}")
            case BulkFailed(message):
                return FileTrouble("receiving file", first, errno.EIO, f"the sender says: {message}")
            case BulkEnded(_, crc):
                if len(data) != wanted or zlib.crc32(data) != crc:
                    return FileTrouble("receiving file", first, errno.EIO, "the bytes are not as they were sent")
                return write_pack(pack, data, open_file)


def _send(peer: BlockingPeer, fd: int, entry: FileEntry) -> None:
    left, crc = entry.size, 0
    while left:
        data = os.read(fd, min(left, CHUNK_BYTES))
        if not data:
            said = f"the file ends {left} bytes early"
            raise FileTrouble("reading from file", entry.name, errno.EIO, said)
        crc = zlib.crc32(data, crc)
        peer.send_bulk(data)
        left -= len(data)
    peer.end_bulk(entry.size, crc)


def _receive(peer: BlockingPeer, fd: int, entry: FileEntry) -> FileTrouble | None:
    received, crc = 0, 0
    trouble: FileTrouble | None = None
    while True:
        match peer.next_bulk():
            case Bulk(data):
                received += len(data)
                crc = zlib.crc32(data, crc)
                if received > entry.size:
                    raise PeerError(f"more bytes than were announced: {received}", expected=f"{entry.size}")
                view = memoryview(data)
                while view and trouble is None:
                    try:
                        view = view[os.write(fd, view) :]
                    except OSError as error:
                        trouble = trouble_of("writing to file", entry.name, error)
            case BulkFailed(message):
                return trouble or FileTrouble("receiving file", entry.name, errno.EIO, message)
            case BulkEnded(size, said):
                if trouble is None and (received != entry.size or size != entry.size or said != crc):
                    return FileTrouble("receiving file", entry.name, errno.EIO, "the bytes are not as they were sent")
                return trouble
