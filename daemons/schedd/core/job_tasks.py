"""Tasks that look after one job, claim or connection: an error in one ends its own matter, never the schedd.

`daemon_core.tasks` has those that a daemon keeps as long as it lives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import trio

from daemons.base.log import Log

Args = TypeVarTuple("Args")


class JobTasks:
    """Starts them; once the schedd is on its way out it starts none, and says nothing."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the tasks until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    @property
    def nursery(self) -> trio.Nursery:
        """For connections that are opened here, which see to their own errors."""
        assert self._nursery is not None
        return self._nursery

    def start(
        self,
        task: Callable[[*Args], Awaitable[object]],
        *args: *Args,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run a task. `failed` is called when it ends with an error, which is logged in any case."""
        if self._nursery is not None:
            self._nursery.start_soon(self._guarded, task, args, failed)

    async def _guarded(
        self,
        task: Callable[..., Awaitable[object]],
        args: tuple[object, ...],
        failed: Callable[[Exception], None] | None,
    ) -> None:
        try:
            await task(*args)
        except* Exception as failure:
            error = failure.exceptions[0] if len(failure.exceptions) == 1 else failure
            self._log.error(f"The task {getattr(task, '__qualname__', task)} has failed: {error}", error)
            if failed is not None:
                failed(error)
