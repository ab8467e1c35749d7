"""Programs around a job, such as hooks and file transfer plug-ins: started as its account, collected as its own are.

The starter collects all its children itself, so a program is watched from its birth on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from daemons.host.account import Account
from daemons.host.processes import Processes, WatchedChild
from daemons.host.programs import kill_session

_UMASK: Final = 0o022


class Helper:
    """A running program."""

    stdin = stdout = stderr = None

    def __init__(self, watched: WatchedChild) -> None:
        self._watched = watched
        self.pid = watched.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or the negative signal; None while it runs."""
        return os.waitstatus_to_exitcode(self._watched.status) if self._watched.ended.is_set() else None

    async def wait(self) -> int:
        """Wait for the end."""
        await self._watched.ended.wait()
        return os.waitstatus_to_exitcode(self._watched.status)

    def send_signal(self, sig: Any, /) -> None:
        """To the program and what it has started."""
        kill_session(self.pid, sig)

    def terminate(self) -> None:
        """Ask it to end."""
        kill_session(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        kill_session(self.pid)


@dataclass(frozen=True)
class HelperSpawner:
    """Starts programs as the job's account."""

    processes: Processes
    account: Account

    async def start(self, argv: Sequence[str], **options: Any) -> Helper:
        """Start a program."""
        if self.account.switches:
            # Set by subprocess between fork and exec, groups first: this process keeps its own.
            options.update(user=self.account.uid, group=self.account.gid, extra_groups=list(self.account.groups))
        return Helper(self.processes.start(argv, umask=_UMASK, **options))
