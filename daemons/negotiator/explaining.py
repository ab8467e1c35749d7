"""Says why a job gets no slot: by the negotiation's own code, on what the negotiator knows at this moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from daemons.daemon_core.run import DaemonStart
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns, TooDear
from pool.explaining.analysis import Analysis
from pool.explaining.explain import analyze
from pool.explaining.slot_tests import MakeTests
from pool.explaining.why import Given, Refused, sentence, why_not
from pool.matching import CyclePlan, JobRequest, Offers, Snapshot
from pool.matching.candidates import Evaluate
from protocol.messages.explaining import Explained, ExplainJob
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer

SLOTS_FOR_COLUMNS = 64
RECENT_S: Final = 60.0
"""For how long it is told to whom slots were given."""
GIVEN_MAX: Final = 10_000
DEAR_MOST = 8
"""Evaluations that may cost much before a question is given up."""


class Explaining:
    """Answers one question after another. `snapshot` takes one for a request; `objection` says why none is served."""

    def __init__(
        self,
        start: DaemonStart,
        offers: Offers,
        snapshot: Callable[[JobRequest], Snapshot],
        objection: Callable[[JobRequest], str],
    ) -> None:
        self._start, self._offers, self._snapshot, self._objection = start, offers, snapshot, objection
        self._refused: dict[tuple[str, str, int], str] = {}
        self._given: deque[tuple[float, Given]] = deque(maxlen=GIVEN_MAX)
        self._turn = trio.Lock()
        self._columns: _Columns | None = None
        """Kept from question to question while some are asked; small pools never have any."""
        self._asked_at = 0.0

    def answers(self) -> list[Answer]:
        """What tools ask."""
        return [answer(ExplainJob, self.explain)]

    def note(self, plan: CyclePlan) -> None:
        """A cycle is over: keep why it had nothing for whom."""
        self._refused = {_key(one.request): one.reason for one in plan.rejections}
        for one in plan.matches:
            if (slot := self._offers.ad(one.slot)) is not None:
                self._given.append((trio.current_time(), Given(one.request.submitter, slot)))
        self._forget()

    def _forget(self) -> None:
        while self._given and self._given[0][0] < trio.current_time() - RECENT_S:
            self._given.popleft()
        if trio.current_time() - self._asked_at > RECENT_S:
            self._columns = None

    async def explain(self, peer: Peer, request: ExplainJob) -> Explained:
        """Why the job gets no slot."""
        async with self._turn:
            wanted = JobRequest(request.schedd, request.submitter, request.autocluster, request.ad, 1)
            reason = self._refused.get(_key(wanted))
            self._forget()
            refused = None if reason is None else Refused(reason, [given for _, given in self._given])
            ads, self._asked_at = self._offers.ads(), trio.current_time()
            if self._columns is None and len(ads) >= SLOTS_FOR_COLUMNS:
                self._columns = await self._start.world.threads.run_sync(_Columns)
            find = partial(_explained, self._snapshot(wanted), wanted, ads, refused, self._columns)
            analysis, reasons = await self._start.world.threads.run_sync(find)
            objection = self._objection(wanted)
            return Explained(analysis=analysis, reasons=[sentence(objection)] if objection else reasons)


class _Columns:
    """How many slots are compared at once. Loads numpy, which a small pool's negotiator never does."""

    def __init__(self) -> None:
        from pool.explaining.column_tests import KeptTests
        from pool.matching.columnar import ColumnEvaluator

        self.evaluate: Evaluate = ColumnEvaluator()
        self.tests: MakeTests = KeptTests()


def _key(request: JobRequest) -> tuple[str, str, int]:
    """Whose jobs these are: each schedd numbers the autoclusters by itself."""
    return request.schedd, request.submitter, request.autocluster


def _explained(
    snapshot: Snapshot,
    request: JobRequest,
    ads: Sequence[ClassAd],
    refused: Refused | None,
    columns: _Columns | None,
) -> tuple[Analysis, list[str]]:
    held = [ad for ad in ads if ad.eval_str("RemoteOwner") or ad.eval_str("RemoteUser")]
    overruns = Overruns(DEAR_MOST)
    try:
        with overruns:
            if columns is None:
                return analyze(request.ad, ads), why_not(snapshot, request, held, refused)
            reasons = why_not(snapshot, request, held, refused, columns.evaluate, columns.tests)
            return analyze(request.ad, ads, columns.tests), reasons
    except TooDear:
        raise PoolError(f"the expressions of a match cost too much processor time: {overruns.reason}") from None
