"""A parallel job that runs: its nodes, each an execution under a claim of its own, and what their ends make of the job.

All nodes begin in one transaction, and what becomes of the job is one, too, when all of them are over; until then a
node's starter gets no answer to its report, and says it again to a schedd that comes back. So no node runs on, or
again, beside a job that has ended. What the ends mean is decided in `pool.jobs.execution.gang`.
It has the part of HTCondor's parallel shadow: users-manual/parallel-applications.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from daemons.base.faults import fault
from daemons.schedd.execution.concluding import end_job, leave_slot
from daemons.schedd.execution.shadow import Shadow
from pool.jobs.changes import Changes
from pool.jobs.execution import events
from pool.jobs.execution import gang as decide
from pool.jobs.execution.states import ByReport, Leaving, Lost, Outcome, Over
from pool.jobs.userlog import event_log as log
from pool.jobs.vocabulary.hold_codes import VacateCode
from pool.jobs.vocabulary.nodes import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.core.core import Core
    from daemons.schedd.files.agents import Agents
    from pool.jobs.queue.cluster import Job
    from pool.jobs.transfers.progress import TimedEvent


class NodeShadow(Shadow):
    """One node's execution: the job's ad and log hear of node 0, and of the others what the gang says."""

    __slots__ = ("gang",)

    def __init__(self, gang: Gang, claim: Claim, activation: str, expanded: dict[str, object]) -> None:
        assert claim.node is not None
        job = gang.job_of[claim.node]
        super().__init__(gang.core, gang.claims, gang.agents, claim, job, activation, expanded)
        self.gang = gang

    @property
    def node(self) -> int:
        """Its number."""
        assert self.claim.node is not None
        return self.claim.node

    def go(self) -> None:
        """Set it going beside the other nodes."""
        self._start(self.begin)

    def _goes_on(self) -> None:
        self.gang.ended(self)

    def _started(self, changes: Changes, at: float) -> None:
        self.gang.started(self, changes, at)

    def _note(self, event: events.Event) -> None:
        if self.node == 0:
            assert isinstance(event, events.Said)
            self.gang.noted(event.change(self._ad))

    def _log_back(self, event: events.Event) -> None:
        if self.node == 0:
            super()._log_back(event)

    def _log_away(self) -> None:
        if self.node == 0:
            super()._log_away()


class Gang:
    """One parallel job's nodes, by number."""

    def __init__(self, core: Core, claims: Claims, agents: Agents, jobs: Sequence[Job]) -> None:
        self.core, self.claims, self.agents = core, claims, agents
        self.job, *self._others = jobs
        self.job_of = [job for job in jobs for _ in range(size_of(core.queue.ad(job)))]
        """Of each node, of which proc it is."""
        self._size, self._policy = len(self.job_of), decide.policy_of(core.queue.ad(self.job))
        self.nodes: dict[int, NodeShadow] = {}
        self._ended: dict[int, Outcome] = {}
        self._started: dict[int, tuple[Changes, TimedEvent]] = {}
        """Nodes whose start the log has not been told yet."""
        self._is_concluding = False
        self.over = trio.Event()
        """Set when its slots have gone on."""
        core.executions.gangs |= dict.fromkeys(jobs, self)

    def shadows(self) -> list[Shadow]:
        """The executions of its nodes."""
        return list(self.nodes.values())

    def add(self, claim: Claim, activation: str, expanded: dict[str, object]) -> NodeShadow:
        """The node that the claim runs."""
        shadow = NodeShadow(self, claim, activation, expanded)
        self.nodes[shadow.node] = shadow
        self.core.executions.shadows[activation] = shadow
        shadow_of = self.core.executions.shadow_of
        if shadow.node == 0 or shadow.job not in shadow_of:
            shadow_of[shadow.job] = shadow
        return shadow

    def go(self) -> None:
        """Set all nodes going; of one that an earlier life of the schedd has begun, and lost, nothing is known."""
        for node in range(self._size):
            if node not in self.nodes:
                self._ended[node] = Lost(f"Node {node} of the parallel job was lost while the schedd was away")
        for shadow in list(self.nodes.values()):
            shadow.go()
        self._consider()

    # ---- what the job's policy and users want

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """All nodes shall leave."""
        for shadow in list(self.nodes.values()):
            if not shadow.execution.is_over:
                shadow.stop(reason, code, subcode, fast=fast, transfer=transfer)

    def check_policy(self) -> None:
        """Ask the periodic policy of each of its procs."""
        asked = set[Job]()
        for shadow in list(self.nodes.values()):
            if shadow.job not in asked and not shadow.execution.is_over:
                asked.add(shadow.job)
                shadow.check_policy()

    # ---- what its nodes say

    def noted(self, changes: Changes) -> None:
        """What node 0 says is noted of the first proc, and a new state of all."""
        if changes == Changes():
            return
        self.core.apply(self.job, changes)
        if changes.move is not None:
            for job in self._others:
                self.core.apply(job, decide.alongside(changes, job.status))

    def started(self, shadow: NodeShadow, changes: Changes, at: float) -> None:
        """A node's program was started; when all are, the log is told."""
        (event,) = (one for one in changes.events if isinstance(one, log.Executing))
        self._started[shadow.node] = (changes, (at, decide.node_executing(shadow.node, event)))
        if len(self._started) == self._size:
            head, (at, _) = self._started[0]
            for job in self._others:
                changes, (began, _) = self._started[self.job_of.index(job)]
                self.core.apply(job, changes, began)
            told = self._told_of_starts()
            self.core.apply(self.job, decide.all_executing(head, told), max(at, *(one for one, _ in told)))

    def _told_of_starts(self) -> tuple[TimedEvent, ...]:
        told = tuple(self._started[node][1] for node in sorted(self._started))
        self._started.clear()
        return told

    def ended(self, shadow: NodeShadow) -> None:
        """It is known what came of a node."""
        assert isinstance(shadow.execution.state, Over)
        self._ended[shadow.node] = shadow.execution.state.outcome
        self._consider()

    def _consider(self) -> None:
        """See what the ends of nodes make of the job, and of the other nodes."""
        verdict = decide.verdict(self._policy, self._size, self._ended)
        if verdict is None or self._is_concluding:
            return
        if len(self._ended) == self._size:
            self._is_concluding = True
            self.core.tasks.start(self._conclude, verdict.node, failed=partial(self.core.give_up, self.job))
            return
        for shadow in list(self.nodes.values()):
            # One that leaves already, because the job was put on hold or removed, has the time that it was given.
            if not shadow.execution.is_over and not isinstance(shadow.execution.state, Leaving):
                shadow.stop(verdict.reason, VacateCode.SCHEDD_VACATE, 0, fast=verdict.is_done)

    async def _conclude(self, node: int) -> None:
        try:
            await self._end(node)
        finally:
            self.over.set()

    async def _end(self, node: int) -> None:
        """Make what came of the job durable, and let its slots go on."""
        core, job, shadows = self.core, self.job, [self.nodes[one] for one in sorted(self.nodes)]
        starts, keep_s = self._told_of_starts(), core.queue.ad(job).eval_float("KeepClaimIdle")
        for at, event in starts:
            core.write(job, event, at)
        for shadow in shadows:
            outcome = self._ended[shadow.node]
            if isinstance(outcome, ByReport) and decide.has_exited(outcome):
                core.write(job, decide.node_terminated(shadow.node, outcome.end.ad), outcome.end.at or None)
        counts = self.nodes.get(node, shadows[0])
        changes, fate = end_job(core, job, replace(counts.execution, state=Over(self._ended[node])))
        for other in self._others:
            core.executions.shadow_of.pop(other, None)
            other.busy = False
            core.ended(other, decide.alongside(changes, other.status), fate)
        for one in (job, *self._others):
            core.executions.gangs.pop(one, None)
        for shadow in shadows:
            if not shadow.claim.life.is_over:
                self.claims.serve_node(shadow.claim, None)
        self.claims.gangs.expect([shadow.claim for shadow in shadows])
        following = [(shadow, leave_slot(shadow, shadow.execution)) for shadow in shadows]
        last_event = core.queue.next_event - 1
        await core.writer.durable()
        fault("schedd.final_committed")
        for _, then in following:
            if then is not None:
                then.note_durable()
        await self.agents.wait(job.cluster.owner, last_event)
        fault("schedd.event_marked")
        for shadow, then in following:
            shadow.leave()
            if then is not None or not shadow.claim.life.may_have_job:
                self.claims.carry_on(shadow.claim, shadow.job, then)
        left = [one.claim for one, then in following if then is None and one.claim.life.may_have_job]
        self.claims.gangs.kept.keep(left, keep_s)
