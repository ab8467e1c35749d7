"""File bytes between a tool and a file agent: `protocol.bulk` without an event loop."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from pool.errors import PeerError
from protocol.blocking import BlockingPeer
from protocol.events import Bulk, BulkEnded, BulkFailed
from protocol.file_list import FileTrouble, regular, trouble_of
from protocol.messages.agent import FileEntry

CHUNK_BYTES: Final = 256 * 1024


def send_files(
    peer: BlockingPeer, entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]
) -> FileTrouble | None:
    """Send the bytes of those that are not in their list; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    for entry in regular(entries):
        try:
            fd = open_file(entry)
        except OSError as error:
            peer.fail_bulk(error.strerror or str(error))
            trouble = trouble or trouble_of("reading from file", entry.name, error)
            continue
        try:
            _send(peer, fd, entry)
        except OSError as error:
            peer.fail_bulk(str(error))
            trouble = trouble or trouble_of("reading from file", entry.name, error)
        except FileTrouble as error:
            peer.fail_bulk(str(error))
            trouble = trouble or error
        finally:
            os.close(fd)
    return trouble


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


def receive_files(
    peer: BlockingPeer, entries: Iterable[FileEntry], open_file: Callable[[FileEntry], int]
) -> FileTrouble | None:
    """Take the bytes of those that are not in their list; the first trouble with any of them."""
    trouble: FileTrouble | None = None
    for entry in regular(entries):
        try:
            fd = open_file(entry)
        except OSError as error:
            trouble = trouble or trouble_of("writing to file", entry.name, error)
            fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # its bytes come all the same
        try:
            trouble = _receive(peer, fd, entry) or trouble
        finally:
            os.close(fd)
    return trouble


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
