"""The Python API for programs that use trio: a pool, submit descriptions, jobs.

    async with minipool.open_pool() as pool:
        [job] = await pool.submit(minipool.Submit(executable="/bin/true"))
        result = await job.result()

`minipool.connect()` offers the same to scripts and notebooks, without `await`. What each method does is in `core.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import trio

from minipool.client.async_line import AsyncLine
from minipool.client.core import JobCore, PoolCore
from minipool.client.model import JobState, job_id
from minipool.client.session import Session
from minipool.client.steps import Steps
from pool.ads.seen import AdNews
from pool.base.ids import JobId
from protocol.rpc import endpoints

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def open_pool(
    directory: str | None = None,
    *,
    pool: str | None = None,
    schedd: str | None = None,
    config: Sequence[str] | None = None,
) -> AsyncIterator[AsyncPool]:
    """The pool of a directory, or of the collector `pool`, or the one that the configuration names.

    `schedd` names an access point other than this host's. The connection is kept for the time of the block.
    """
    session = Session.open(directory=directory, pool=pool, config=config)
    try:
        async with trio.open_nursery() as nursery:
            line = AsyncLine(session, schedd, nursery)
            await line.open()
            try:
                yield AsyncPool(session, line)
            finally:
                await line.aclose()
                # The connection's tasks live in this nursery, and would keep the block from ending.
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # what went wrong is raised as what it is
        raise endpoints.single(group) from None


class _AsyncFace:
    """What performs the steps of a core over the pool's connection."""

    _core: Any
    _line: AsyncLine


def awaited(
    steps: Callable[Concatenate[Any, P], Steps[T]],
) -> Callable[Concatenate[_AsyncFace, P], Coroutine[Any, Any, T]]:
    """A method that performs these steps, and returns their result."""

    @wraps(steps)
    async def method(self: _AsyncFace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._line.perform(steps(self._core, *args, **kwargs))

    return method


def streamed(
    steps: Callable[Concatenate[Any, P], Steps[None]],
) -> Callable[Concatenate[_AsyncFace, P], AsyncGenerator[JobState, None]]:
    """A method that yields what these steps tell."""

    @wraps(steps)
    def method(self: _AsyncFace, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[JobState, None]:
        return self._line.stream(steps(self._core, *args, **kwargs))

    return method


def streaming_ads(
    steps: Callable[Concatenate[Any, P], Steps[None]],
) -> Callable[Concatenate[_AsyncFace, P], AsyncGenerator[AdNews, None]]:
    """A method that yields what these steps tell of ads."""

    @wraps(steps)
    def method(self: _AsyncFace, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[AdNews, None]:
        return self._line.stream(steps(self._core, *args, **kwargs))

    return method


def making_jobs(
    steps: Callable[Concatenate[Any, P], Steps[list[JobId]]],
) -> Callable[Concatenate[AsyncPool, P], Coroutine[Any, Any, list[AsyncJob]]]:
    """A method that performs these steps, and returns the jobs of these ids."""

    @wraps(steps)
    async def method(self: AsyncPool, /, *args: P.args, **kwargs: P.kwargs) -> list[AsyncJob]:
        return [AsyncJob(self, id) for id in await self._line.perform(steps(self._core, *args, **kwargs))]

    return method


class AsyncPool(_AsyncFace):
    """An access point of a pool, and the pool behind it; `open_pool()` returns one."""

    def __init__(self, session: Session, line: AsyncLine) -> None:
        self.session = session
        self._core, self._line = PoolCore(session), line

    def job(self, job: object, proc: int | None = None) -> AsyncJob:
        """The job of this id: `job(51, 0)`, `job("51.0")`; of a cluster alone, its first."""
        return AsyncJob(self, job_id(job, proc))

    submit = making_jobs(PoolCore.submit)
    jobs = awaited(PoolCore.jobs)
    history = awaited(PoolCore.history)
    ads = awaited(PoolCore.ads)
    watch_ads = streaming_ads(PoolCore.watch_ads)
    watch = streamed(PoolCore.watch)
    wait = awaited(PoolCore.wait)
    act = awaited(PoolCore.act)
    remove = awaited(PoolCore.remove)
    hold = awaited(PoolCore.hold)
    release = awaited(PoolCore.release)
    edit = awaited(PoolCore.edit)


class AsyncJob(_AsyncFace):
    """One job, by its id."""

    def __init__(self, pool: AsyncPool, id: JobId) -> None:
        self.pool = pool
        self.id = id
        self._core, self._line = JobCore(pool._core, id), pool._line

    def __repr__(self) -> str:
        return f"AsyncJob({self.id})"

    ad = awaited(JobCore.ad)
    status = awaited(JobCore.status)
    follow = streamed(JobCore.follow)
    result = awaited(JobCore.result)
    remove = awaited(JobCore.remove)
    hold = awaited(JobCore.hold)
    release = awaited(JobCore.release)
