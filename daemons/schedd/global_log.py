"""EVENT_LOG: one log of the events of all jobs of this schedd, written by the schedd itself and rotated by size.

Events are written once they are durable in the queue. What waits when the schedd is killed is missing here; the jobs'
own logs, which lose nothing, have it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from pool.classad import ClassAd
from pool.config import Config
from pool.ids import JobId
from pool.jobs import event_log
from pool.jobs.event_forms import TEXT, Form, read_form, write
from pool.jobs.event_log import Event

if TYPE_CHECKING:
    from daemons.schedd.core import Core

WAITING_MAX: Final = 100_000


@dataclass(frozen=True)
class GlobalLogSettings:
    """The EVENT_LOG knobs; without a path there is no such log."""

    path: str = ""
    bytes_max: int = 1_000_000
    rotations: int = 1
    form: Form = TEXT
    attributes: tuple[str, ...] = ()

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
        )


class GlobalLog:
    """What waits to be written, and the task that writes it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: list[str] = []
        self._lost = 0
        self._wake = trio.Event()
        core.global_log = self

    def add(self, event: Event, job: JobId, ad: ClassAd, at: float) -> None:
        """The log shall have this event."""
        settings = self._core.settings.global_log
        if len(self._waiting) >= WAITING_MAX:
            self._lost += 1
            return
        self._waiting.append(write(event, job, at, settings.form))
        if settings.attributes:
            self._waiting.append(write(_information(ad, event, settings.attributes), job, at, settings.form))
        self._wake.set()

    async def run(self) -> None:
        """Write what comes."""
        core = self._core
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            await core.writer.durable()
            texts, self._waiting = self._waiting, []
            settings = core.settings.global_log
            if not texts or not settings.path:
                continue
            header = self._header(settings)
            try:
                await core.start.world.threads.run_sync(append, settings, texts, header)
            except OSError as error:
                core.log.always(f"Cannot write EVENT_LOG {settings.path}: {error}; {len(texts)} events are not in it")
            if self._lost:
                core.log.always(f"EVENT_LOG {settings.path} lacks {self._lost} events, which came too fast")
                self._lost = 0

    def _header(self, settings: GlobalLogSettings) -> str:
        """What a file of the log begins with, as programs that follow it over rotations expect."""
        core, now = self._core, self._core.now()
        told = (
            f"Global JobLog: ctime={int(now)} id={core.settings.name}.{os.getpid()}.{int(now)} sequence=1 size=0"
            f" events=0 offset=0 event_off=0 max_rotation={settings.rotations} creator_name=<{core.settings.name}>"
        )
        return write(event_log.Generic(told), JobId(0, 0), now, settings.form)


def _information(ad: ClassAd, event: Event, names: Sequence[str]) -> event_log.JobAdInformation:
    found: dict[str, object] = {"TriggerEventTypeNumber": event.number}
    found.update((name, ad.eval(name)) for name in names if name in ad)
    return event_log.JobAdInformation(found)


def append(settings: GlobalLogSettings, texts: Sequence[str], header: str) -> None:
    """Append events, in a new file when the present one is full. An event is in one file, whole."""
    at = 0
    while at < len(texts):
        with open(settings.path, "ab") as file:
            size = file.tell()
            if not size:
                file.write(header.encode("utf-8", "surrogateescape"))
            while at < len(texts) and (size < settings.bytes_max or not settings.bytes_max):
                size += file.write(texts[at].encode("utf-8", "surrogateescape"))
                at += 1
        if size >= settings.bytes_max > 0:
            rotate(settings.path, settings.rotations)


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
