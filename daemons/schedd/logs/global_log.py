"""EVENT_LOG: one log of the events of all jobs of this schedd, written by the schedd itself and rotated by size.

Its events are rows of the queue, as those of the jobs' own logs are: durable with what they tell of, written then, and
forgotten when it is durable that they are written. So a schedd that is killed loses none, and writes none twice.

HTCondor's manual: admin-manual/logging, admin-manual/configuration/global (EVENT_LOG).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.layout import open_public
from daemons.base.writing import append_whole
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.config import Config
from pool.jobs.queue.store import EventRow
from pool.jobs.userlog import event_log
from pool.jobs.userlog.event import LogEvent
from pool.jobs.userlog.forms import TEXT, Form, read_form, write, write_events
from pool.jobs.userlog.recovery import TAIL_BYTES, UNMARKED_MAX, missing

if TYPE_CHECKING:
    from daemons.schedd.core.access_point import AccessPoint
    from daemons.schedd.core.writer import Writer

WAITING_MAX: Final = 100_000
"""Rows that wait for a log that cannot be written; older ones are given up then."""
ROWS_PER_WRITE_MAX: Final = 1000
RETRY_S: Final = 10.0
ROW_CHARS: Final = 64 * 1024


@dataclass(frozen=True)
class GlobalLogSettings:
    """The EVENT_LOG knobs; without a path there is no such log."""

    path: str = ""
    bytes_max: int = 1_000_000
    rotations: int = 1
    form: Form = TEXT
    attributes: tuple[str, ...] = ()
    fsync: bool = False

    @classmethod
    def read(cls, config: Config) -> GlobalLogSettings:
        """From the configuration."""
        form = read_form(config.list("EVENT_LOG_FORMAT_OPTIONS", default=[]))
        if config.bool("EVENT_LOG_USE_XML", default=False):
            form = read_form(["XML"], form)
        return cls(
            path=config.str("EVENT_LOG", default="") or "",
            bytes_max=int(config.bytes("EVENT_LOG_MAX_SIZE", default=1_000_000)),
            rotations=config.int("EVENT_LOG_MAX_ROTATIONS", default=1),
            form=form,
            attributes=tuple(config.list("EVENT_LOG_JOB_AD_INFORMATION_ATTRS", default=[])),
            fsync=config.bool("EVENT_LOG_FSYNC", default=False),
        )


class GlobalLog:
    """What waits to be written, and the task that writes it."""

    def __init__(self, point: AccessPoint, writer: Writer) -> None:
        self._point = point
        self._writer = writer
        self._waiting: deque[tuple[EventRow, bool]] = deque()
        self._wake = trio.Event()

    def add(self, event: LogEvent, job: JobId, ad: ClassAd, at: float) -> None:
        """The log shall have this event."""
        self.log([self.text_of(event, job, ad, at)])

    def log(self, texts: Iterable[str]) -> None:
        """The log shall have these, as part of the current transaction."""
        path = self._point.settings.global_log.path
        for text in texts:
            self._point.queue.log_overall(path, text)

    def text_of(self, event: LogEvent, job: JobId, ad: ClassAd, at: float) -> str:
        """An event as this log has it."""
        settings = self._point.settings.global_log
        text = write(event, job, at, settings.form)
        if settings.attributes:
            text += write(_information(ad, event, settings.attributes), job, at, settings.form)
        return text

    def texts_of(self, event: LogEvent, jobs: Sequence[JobId], at: float) -> Iterator[str]:
        """The same event of several jobs; for a log that has no attributes of them."""
        settings = self._point.settings.global_log
        size = min(ROW_CHARS, settings.bytes_max // 16) if settings.bytes_max > 0 else ROW_CHARS
        step = max(1, size // max(1, len(write(event, jobs[0], at, settings.form))))
        for first in range(0, len(jobs), step):
            yield write_events(event, jobs[first : first + step], at, settings.form)

    def put(self, rows: Iterable[EventRow], *, check: bool = False) -> None:
        """These are durable; `check`: the log may have them already."""
        self._waiting.extend((row, check) for row in rows)
        if self._waiting:
            self._wake.set()

    async def run(self) -> None:
        """Write what comes."""
        point = self._point
        unmarked, failing = 0, False
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._waiting:
                batch = self._next()
                try:
                    await self._write(batch)
                except OSError as error:
                    if not failing:
                        point.log.always(f"Cannot write EVENT_LOG {batch[0][0].log}: {error}")
                    failing = True
                    self._give_up(len(self._waiting) - WAITING_MAX)
                    await trio.sleep(RETRY_S)
                    continue
                failing = False
                self._forget(len(batch))
                unmarked += sum(len(row.text) for row, _ in batch)
                if unmarked >= UNMARKED_MAX:
                    await self._writer.noted()
                    unmarked = 0

    def _next(self) -> list[tuple[EventRow, bool]]:
        """What is written at one go: rows of one file, not too much text."""
        path = self._waiting[0][0].log
        batch: list[tuple[EventRow, bool]] = []
        size = 0
        for row, check in islice(self._waiting, ROWS_PER_WRITE_MAX):
            size += len(row.text)
            if batch and (size > UNMARKED_MAX or row.log != path):
                break
            batch.append((row, check))
        return batch

    async def _write(self, batch: Sequence[tuple[EventRow, bool]]) -> None:
        point = self._point
        settings = point.settings.global_log
        texts = [(row.text, check) for row, check in batch]
        header = self._header(settings)
        await point.start.world.threads.run_sync(append, settings, batch[0][0].log, texts, header)

    def _forget(self, count: int) -> None:
        rows = [self._waiting.popleft()[0] for _ in range(count)]
        self._point.queue.written(row.seq for row in rows)

    def _give_up(self, count: int) -> None:
        if count > 0:
            path = self._waiting[0][0].log
            self._forget(count)
            self._point.log.always(f"EVENT_LOG {path} lacks {count} events, for it could not be written for too long")

    def _header(self, settings: GlobalLogSettings) -> str:
        """What a file of the log begins with, as programs that follow it over rotations expect."""
        point, now = self._point, self._point.now()
        told = (
            f"Global JobLog: ctime={int(now)} id={point.settings.name}.{os.getpid()}.{int(now)} sequence=1 size=0"
            f" events=0 offset=0 event_off=0 max_rotation={settings.rotations} creator_name=<{point.settings.name}>"
        )
        return write(event_log.Generic(told), JobId(0, 0), now, settings.form)


def _information(ad: ClassAd, event: LogEvent, names: Sequence[str]) -> event_log.JobAdInformation:
    found: dict[str, object] = {"TriggerEventTypeNumber": event.number}
    found.update((name, ad.eval(name)) for name in names if name in ad)
    return event_log.JobAdInformation(found)


def append(settings: GlobalLogSettings, path: str, events: Iterable[tuple[str, bool]], header: str) -> None:
    """Append events, in a new file when the present one is full. An event is in one file, whole.

    An event is a text, and whether the log may have it already.
    """
    texts = deque(missing(events, lambda: _tail(settings, path)))
    while texts:
        with open(path, "ab", buffering=0, opener=open_public) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                append_whole(file.fileno(), header.encode("utf-8", "surrogateescape"))
            while texts and (size < settings.bytes_max or settings.bytes_max <= 0):
                text = texts[0]
                append_whole(file.fileno(), text)
                size += len(text)
                texts.popleft()
            if settings.fsync:
                os.fdatasync(file.fileno())
        # Turned over when it is full, and not when the next event comes: that may be long.
        if size >= settings.bytes_max > 0:
            rotate(path, settings.rotations)


def _tail(settings: GlobalLogSettings, path: str) -> bytes:
    """What the log ends with; an event may be in the file before the present one."""
    # A crash may have come between the rotation and the first event of the new file.
    older = f"{path}.old" if settings.rotations == 1 else f"{path}.1"
    return _end_of(older) + _end_of(path)


def _end_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read()
    except FileNotFoundError:
        return b""


def rotate(path: str, rotations: int) -> None:
    """Keep the file under another name: `.old` when one is kept, else `.1` to `.N`, the newest being `.1`."""
    if rotations <= 0:
        os.truncate(path, 0)
    elif rotations == 1:
        os.replace(path, f"{path}.old")
    else:
        for number in range(rotations - 1, 0, -1):
            if os.path.exists(f"{path}.{number}"):
                os.replace(f"{path}.{number}", f"{path}.{number + 1}")
        os.replace(path, f"{path}.1")
