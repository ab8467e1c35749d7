"""Sends mail about jobs, as their owners, once what it says is durable. Mail that fails costs a line of log.

SENDMAIL sends it where there is such a program, else MAIL.
"""

from __future__ import annotations

from typing import Final

import trio

from daemons.schedd.core import Core
from pool.classad import ClassAd
from pool.jobs.event_log import Event
from pool.jobs.mail import Letter, letter
from protocol.mail import send

WAITING_MAX: Final = 1000


class Mailer:
    """The letters that wait, and the task that sends them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._send, self._receive = trio.open_memory_channel[Letter](WAITING_MAX)
        core.tell_owner = self.consider

    def consider(self, job: ClassAd, event: Event) -> None:
        """The job's owner may want to know of this."""
        found = letter(job, event, self._core.settings.email_domain)
        if found is None:
            return
        try:
            self._send.send_nowait(found)
        except trio.WouldBlock:
            self._core.log.always(f"Too much mail: nobody is told {found.subject}")

    async def run(self) -> None:
        """Send what comes."""
        core = self._core
        async for one in self._receive:
            await core.writer.durable()
            config = core.start.config
            problem = await core.start.world.threads.run_sync(
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
                core.log.always(f"Mail to {', '.join(one.to)} was not sent: {problem}")
