"""What stands for the schedd where a job was fetched by the machine itself: nobody is told, but the job's own log is.

It has the methods of a ShadowLink. StarterUserLog names the log, which is written as the job's account.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

from daemons.base.log import Log
from daemons.base.writing import write_all
from daemons.host.account import Account, acting_as
from daemons.starter.report.shadow_link import ShadowLink
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.classad.forms.xml_form import to_xml
from pool.hooks.fetched import log_path
from pool.jobs.userlog import event_log as events
from pool.jobs.userlog.event import LogEvent, event_text
from pool.jobs.userlog.reader import EventReader
from pool.jobs.userlog.usage import Usage
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import JobEnded, JobExecuting, JobNotice, JobUpdate
from protocol.messages.starter import RunJob
from protocol.rpc.endpoints import Peer

LOG_MODE: Final = 0o664


class LocalLink:
    """One activation of fetched work."""

    def __init__(self, job: RunJob, directory: str, log: Log, account: Callable[[], Account]) -> None:
        self._job = job
        self._log = log
        self._account = account
        self._path = log_path(job.job_ad, directory)
        self._as_xml = job.job_ad.eval_bool("StarterUserLogUseXML", False)
        self._largest = 0
        self._began: JobExecuting | None = None
        self.over: str | None = None
        """Never set: there is nobody who could stop waiting."""
        self.granted: ClassAd | None = None
        """Never set: the machine knows its slot when it fetches work for it."""

    async def run(self) -> None:
        """There is no connection to keep."""

    async def peer(self) -> Peer | None:
        """Nobody is there, and nobody is needed."""
        await trio.lowlevel.checkpoint()
        return None

    def runs(self, message: JobExecuting) -> None:
        """The program was started."""
        self._began = message
        slot = self._job.slot_ad
        address = slot.eval_str("MyAddress") or slot.eval_str("Machine") or ""
        self._write(events.Executing(address, slot.eval_str("Name") or ""), message.at)

    async def say_that_it_runs(self) -> None:
        """It is in the log."""

    @property
    def told(self) -> JobExecuting | None:
        """Nobody was told."""
        return None

    def goes_on(self, message: JobExecuting) -> None:
        """Its starter never rests: nobody could wake it."""

    async def rests(self) -> bool:
        """It does not."""
        return False

    async def rests_not(self) -> None:
        """As always."""

    async def update(self, message: JobUpdate) -> None:
        """The log hears of the job's size when that is new."""
        size = message.ad.eval_int("ImageSize", 0)
        if size > self._largest:
            self._largest = size
            memory, resident = message.ad.eval_int("MemoryUsage"), message.ad.eval_int("ResidentSetSize")
            self._write(events.ImageSize(size, memory, resident), time.time())

    async def notice(self, message: JobNotice) -> None:
        """A hook's message."""
        host = self._job.slot_ad.eval_str("Name") or ""
        self._write(events.RemoteErrorEvent("starter", host, message.message, critical=False), time.time())

    async def ended(self, message: JobEnded) -> None:
        """It is over."""
        ad = message.ad
        usage = Usage(ad.eval_float("RemoteUserCpu", 0.0), ad.eval_float("RemoteSysCpu", 0.0))
        if message.ending is Ending.EXITED:
            self._write(events.Terminated(_exit(ad), run_usage=usage, total_usage=usage), message.at)
        elif self._began is not None:
            self._write(events.Evicted(message.reason, run_usage=usage), message.at)
        else:
            host = self._job.slot_ad.eval_str("Name") or ""
            self._write(
                events.RemoteErrorEvent("starter", host, message.reason or "the job was not started"), message.at
            )

    def _write(self, event: LogEvent, at: float) -> None:
        """Append an event; a log that cannot be written does not stop the job."""
        if not self._path:
            return
        text = event_text(event, self._job.job_id, at)
        if self._as_xml:
            text = "".join(f"{to_xml(one.ad())}\n" for one in EventReader().feed(text))
        try:
            with acting_as(self._account()):
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY, LOG_MODE)
                try:
                    write_all(fd, text.encode("utf-8", "surrogateescape"))
                finally:
                    os.close(fd)
        except (OSError, PoolError) as error:
            self._log.always(f"Cannot write the job's log {self._path}: {error}")


def _exit(ad: ClassAd) -> events.Exit:
    if ad.eval_bool("ExitBySignal", False):
        return events.Exit(signal=ad.eval_int("ExitSignal", 0))
    return events.Exit(code=ad.eval_int("ExitCode", 0))


Link: TypeAlias = ShadowLink | LocalLink
"""What a job's starter reports to: its shadow task in the schedd, or what stands for one."""
