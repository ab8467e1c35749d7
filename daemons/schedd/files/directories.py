"""SPOOL's directories of jobs: made for their users, removed with the jobs.

The schedd makes and removes directories; what is in them only their user's file agent touches.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Awaitable, Callable
from typing import Final

from daemons.base.layout import passage
from daemons.daemon_core.run import DaemonStart
from daemons.host import sandbox
from pool.base.errors import UserError
from pool.base.ids import JobId, is_number
from pool.files.spool import job_of, spool_path

MODES: Final = {"user": 0o700, "group": 0o750, "world": 0o755}


class Directories:
    """SPOOL, as far as jobs have directories there."""

    def __init__(self, start: DaemonStart) -> None:
        self._start = start
        config = start.config
        self.base = config.path("SPOOL")
        self._mode = MODES.get(config.str("JOB_SPOOL_PERMISSIONS", default="user").strip().lower(), 0o700)

    def path_of(self, id: JobId) -> str:
        """Where a job's directory is, or would be."""
        return spool_path(self.base, id)

    def make(self, id: JobId, owner: str) -> str:
        """The job's directory, its user's own."""
        path = self.path_of(id)
        passage(os.path.dirname(path))
        try:
            os.mkdir(path, self._mode)
        except FileExistsError:
            return path
        # mkdir's mode is cut by the umask.
        os.chmod(path, self._mode)
        if os.geteuid() == 0:
            try:
                account = pwd.getpwnam(owner)
            except KeyError:
                os.rmdir(path)
                raise UserError(f"there is no account {owner!r} on this host to keep files for") from None
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        return path

    def exists(self, id: JobId) -> bool:
        """Whether the job has one."""
        return os.path.lexists(self.path_of(id))

    async def remove(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        try:
            await self._start.world.threads.run_sync(sandbox.remove, path)
        except OSError as error:
            self._start.log.always("A spool directory cannot be removed", path=path, reason=error.strerror)

    async def sweep(self, is_gone: Callable[[JobId], bool], remove: Callable[[str], Awaitable[None]]) -> None:
        """Remove what jobs have left that are no longer in the queue."""
        for path in await self._start.world.threads.run_sync(_left, self.base):
            id = job_of(os.path.basename(path))
            if id is not None and is_gone(id):
                await remove(path)


def _left(base: str) -> list[str]:
    """All jobs' directories."""
    upper = [path for path in _below(base) if is_number(os.path.basename(path))]
    inner = [path for above in upper for path in _below(above) if is_number(os.path.basename(path))]
    return [path for above in inner for path in _below(above)]


def _below(directory: str) -> list[str]:
    """What is in a directory; nothing where it cannot be read, which shall hide no other."""
    try:
        return [entry.path for entry in os.scandir(directory)]
    except OSError:
        return []
