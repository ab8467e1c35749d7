"""Append events to users' logs, each whole or not at all, under the lock that HTCondor's readers and writers take.

An event that may have been written before a crash is looked for in the log's tail first; what a crash left of it is
completed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from functools import partial
from itertools import groupby
from typing import Final

import trio

from daemons.agent.trusted_path import real
from daemons.base.writing import append_whole
from pool.base.errors import UserError
from pool.jobs.userlog.recovery import TAIL_BYTES, missing
from protocol.messages.agent import AppendEvents, LogEvent
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done

LOCK_PAUSE_S: Final = 0.02
LOG_MODE: Final = 0o664
# O_NONBLOCK, so that a log that is a pipe without a reader fails to open instead of holding up everybody's events.
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LogBusy(Exception):
    """Somebody else holds the lock of a log; try again."""


class EventLogs:
    """Appends events; batches wait for one another, so that each log keeps the schedd's order."""

    def __init__(self, fsync: bool, lock: bool, lock_wait_s: float) -> None:
        self._fsync, self._lock, self._lock_wait_s = fsync, lock, lock_wait_s
        self._turn = trio.Lock()

    def answers(self) -> list[Answer]:
        """What the schedd asks for."""
        return [answer(AppendEvents, self.append)]

    async def append(self, _peer: Peer, request: AppendEvents) -> Done:
        """Append all of the request's events, the runs of events for one log at once."""
        async with self._turn:
            deadline = trio.current_time() + self._lock_wait_s
            for path, events in groupby(request.events, key=lambda event: event.log):
                await self._append_to_one(path, list(events), deadline)
        return DONE

    async def _append_to_one(self, path: str, events: list[LogEvent], deadline: float) -> None:
        append = partial(append_to, path, events, fsync=self._fsync, lock=self._lock)
        while True:
            try:
                if self._fsync:
                    await trio.to_thread.run_sync(append)
                else:
                    append()
                return
            except LogBusy:
                if trio.current_time() > deadline:
                    raise UserError(f"somebody keeps the event log {path} locked") from None
                await trio.sleep(LOCK_PAUSE_S)


def append_to(path: str, events: list[LogEvent], *, fsync: bool, lock: bool) -> None:
    """Append in order; UserError names a log that cannot be written. LogBusy: nothing was written."""
    try:
        fd = os.open(real(path), _FLAGS, LOG_MODE)
    except OSError as error:
        raise _cannot(path, error) from None
    except ValueError as error:  # a null character, for example
        raise UserError(f"cannot write the event log {path!r}: {error}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # a pipe would keep everybody's events waiting
            raise UserError(f"cannot write the event log {path}: it is not a regular file")
        if lock:
            _lock(fd)
        append_whole(fd, b"".join(missing(((event.text, event.check) for event in events), lambda: _tail(fd))))
        if fsync:
            os.fdatasync(fd)
    except OSError as error:
        raise _cannot(path, error) from None
    finally:
        os.close(fd)  # and with it the lock


def _lock(fd: int) -> None:
    try:
        # A POSIX lock, as HTCondor's readers and writers take; flock would not be seen by them.
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise LogBusy from None
        if error.errno not in (errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP):  # no locks there: O_APPEND must do
            raise


def _tail(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, min(size, TAIL_BYTES), max(0, size - TAIL_BYTES))


def _cannot(path: str, error: OSError) -> UserError:
    return UserError(f"cannot write the event log {path}: {error.strerror} (errno {error.errno})")
