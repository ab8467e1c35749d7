"""STARTD_HISTORY: a record of each job that ran on this host, for `condor_history -startd` and for the host's owner."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from daemons.base.record_file import RecordFile
from daemons.base.sync import Signal
from daemons.daemon_core.run import DaemonStart
from daemons.startd.slots.slot import Slot
from pool.classad import ClassAd
from pool.jobs.queue.history_file import job_banner, own_lines
from pool.slots.claim import Activation

GATHER_S: Final = 0.5
WAITING_MAX: Final = 10_000
"""Records that wait to be written; beyond that the oldest are given up."""
BYTES_MAX: Final = 20 << 20


class History:
    """Takes what ended, and writes it a moment later, off the loop."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        self._waiting: deque[tuple[ClassAd, dict[str, object]]] = deque(maxlen=WAITING_MAX)
        self._wake = Signal()

    def ended(self, slot: Slot, ran: Activation) -> None:
        """A job is gone from its slot."""
        if not self._start.config.str("STARTD_HISTORY", default=""):
            return
        now = self._start.world.wall()
        added: dict[str, object] = {
            "StartdName": self._start.host,
            "RemoteHost": slot.name,
            "JobStartDate": int(ran.started_wall),
            "JobDuration": max(0.0, now - ran.started_wall),
            "RemoteWallClockTime": max(0.0, now - ran.started_wall),
            "CompletionDate": int(now),
        }
        if slot.usage is not None:
            added.update(slot.usage.own())
        self._waiting.append((ran.job_ad, added))
        self._wake.fire()

    async def run(self) -> None:
        """Write until the startd ends, and then what is left."""
        try:
            while True:
                await self._wake.until(lambda: self._waiting)
                await trio.sleep(GATHER_S)
                await self._start.world.threads.run_sync(self._write, self._taken())
        finally:
            self._write(self._taken())

    def _taken(self) -> list[tuple[ClassAd, dict[str, object]]]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def _write(self, rows: list[tuple[ClassAd, dict[str, object]]]) -> None:
        if not rows:
            return
        config = self._start.config
        path = config.str("STARTD_HISTORY", default="") or ""
        texts = []
        for job, added in rows:
            end = ClassAd(added, parent=job)
            texts.append(own_lines(job.flat()) + own_lines(end) + job_banner(end))
        file = RecordFile(
            path,
            int(config.bytes("MAX_HISTORY_LOG", default=BYTES_MAX)),
            config.int("MAX_HISTORY_ROTATIONS", default=2),
        )
        try:
            file.append("".join(texts), now=self._start.world.wall())
        except OSError as error:
            self._start.log.always(f"{path} cannot be written: {error.strerror}")
