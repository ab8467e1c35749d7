"""Looks, as the user, whether a job's output is newer than its input."""

from __future__ import annotations

import os
import stat

import trio

from pool.classad import ClassAd
from pool.files.dataflow import is_up_to_date
from protocol.messages.agent import AskUpToDate, UpToDate
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer


class Dataflow:
    """Answers the schedd."""

    def __init__(self) -> None:
        self._turn = trio.CapacityLimiter(1)

    def answers(self) -> list[Answer]:
        """What the schedd asks."""
        return [answer(AskUpToDate, self.ask)]

    async def ask(self, _peer: Peer, request: AskUpToDate) -> UpToDate:
        """Compare one job's files at a time, in a thread: they may be far away."""
        return UpToDate(answer=await trio.to_thread.run_sync(_look, request.job_ad, limiter=self._turn))


def _look(job: ClassAd) -> bool:
    return is_up_to_date(job, _changed)


def _changed(path: str) -> int | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    # A directory's time says nothing about what is in it.
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None
