"""Append events to users' logs, each whole or not at all, under the lock that HTCondor's readers and writers take.

An event that may have been written before a crash is looked for in the log's tail first; what a crash left of it is
completed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from daemons.agent.trusted_path import real
from pool.errors import UserError
from pool.jobs.log_tail import TAIL_BYTES, missing
from protocol.messages.agent import LogEvent

LOG_MODE: Final = 0o664
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class LogBusy(Exception):
    """Somebody else holds the lock of a log; try again."""


def append_events(events: Iterable[LogEvent], *, fsync: bool, lock: bool) -> None:
    """Append in order; UserError names the log that cannot be written. LogBusy: nothing of its log was written."""
    for path, group in groupby(events, key=lambda event: event.log):
        append_to(path, list(group), fsync=fsync, lock=lock)


def append_to(path: str, events: list[LogEvent], *, fsync: bool, lock: bool) -> None:
    """Append to one log."""
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
        _append(fd, b"".join(missing(((event.text, event.check) for event in events), lambda: _tail(fd))))
        if fsync:
            os.fdatasync(fd)
    except OSError as error:
        raise _cannot(path, error) from None
    finally:
        os.close(fd)  # and with it the lock


def _lock(fd: int) -> None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise LogBusy from None
        if error.errno not in (errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP):  # no locks there: O_APPEND must do
            raise


def _tail(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, min(size, TAIL_BYTES), max(0, size - TAIL_BYTES))


def _append(fd: int, data: bytes) -> None:
    """All of it or nothing (a full disk must not leave half an event)."""
    if not data:
        return
    before = os.fstat(fd).st_size
    try:
        written = 0
        while written < len(data):
            written += os.write(fd, data[written:])
    except OSError:
        try:
            os.ftruncate(fd, before)
        except OSError:
            pass
        raise


def _cannot(path: str, error: OSError) -> UserError:
    return UserError(f"cannot write the event log {path}: {error.strerror} (errno {error.errno})")
