"""The user's end of streamed standard files: pieces are written to their places, and read from theirs."""

from __future__ import annotations

import os
import stat
from typing import Final

from daemons.agent.bounds import Bounds
from pool.classad import ClassAd
from pool.errors import PeerError, UserError
from pool.execute.transfer import streamed_input, streamed_to
from protocol.messages.agent import ReadStream, StreamPiece, WriteStream

PIECE_MAX: Final = 1024 * 1024


def write_piece(job: ClassAd, bounds: Bounds, request: WriteStream) -> None:
    """Put a piece where it belongs, once or again; UserError names the file that cannot be written. Blocks."""
    path = streamed_to(job, request.name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC | (os.O_TRUNC if request.begins else 0)
    try:
        fd = os.open(bounds.real(path), flags, 0o644)
        try:
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


def read_piece(job: ClassAd, bounds: Bounds, request: ReadStream) -> StreamPiece:
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
