"""Checkpoints at URLs whose job has left: their manifests are put aside, and the user's agent removes what they name.

SPOOL/checkpoint-cleanup/USER has a directory for each such job until all is removed; what fails is tried again when the
schedd starts, and once a day.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.layout import passage
from pool.base.errors import PoolError
from pool.config import Config
from pool.files.checkpoint_cleanup import JOB_AD, read_map
from protocol.messages.agent import CleanCheckpoints, CleanupRule

if TYPE_CHECKING:
    from daemons.schedd.core.core import Core
    from daemons.schedd.files.agents import Agents
    from pool.jobs.queue.cluster import Job

ASIDE: Final = "checkpoint-cleanup"
AGAIN_S: Final = 86400.0


@dataclass(frozen=True)
class CleanupSettings:
    """The knobs, typed."""

    map_path: str
    libexec: str
    limit_s: float
    file_limit_s: float

    @classmethod
    def read(cls, config: Config) -> CleanupSettings:
        """From the configuration."""
        return cls(
            config.path("CHECKPOINT_DESTINATION_MAPFILE"),
            config.path("LIBEXEC"),
            config.seconds("SCHEDD_CHECKPOINT_CLEANUP_TIMEOUT"),
            config.seconds("CHECKPOINT_CLEANUP_TIMEOUT"),
        )


class CheckpointCleanup:
    """What of left jobs is still to be removed."""

    def __init__(self, core: Core, agents: Agents) -> None:
        self._core = core
        self._agents = agents

    def has_left(self, job: Job) -> None:
        """Remove what the job has in SPOOL."""
        core = self._core
        if core.directories.exists(job.id):
            core.tasks.start(self.left, core.directories.path_of(job.id))

    @property
    def _base(self) -> str:
        return os.path.join(self._core.directories.base, ASIDE)

    async def left(self, path: str) -> None:
        """A job has left this directory of SPOOL behind: it is removed, what it names at a URL first."""
        core = self._core
        try:
            aside = await core.start.world.threads.run_sync(self._put_aside, path)
        except (OSError, KeyError) as error:
            core.log.always("The checkpoints of a job that has left cannot be put aside", path=path, reason=str(error))
            aside = None
        if aside is None:
            await core.directories.remove(path)
        else:
            await self._clean(*aside)

    def _put_aside(self, path: str) -> tuple[str, str] | None:
        """Whose checkpoints these are, and where they are now; None where no URL has anything of the job."""
        try:
            status = os.stat(path)
            os.lstat(os.path.join(path, JOB_AD))
        except FileNotFoundError:
            return None
        owner = pwd.getpwuid(status.st_uid)
        # Root's agent would run a program on names that a job has written.
        if os.geteuid() == 0 and owner.pw_uid == 0:
            return None
        passage(self._base)
        own = os.path.join(self._base, owner.pw_name)
        if not os.path.isdir(own):
            os.mkdir(own, 0o700)
            if os.geteuid() == 0:
                os.chown(own, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
        aside = os.path.join(own, os.path.basename(path))
        # Out of the way of a later job of this number (a queue that was begun anew), and of the sweep at the next
        # start.
        os.rename(path, aside)
        return owner.pw_name, aside

    async def run(self) -> None:
        """Try again what is left, now and every day."""
        while True:
            for owner, path in await self._core.start.world.threads.run_sync(self._waiting):
                await self._clean(owner, path)
            await trio.sleep(AGAIN_S)

    def _waiting(self) -> list[tuple[str, str]]:
        # What is no directory, or cannot be read, hides nobody else's.
        return [
            (owner, os.path.join(self._base, owner, name))
            for owner in _names(self._base)
            for name in _names(os.path.join(self._base, owner))
        ]

    async def _clean(self, owner: str, path: str) -> None:
        core, settings = self._core, self._core.settings.cleanup
        request = CleanCheckpoints(
            directory=path,
            rules=[CleanupRule(prefix=prefix, command=text) for prefix, text in self._rules(settings)],
            libexec=settings.libexec,
            limit_s=settings.limit_s,
            file_limit_s=settings.file_limit_s,
        )
        try:
            agent = await self._agents.of(owner).peer()
            trouble = (await agent.call(request, timeout=settings.limit_s + settings.file_limit_s + 30.0)).trouble
        except PoolError as error:
            trouble = str(error)
        if trouble:
            core.log.always("Checkpoints of a job that has left are still there", directory=path, reason=trouble)

    @staticmethod
    def _rules(settings: CleanupSettings) -> list[tuple[str, str]]:
        try:
            with open(settings.map_path, encoding="utf-8", errors="surrogateescape") as file:
                return read_map(file)
        except OSError:
            return []


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
