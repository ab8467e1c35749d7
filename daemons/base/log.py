"""A daemon's log: lines as HTCondor writes them, by category, in files that rotate.

    11/22/26 01:02:03 (D_ALWAYS) claim granted slot=slot1_1@host job=12.0

`<SUBSYS>_DEBUG` chooses the categories (`D_FULLDEBUG D_SECURITY`; `D_ALL` for everything; `CATEGORY:2` counts as the
category plus its verbose half, here the same). `MAX_<SUBSYS>_LOG` is the size at which a file is set aside and
`MAX_NUM_<SUBSYS>_LOG` how many old ones stay: one is called `.old`, more carry the time at which they were set aside.
With `TRUNC_<SUBSYS>_LOG_ON_OPEN` what an earlier life of the daemon has written is dropped.

Files are set aside here and not by `logging.handlers`, which numbers them instead, and moves every old one each time.

What libraries say through `logging` (`protocol` among them) goes into the same file: warnings and errors always, the
rest as D_FULLDEBUG.

Source: HTCondor's manual, "Job and Daemon Logs"; the names of old files are those of src/condor_utils/log_rotate.cpp.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from daemons.base.layout import open_public

if TYPE_CHECKING:
    from pool.config import Config

ALWAYS: Final = "D_ALWAYS"
ERROR: Final = "D_ERROR"
FULLDEBUG: Final = "D_FULLDEBUG"

TIMES: Final = "%m/%d/%y %H:%M:%S"
"""How a line tells the time, unless DEBUG_TIME_FORMAT says otherwise; empty: in seconds since 1970."""
_UNCONDITIONAL: Final = frozenset({ALWAYS, ERROR, "D_STATUS"})
_FIELD_CHARS_MAX: Final = 2000
_MESSAGE_CHARS_MAX: Final = 10_000


def log_times(config: Config) -> str:
    """How lines tell the time, by the configuration."""
    return "" if config.bool("LOGS_USE_TIMESTAMP") else config.str("DEBUG_TIME_FORMAT").strip('"') or TIMES


class Log:
    """Where one process writes what happens. `path` None: standard error."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        level: str = "",
        bytes_max: int = 10 * 1024 * 1024,
        old_max: int = 1,
        begins_anew: bool = False,
        wall: Callable[[], float] = time.time,
        times: str = TIMES,
    ) -> None:
        self.path, self.times = path, times
        self._begins_anew = begins_anew
        self._bytes_max, self._old_max, self._wall = bytes_max, old_max, wall
        self._file: FileIO | None = None
        self._size = 0
        self._categories: frozenset[str] = frozenset()
        self._stamp = (0, "")
        self.set_level(level)

    # ---- what daemons call

    def always(self, message: str, **fields: object) -> None:
        """What an administrator wants to read in any case."""
        self.say(ALWAYS, message, **fields)

    def full(self, message: str, **fields: object) -> None:
        """Detail for somebody who looks for a fault."""
        if self.wants(FULLDEBUG):
            self.say(FULLDEBUG, message, **fields)

    def error(self, message: str, error: BaseException | None = None, **fields: object) -> None:
        """Something failed; with `error` its traceback follows."""
        self.say(ERROR, message, **fields)
        if error is not None:
            for line in "".join(traceback.format_exception(error)).splitlines():
                self.say(ERROR, f"  {line}")

    def say(self, category: str, message: str, **fields: object) -> None:
        """One line, when the category is wanted."""
        if self.wants(category):
            said = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
            self._write(f"{self._time()} ({category}) {_one_line(message)}{said}\n")

    def wants(self, category: str) -> bool:
        """Whether lines of this category are written."""
        return category in _UNCONDITIONAL or category in self._categories or "D_ALL" in self._categories

    def set_level(self, level: str) -> None:
        """Choose the categories, in the words of `<SUBSYS>_DEBUG`."""
        words = level.replace(",", " ").replace("|", " ").split()
        names = {word.partition(":")[0].upper() for word in words if not word.startswith("-")}
        self._categories = frozenset(name if name.startswith("D_") else f"D_{name}" for name in names)

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def capture_logging(self) -> None:
        """Take what libraries say through `logging` into this log."""
        root = logging.getLogger()
        # In place of what is there: a forked child has inherited its parent's.
        root.handlers[:] = [_Handler(self)]
        root.setLevel(logging.DEBUG if self.wants(FULLDEBUG) else logging.INFO)

    # ---- the file

    def _time(self) -> str:
        now = int(self._wall())
        # strftime costs more than all else in a line, and a second has many lines.
        if self._stamp[0] != now:
            self._stamp = (now, time.strftime(self.times, time.localtime(now)) if self.times else str(now))
        return self._stamp[1]

    def _write(self, line: str) -> None:
        raw = line.encode("utf-8", "replace")
        try:
            if self.path is None:
                sys.stderr.write(line)
                return
            file = self._file or self._open()
            # A line longer than the limit goes into an empty file whole, rather than turn files over for ever.
            if self._size + len(raw) > self._bytes_max > 0 and self._size:
                file = self._rotate()
            self._size += file.write(raw)
        except OSError as trouble:  # a full disk must not stop a daemon
            sys.stderr.write(f"cannot write {self.path}: {trouble}\n{line}")

    def _open(self) -> FileIO:
        assert self.path is not None
        # Unbuffered: what a process said before it was killed is what one wants to read.
        self._file = FileIO(self.path, "a", opener=open_public)
        if self._begins_anew:
            self._begins_anew = False
            self._file.truncate(0)
        self._size = os.fstat(self._file.fileno()).st_size
        return self._file

    def _rotate(self) -> FileIO:
        assert self.path is not None
        self.close()
        if self._old_max <= 1:
            os.replace(self.path, f"{self.path}.old")
        else:
            aside = time.strftime("%Y%m%dT%H%M%S", time.localtime(self._wall()))
            os.replace(self.path, f"{self.path}.{aside}")
            olds = sorted(self.path.parent.glob(f"{self.path.name}.[0-9]*T[0-9]*"))
            for old in olds[: -self._old_max]:
                old.unlink(missing_ok=True)
        return self._open()


class _Handler(logging.Handler):
    """Writes `logging` records into a Log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        category = ERROR if record.levelno >= logging.ERROR else ALWAYS
        if record.levelno < logging.WARNING:
            category = FULLDEBUG
        try:
            self._log.say(category, record.getMessage())
            if record.exc_info and record.exc_info[1] is not None:
                for line in "".join(traceback.format_exception(record.exc_info[1])).splitlines():
                    self._log.say(category, f"  {line}")
        except Exception:
            self.handleError(record)


def _one_line(message: str) -> str:
    """The message without anything that would begin another line, or that a terminal would obey: much of it may be
    somebody else's words."""
    if len(message) > _MESSAGE_CHARS_MAX:
        message = message[:_MESSAGE_CHARS_MAX] + "..."
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in message)


def _shown(value: object) -> str:
    """A field's value on one line: text with blanks in quotes, and never more than a line can bear."""
    text = value if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else str(value)
    if len(text) > _FIELD_CHARS_MAX:
        text = text[:_FIELD_CHARS_MAX] + "..."
    if not text or any(c.isspace() or c == '"' for c in text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _one_line(text)
