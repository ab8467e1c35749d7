"""When a job's files began to move, and when they had moved; what takes long is told while it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from daemons.starter.report.local_link import Link
from pool.base.errors import PeerError
from pool.classad import ClassAd, Member
from protocol.messages.shadow import JobUpdate
from protocol.messages.starter import RunJob

SLOW_S: Final = 1.0


class TransferTimes:
    """One activation's; `told` is what the job's ad shall say."""

    def __init__(self, told: dict[str, Member]) -> None:
        self._told = told
        self._under_way = ""
        self._began = trio.Event()

    @contextmanager
    def of(self, direction: str) -> Iterator[None]:
        """`Input` or `Output` moves in this block. An attempt that will be made again goes on as the same."""
        short = "In" if direction == "Input" else "Out"
        started = f"Transfer{short}Started"
        self._told.setdefault(started, int(time.time()))
        self._told[f"JobCurrentStartTransfer{direction}Date"] = self._told[started]
        self._under_way = started
        self._began.set()
        again = False
        try:
            yield
        except (PeerError, trio.Cancelled):
            again = True
            raise
        finally:
            self._under_way = ""
            if not again:
                for name in (f"Transfer{short}Finished", f"JobCurrentFinishTransfer{direction}Date"):
                    self._told[name] = int(time.time())

    async def tell(self, link: Link, request: RunJob) -> None:
        """Say of transfers that take long that they go on."""
        while True:
            await self._began.wait()
            self._began, moving = trio.Event(), self._under_way
            await trio.sleep(SLOW_S)
            if moving and self._under_way == moving:
                ad = ClassAd({moving: self._told[moving]})
                await link.update(JobUpdate(job_id=request.job_id, activation=request.activation, ad=ad))
