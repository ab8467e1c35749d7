"""The Python API for scripts and notebooks: as `minipool.client.over_trio`, without `await`.

    with minipool.connect() as pool:
        [job] = pool.submit(minipool.Submit(executable="/bin/true"))
        print(job.result().exit_code)

Threads may share a Pool, since each has a connection of its own (`lines.py`); so programs over asyncio call it in
threads. A stream belongs to the thread that reads it. What each method does is in `core.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from minipool.client.core import JobCore, PoolCore
from minipool.client.lines import Lines
from minipool.client.model import JobState, job_id
from minipool.client.session import Session
from minipool.client.steps import Steps
from pool.ads.seen import AdNews
from pool.base.ids import JobId

if TYPE_CHECKING:
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")


def connect(
    directory: str | None = None,
    *,
    pool: str | None = None,
    schedd: str | None = None,
    config: Sequence[str] | None = None,
) -> Pool:
    """The pool of a directory, or of the collector `pool`, or the one that the configuration names.

    `schedd` names an access point other than this host's. Use it in a `with`, or close it.
    """
    session = Session.open(directory=directory, pool=pool, config=config)
    return Pool(session, schedd)


# What the decorators below need of a face; a protocol would let mypy accept any class that happens to have both.
class _Face:
    """What performs the steps of a core over the pool's connections."""

    _core: Any
    _lines: Lines


def performed(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[_Face, P], T]:
    """A method that performs these steps, and returns their result."""

    @wraps(steps)
    def method(self: _Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lines.perform(steps(self._core, *args, **kwargs))

    return method


def streamed(
    steps: Callable[Concatenate[Any, P], Steps[None]],
) -> Callable[Concatenate[_Face, P], Iterator[JobState]]:
    """A method that yields what these steps tell."""

    @wraps(steps)
    def method(self: _Face, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[JobState]:
        return self._lines.stream(steps(self._core, *args, **kwargs))

    return method


def streaming_ads(
    steps: Callable[Concatenate[Any, P], Steps[None]],
) -> Callable[Concatenate[_Face, P], Iterator[AdNews]]:
    """A method that yields what these steps tell of ads."""

    @wraps(steps)
    def method(self: _Face, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[AdNews]:
        return self._lines.stream(steps(self._core, *args, **kwargs))

    return method


def making_jobs(
    steps: Callable[Concatenate[Any, P], Steps[list[JobId]]],
) -> Callable[Concatenate[Pool, P], list[Job]]:
    """A method that performs these steps, and returns the jobs of these ids."""

    @wraps(steps)
    def method(self: Pool, /, *args: P.args, **kwargs: P.kwargs) -> list[Job]:
        return [Job(self, id) for id in self._lines.perform(steps(self._core, *args, **kwargs))]

    return method


class Pool(_Face):
    """An access point of a pool, and the pool behind it; `connect()` returns one."""

    def __init__(self, session: Session, schedd: str | None = None) -> None:
        self.session = session
        self._core, self._lines = PoolCore(session), Lines(session, schedd)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._lines.close()

    def job(self, job: object, proc: int | None = None) -> Job:
        """The job of this id: `job(51, 0)`, `job("51.0")`; of a cluster alone, its first."""
        return Job(self, job_id(job, proc))

    # What a Pool can do stands in both faces: a list for both would lose the types, which differ by their `await`.
    submit = making_jobs(PoolCore.submit)
    jobs = performed(PoolCore.jobs)
    history = performed(PoolCore.history)
    ads = performed(PoolCore.ads)
    watch_ads = streaming_ads(PoolCore.watch_ads)
    watch = streamed(PoolCore.watch)
    wait = performed(PoolCore.wait)
    act = performed(PoolCore.act)
    remove = performed(PoolCore.remove)
    hold = performed(PoolCore.hold)
    release = performed(PoolCore.release)
    edit = performed(PoolCore.edit)


class Job(_Face):
    """One job, by its id."""

    def __init__(self, pool: Pool, id: JobId) -> None:
        self.pool = pool
        self.id = id
        self._core, self._lines = JobCore(pool._core, id), pool._lines

    def __repr__(self) -> str:
        return f"Job({self.id})"

    ad = performed(JobCore.ad)
    status = performed(JobCore.status)
    follow = streamed(JobCore.follow)
    result = performed(JobCore.result)
    remove = performed(JobCore.remove)
    hold = performed(JobCore.hold)
    release = performed(JobCore.release)
