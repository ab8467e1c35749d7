"""The tasks of a daemon, none of which ends it by failing.

What a task raises is written to the log with its traceback and costs that task alone: one that is kept begins again,
after a second at first and after a minute at last; one that was to be done once is over. What a daemon cannot do
without (that it listens, that it can start children) is no such task: it begins in a nursery as it is, and ends the
daemon when it fails, which the master then starts anew.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from daemons.base.log import Log
from daemons.base.sync import Backoff

AGAIN_FIRST_S: Final = 1.0
AGAIN_MOST_S: Final = 60.0
"""How long a task that has failed waits before it begins again; it doubles each time."""
WELL_S: Final = 600.0
"""Whoever has worked for so long waits as short as after the first failure."""

Run = Callable[..., Awaitable[object]]


class Tasks:
    """Starts tasks in a nursery which no failure of theirs reaches."""

    def __init__(self, nursery: trio.Nursery, log: Log) -> None:
        self._nursery, self._log = nursery, log

    def keep(self, run: Run, *args: Any) -> None:
        """Have this run until it returns; from its beginning again whenever it fails."""
        self._nursery.start_soon(self._keep, run, args, name=_name(run))

    def once(self, run: Run, *args: Any) -> None:
        """Have this run once; a failure ends it."""
        self._nursery.start_soon(self._once, run, args, name=_name(run))

    async def _keep(self, run: Run, args: tuple[Any, ...]) -> None:
        backoff = Backoff(AGAIN_FIRST_S, AGAIN_MOST_S)
        while True:
            began = trio.current_time()
            try:
                await run(*args)
                return
            except* Exception as failure:
                if trio.current_time() - began >= WELL_S:
                    backoff.reset()
                self._say(run, f"it begins again in {backoff.now_s:g} s", failure)
            await backoff.wait()

    async def _once(self, run: Run, args: tuple[Any, ...]) -> None:
        try:
            await run(*args)
        except* Exception as failure:
            self._say(run, "it is over", failure)

    def _say(self, run: Run, then: str, failure: ExceptionGroup[Exception]) -> None:
        error = failure.exceptions[0] if len(failure.exceptions) == 1 else failure
        self._log.error(f"The task {_name(run)} has failed; {then}: {error}", error)


def _name(run: Run) -> str:
    """What a function is called in the log and in tracebacks."""
    while isinstance(run, functools.partial):
        run = run.func
    return getattr(run, "__qualname__", repr(run))
