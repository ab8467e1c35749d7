"""Sends mail about jobs, as their owners, once what it says is durable. Mail that fails costs a line of log.

SENDMAIL sends it where there is such a program, else MAIL.
"""

from __future__ import annotations

from typing import Final

import trio

from daemons.schedd.core.access_point import AccessPoint
from daemons.schedd.core.writer import Writer
from pool.classad import ClassAd
from pool.hosts.sendmail import send
from pool.jobs.mail import Letter, letter
from pool.jobs.userlog.event import LogEvent

WAITING_MAX: Final = 1000


class Mailer:
    """The letters that wait, and the task that sends them."""

    def __init__(self, point: AccessPoint, writer: Writer) -> None:
        self._point = point
        self._writer = writer
        self._send, self._receive = trio.open_memory_channel[Letter](WAITING_MAX)

    def consider(self, job: ClassAd, event: LogEvent) -> None:
        """The job's owner may want to know of this."""
        found = letter(job, event, self._point.settings.email_domain)
        if found is None:
            return
        try:
            self._send.send_nowait(found)
        except trio.WouldBlock:
            self._point.log.always(f"Too much mail: nobody is told {found.subject}")

    async def run(self) -> None:
        """Send what comes."""
        point = self._point
        async for one in self._receive:
            await self._writer.durable()
            config = point.start.config
            problem = await point.start.world.threads.run_sync(
                send,
                config.str("SENDMAIL"),
                config.str("MAIL", default=""),
                one.to,
                one.subject,
                one.body,
                config.str("MAIL_FROM", ""),
                one.owner,
            )
            if problem:
                point.log.always(f"Mail to {', '.join(one.to)} was not sent: {problem}")
