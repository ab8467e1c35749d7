"""What becomes of jobs whose memory or whose machine's disk is used up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio

from daemons.base.log import Log
from daemons.starter.launch.bare import BareBody
from daemons.starter.watch.watches import Watches
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.execute.exit import Exited
from pool.jobs.vocabulary.endings import Ending


class Troubled:
    """A disk whose thin pool gets full."""

    looks = 0

    def trouble(self) -> str:
        self.looks += 1
        return "the thin pool vg/pool is full" if self.looks == 3 else ""

    async def pause(self, measuring_s: float) -> None:
        await trio.lowlevel.checkpoint()


class Quiet:
    """Figures that are within their bounds."""

    def measure_disk(self) -> None:
        pass

    def over_disk(self) -> None:
        return None


class Body:
    """A program that can be ended."""

    ended = False

    async def end(self) -> None:
        self.ended = True


class OutOfMemory:
    """A control group in which the kernel has killed, and whose caches have counted too."""

    def oom_killed(self) -> bool:
        return True

    def peak(self) -> int:
        return 130 << 20


def test_a_hold_never_reports_more_memory_than_the_hard_limit_allows() -> None:
    figures = SimpleNamespace(usage=SimpleNamespace(resident_mb=400), over_disk=lambda: None)
    watches = Watches(cast(Any, OutOfMemory()), cast(Any, None), cast(Any, figures), JobId(1, 0), Log(level=""))
    watches.note_memory(BareBody(cast(Any, None), cast(Any, None), cast(Any, None)))
    result = watches.verdict(Exited(signal=9), ClassAd(), 128 << 20, always_hold=True)
    assert result is not None
    assert "limit of 128 megabytes. Last measured usage: 128 megabytes" in result.reason


async def test_a_full_thin_pool_sends_its_jobs_elsewhere() -> None:
    body = Body()
    watches = Watches(cast(Any, None), cast(Any, Troubled()), cast(Any, Quiet()), JobId(1, 0), Log(level=""))
    with trio.fail_after(60):
        await watches.disk(cast(Any, body))
    assert body.ended
    result = watches.verdict(Exited(signal=9), ClassAd(), 0, always_hold=True)
    assert result is not None
    assert (result.ending, result.reason) == (
        Ending.FAILED,
        "This machine has no disk for the job: the thin pool vg/pool is full",
    )
