"""What condor_dagman asks of the schedd: to submit, to tell of jobs, to remove them, and to keep its own job's ad."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

import trio

from minipool.client.async_line import AsyncLine
from minipool.client.core import CALL_TIMEOUT_S
from minipool.client.model import expression
from minipool.client.patience import LONGEST_PAUSE_S, Attempts
from minipool.client.steps import Steps, Tell, call, changes, items
from minipool.client.submission import Queued, queue
from pool.base.errors import PeerError, PoolError
from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.submit import SubmitPlan
from protocol.messages.schedd import (
    Action,
    ActOnJobs,
    EditJobs,
    JobsChanged,
    QueryHistory,
    QueryJobs,
    Selection,
    WatchJobs,
)
from protocol.rpc.remote import ConnectionLost
from protocol.wire.ad_table import ads_of

SUBMIT_S: Final = 600.0
ENDED: Final = [
    *("ClusterId", "ProcId", "JobStatus", "ExitCode", "ExitBySignal", "ExitSignal", "NumJobStarts", "DAGNodeName"),
    *("TotalSubmitProcs", "RemoveReason"),
]
"""What is asked of jobs that have left."""


class Schedd:
    """The schedd, over one connection that is made anew when it is lost."""

    def __init__(self, line: AsyncLine) -> None:
        self._line = line

    async def submit(self, plan: SubmitPlan, left: Callable[[], None]) -> Queued:
        """Queue the plan's jobs; `left` is called when the request has left.

        ConnectionLost: it is not known whether they are queued.
        """
        return await self._line.perform(queue(plan, timeout=SUBMIT_S), left=left)

    async def watch(self, constraint: str, projection: Sequence[str]) -> AsyncIterator[JobsChanged | None]:
        """The jobs as they are, then each change, without end; None when all is about to be told anew."""
        request = WatchJobs(select=Selection(constraint=constraint, all=True), projection=list(projection))
        # For ever: nodes' jobs run on while the schedd is away, and somebody has to see to what comes after them.
        while True:
            try:
                async for changed in self._line.stream(_told(request)):
                    yield changed
            except PeerError:  # it has been gone for minutes: this process can do nothing without it, and waits on
                await trio.sleep(LONGEST_PAUSE_S)

    async def history(self, *, ids: Sequence[JobId] = (), constraint: str | None = None) -> list[ClassAd]:
        """The ads of jobs that have left."""
        select = Selection(ids=[str(id) for id in ids], constraint=constraint, all=not ids)
        return await self._asked(lambda: _history(select))

    async def factories(self, constraint: str) -> list[ClassAd]:
        """The clusters that make jobs yet."""
        select = Selection(constraint=constraint, all=True)
        query = QueryJobs(select=select, projection=["ClusterId", "DAGNodeName"], factories=True)
        return await self._asked(lambda: _queue(query))

    async def job(self, id: JobId) -> ClassAd | None:
        """A job in the queue."""
        found = await self._asked(lambda: _queue(QueryJobs(select=Selection(ids=[str(id)]))))
        return found[0] if found else None

    async def remove(self, constraint: str, reason: str) -> None:
        """Remove these jobs; that there are none is no mistake."""
        request = ActOnJobs(select=Selection(constraint=constraint, all=True), action=Action.REMOVE, reason=reason)
        while True:
            try:
                await self._line.perform(call(request, CALL_TIMEOUT_S))
                return
            # To ask twice does no harm.
            except ConnectionLost:  # what is removed already is not removed again
                await trio.sleep(LONGEST_PAUSE_S / 10)

    async def edit(self, id: JobId, attributes: Mapping[str, object]) -> None:
        """Set attributes of the own job."""
        assignments = {name: expression(value) for name, value in attributes.items()}
        request = EditJobs(select=Selection(ids=[str(id)]), assignments=assignments)
        try:
            await self._line.perform(call(request, CALL_TIMEOUT_S))
        except PoolError as error:
            sys.stderr.write(f"WARNING: queue transaction failed.  No attributes were set: {error}\n")

    async def _asked(self, make: Callable[[], Steps[list[ClassAd]]]) -> list[ClassAd]:
        while True:
            try:
                return await self._line.perform(make())
            except PeerError:
                await trio.sleep(LONGEST_PAUSE_S)


def _told(request: WatchJobs) -> Steps[None]:
    def one(changed: JobsChanged | None) -> Steps[bool]:
        yield Tell(value=changed)
        return False

    return changes(request, Attempts(0, None), one)


def _history(select: Selection) -> Steps[list[ClassAd]]:
    return [
        ad for batch in (yield from items(QueryHistory(select=select, projection=ENDED), None)) for ad in ads_of(batch)
    ]


def _queue(query: QueryJobs) -> Steps[list[ClassAd]]:
    return [ad for batch in (yield from items(query, None)) for ad in ads_of(batch)]
