"""A program whose machine has no disk left is ended, and its job tried elsewhere."""

from __future__ import annotations

from typing import Any, cast

import trio

from daemons.log import Log
from daemons.starter.watches import Watches
from pool.classad import ClassAd
from pool.execute.exit import Exited
from pool.ids import JobId
from protocol.messages.schedd import Ending


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


async def test_a_full_thin_pool_sends_its_jobs_elsewhere() -> None:
    body = Body()
    watches = Watches(cast(Any, None), cast(Any, Troubled()), cast(Any, Quiet()), JobId(1, 0), Log(level=""))
    with trio.fail_after(30):
        await watches.disk(cast(Any, body))
    assert body.ended
    result = watches.verdict(Exited(signal=9), ClassAd(), 0, always_hold=True)
    assert result is not None
    assert (result.ending, result.reason) == (
        Ending.FAILED,
        "This machine has no disk for the job: the thin pool vg/pool is full",
    )
