"""A running pool that the Python API finds, and a pool as each of the API's two faces has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import minipool
from tests.docs import pages
from tests.whole.real_pool import RealPool, real_pool

Opens = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture(scope="module")
def running() -> Iterator[RealPool]:
    """A pool that others use."""
    with real_pool(user=None, start=False, NUM_CPUS=4) as pool:
        (pool.directory / "home").mkdir()
        pages.start_in_use(pool)
        yield pool


@pytest.fixture
def here(running: RealPool, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the pool as the working directory, and the pool as the one that is found."""
    work = running.directory / "work"
    work.mkdir(exist_ok=True)
    monkeypatch.chdir(work)
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    monkeypatch.setenv("POOL_DIR", str(running.directory))
    return work


class Awaited:
    """A pool, a job or a stream of the blocking face, called as over trio: what is asked for has happened before."""

    def __init__(self, it: Any) -> None:
        self.it = it

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.it, name)
        if name == "job":
            return lambda *given: Awaited(found(*given))
        if name in ("watch", "watch_ads", "follow"):
            return lambda *given, **options: _stream(found(*given, **options))
        if not callable(found):
            return found

        async def ask(*given: Any, **options: Any) -> Any:
            answer = found(*given, **options)
            return [Awaited(job) for job in answer] if name == "submit" else answer

        return ask


async def _stream(states: Iterator[Any]) -> AsyncIterator[Any]:
    for state in states:
        yield state


@asynccontextmanager
async def _blocking() -> AsyncIterator[Any]:
    with minipool.connect() as pool:
        yield Awaited(pool)


@pytest.fixture(params=["blocking", "trio"])
def opens(request: pytest.FixtureRequest, here: Path) -> Opens:
    """Opens the pool by one of the API's faces, and then by the other."""
    return _blocking if request.param == "blocking" else minipool.open_pool
