"""What every part of the schedd stands on: this access point's configuration as it is now, its queue, log and clock."""

from __future__ import annotations

from daemons.daemon_core.run import DaemonStart
from daemons.schedd.core.settings import ScheddSettings
from pool.jobs.queue.job_queue import JobQueue


class AccessPoint:
    """Made first; only `settings` is ever another one, after a reconfiguration."""

    def __init__(self, start: DaemonStart, queue: JobQueue, settings: ScheddSettings) -> None:
        self.start = start
        self.log = start.log
        self.queue = queue
        self._settings = settings

    @property
    def settings(self) -> ScheddSettings:
        """The knobs as they are now."""
        return self._settings

    def reconfigured(self, settings: ScheddSettings) -> None:
        """The knobs say something else."""
        self._settings = settings

    def now(self) -> float:
        """Wall clock."""
        return self.start.world.wall()
