"""The user's end of streamed standard files: pieces are written to their places, and read from theirs."""

from __future__ import annotations

import os
import stat
from typing import Final

import trio

from daemons.agent.bounds import DirectoryBounds, JobOf
from pool.base.errors import PeerError, UserError
from pool.classad import ClassAd
from pool.files.transfer import streamed_input, streamed_to
from protocol.messages.agent import ReadStream, StreamPiece, WriteStream
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

PIECE_MAX: Final = 1024 * 1024


class Streams:
    """Answers starters. `job_of`: the job that a starter with its ticket runs, and where its files may be."""

    def __init__(self, job_of: JobOf) -> None:
        self._job_of = job_of

    def answers(self) -> list[Answer]:
        """What starters send and ask for."""
        return [answer(WriteStream, self.write), answer(ReadStream, self.read)]

    async def write(self, peer: Peer, request: WriteStream) -> Done:
        """A piece of the job's output, while it runs."""
        job, bounds = self._job_of(peer, request.activation)
        await trio.to_thread.run_sync(write_piece, job, bounds, request)
        return DONE

    async def read(self, peer: Peer, request: ReadStream) -> StreamPiece:
        """A piece of the job's input, while it runs."""
        job, bounds = self._job_of(peer, request.activation)
        return await trio.to_thread.run_sync(read_piece, job, bounds, request)


def write_piece(job: ClassAd, bounds: DirectoryBounds, request: WriteStream) -> None:
    """Put a piece where it belongs, once or again; UserError names the file that cannot be written. Blocks."""
    path = streamed_to(job, request.name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC | (os.O_TRUNC if request.begins else 0)
    try:
        fd = os.open(bounds.real(path), flags, 0o644)
        try:
            # A terminal or a pipe has no places: there a piece that comes twice shows twice.
            seekable = stat.S_ISREG(os.fstat(fd).st_mode)
            left, at = memoryview(request.data), request.at
            while left:
                written = os.pwrite(fd, left, at) if seekable else os.write(fd, left)
                left, at = left[written:], at + written
        finally:
            os.close(fd)
    except ValueError as error:  # no file can have such a name
        raise UserError(f"cannot write {path!r}: {error}") from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror} (errno {error.errno})") from None


def read_piece(job: ClassAd, bounds: DirectoryBounds, request: ReadStream) -> StreamPiece:
    """A piece of the input. Blocks."""
    path = streamed_input(job)
    if path is None:
        raise PeerError("the input of this job is not streamed")
    try:
        fd = os.open(bounds.real(path), os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return StreamPiece(data=os.pread(fd, min(max(0, request.size), PIECE_MAX), request.at))
        finally:
            os.close(fd)
    except ValueError as error:
        raise UserError(f"cannot read {path!r}: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror} (errno {error.errno})") from None
