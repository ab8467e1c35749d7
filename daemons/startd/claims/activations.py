"""Starts jobs under claims: asks once more whether the job may start, and gives it to the claim's starter.

* A job may be begun together with the grant of its claim; the schedd's word comes, and counts.
* From its start on the claim has the job's lease (JobLeaseDuration), shorter or longer than that of the one before.
* A starter that was kept may turn out to be dead: then another one is tried, once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.effects import say_started
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots
from daemons.startd.starters.living import LivingStarter
from daemons.startd.starters.starters import Starters
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.slots.ad import open_to
from pool.slots.claim import Activation
from pool.slots.lease import LEASE_MAX_S
from pool.slots.state_machine import Activity, Event, EvictionCause, State
from protocol.messages.startd import ActivateAnswer, ActivateClaim
from protocol.messages.starter import RunJob
from protocol.rpc.endpoints import Peer

WORKLIFE_S: Final = 1200.0


class Activations:
    """The start of each job."""

    def __init__(
        self, start: DaemonStart, tasks: Tasks, slots: Slots, ads: Ads, moves: Moves, starters: Starters
    ) -> None:
        self._start = start
        self._tasks = tasks
        self._slots = slots
        self._ads = ads
        self._moves = moves
        self._starters = starters
        self._early: dict[str, trio.Event] = {}
        """By execution: those that are being given to a starter before they were asked for; set when that is over."""

    async def start(self, slot: Slot, asked: ActivateClaim) -> ActivateAnswer:
        """Set a starter to work on the job, which nothing stands against."""
        self._begin(slot, asked)
        return await self._run(slot, asked)

    def begin_early(self, slot: Slot, asked: ActivateClaim) -> None:
        """The same with the grant of the claim, before its schedd says so: that word comes (`ordered`), and counts."""
        self._early[asked.activation] = trio.Event()
        self._tasks.once(self._run_early, slot, asked)  # the grant goes out first: its schedd has more to do with it

    async def _run_early(self, slot: Slot, asked: ActivateClaim) -> None:
        try:
            if not self.refusal(slot, asked.job_ad):
                self._begin(slot, asked)
                await self._run(slot, asked, early=True)
        finally:
            self._early.pop(asked.activation).set()

    async def ordered(self, slot: Slot, asked: ActivateClaim) -> bool:
        """The schedd has asked for an execution that has the slot: whether a starter has it."""
        if (over := self._early.get(asked.activation)) is not None:
            await over.wait()
        if not runs(slot, asked.activation):
            return False
        assert slot.claim is not None
        assert slot.claim.activation is not None
        running = replace(slot.claim.activation, job_ad=asked.job_ad)  # as it is since the slot was granted
        slot.claim = slot.claim.with_activation(running)
        return True

    def begin_own(self, slot: Slot, asked: ActivateClaim) -> str:
        """Give the slot to fetched work, under a claim that no schedd holds; why not, when it cannot be."""
        if not (reason := self.refusal(slot, asked.job_ad)):
            self._begin(slot, asked)
        return reason

    async def run_own(self, slot: Slot, asked: ActivateClaim) -> ActivateAnswer:
        """Set a starter to work on the fetched work that has the slot."""
        return await self._run(slot, asked)

    async def until_free(self, peer: Peer, slot: Slot, claim_id: str) -> bool:
        """A schedd sends the next job as soon as it has the report of the last; its starter is still cleaning up.

        False when the claim has ended meanwhile, or its schedd is gone.
        """
        self._moves.expect_end(slot)
        while not peer.closed.is_set() and self._slots.holding(claim_id) is slot and slot.claim is not None:
            if slot.claim.activation is None:
                return True
            await slot.freed.wait()
        return False

    def refusal(self, slot: Slot, job: ClassAd) -> str:
        """Why the job cannot start now; empty when it can."""
        claim = slot.claim
        if claim is None or self._slots.get(slot.name) is not slot:
            return "the claim is over"
        if slot.state.where != (State.CLAIMED, Activity.IDLE) or slot.state.leaving is EvictionCause.FOR_GOOD:
            return f"{slot.name} is {slot.state.state.value}/{slot.state.activity.value}"
        worklife = slot.policy.number("CLAIM_WORKLIFE", self._ads.matching(slot), job, WORKLIFE_S)
        if self._moves.stopping or claim.worklife_over(worklife, now=trio.current_time()):
            return "the claim takes no more jobs"
        ad = self._ads.matching(slot)
        if not (open_to(ad) if slot.promised else ad).eval_bool("Requirements", False, job):
            return f"{slot.name} does not take this job (START or its resources)"
        return ""

    def _begin(self, slot: Slot, asked: ActivateClaim) -> None:
        assert slot.claim is not None
        began = Activation(
            activation=asked.activation,
            job_id=asked.job_id,
            job_ad=asked.job_ad,
            started_at=trio.current_time(),
            started_wall=self._start.world.wall(),
        )
        lease = slot.claim.lease.of_job(asked.job_ad.eval_float("JobLeaseDuration", 0.0))
        slot.claim = replace(slot.claim.with_activation(began, started=True), lease=lease)
        self._moves.lease_changed(slot)
        slot.job_starts += 1
        self._ads.statistics.started(self._start.world.wall())
        slot.usage, slot.device_use = None, self._ads.monitored()
        self._moves.apply(slot, Event.ACTIVATE)

    async def _run(self, slot: Slot, asked: ActivateClaim, *, early: bool = False) -> ActivateAnswer:
        reason = ""
        for _ in range(2):  # a starter that was kept may turn out to be dead
            try:
                starter = await self._starter_for(slot)
                if not self._still_wanted(slot, asked.activation):
                    reason = "the job was called back before it started"
                    break
                self._note_given(slot, asked, asked.activation)  # not after the call: the job may be over by then
                await self._starters.run_job(starter, self._order(slot, asked, early=early))
            except PoolError as error:
                reason = str(error)
                self._note_given(slot, asked, "")
                if (failed := slot.starter) is not None:
                    self._starters.kill(failed)
                    slot.starter = None
                    await failed.gone.wait()  # the next one gets the same control group
                continue
            say_started(self._start.log, slot.short, starter, asked.activation, str(asked.job_id))
            return started(slot)
        self._start.log.always(f"{slot.short}: cannot start job {asked.job_id}: {reason}")
        if slot.claim is not None and runs(slot, asked.activation):
            self._moves.job_gone(slot)
        good = self._slots.holding(asked.claim_id) is not None
        return ActivateAnswer(started=False, reason=reason, claim_is_good=good)

    def _note_given(self, slot: Slot, asked: ActivateClaim, activation: str) -> None:
        if slot.claim is not None and self._slots.holding(asked.claim_id) is slot:
            slot.claim = replace(slot.claim, given=activation)

    async def _starter_for(self, slot: Slot) -> LivingStarter:
        if slot.starter is not None and slot.starter.usable:
            return slot.starter
        if slot.starter is not None:
            slot.starter.leave()
            slot.starter = None  # its end is not the job's
        slot.starter = starter = await self._starters.take(slot.name)
        return starter

    def _still_wanted(self, slot: Slot, activation: str) -> bool:
        """Whether nothing has called the job back while its starter was made."""
        return runs(slot, activation) and slot.state.state is State.CLAIMED

    def _order(self, slot: Slot, asked: ActivateClaim, *, early: bool) -> RunJob:
        assert slot.claim is not None
        assert slot.starter is not None
        assert slot.starter.slot is not None
        news = slot.starter.news_of(self._ads.matching(slot))
        return RunJob(
            slot=slot.starter.slot,
            activation=asked.activation,
            job_id=asked.job_id,
            job_ad=asked.job_ad,
            slot_ad=news.changed,
            slot_lacks=list(news.removed),
            shadow_address=asked.shadow_address,
            ticket=asked.ticket,
            agent_address=asked.agent_address,
            agent_ticket=asked.agent_ticket,
            lease_s=min(slot.claim.lease.lease_s, LEASE_MAX_S),  # fetched work has one without an end
            early=early,
        )


def started(slot: Slot) -> ActivateAnswer:
    """A starter has the job."""
    return ActivateAnswer(started=True, lease_s=slot.claim.lease.lease_s if slot.claim is not None else 0.0)


def has_had(slot: Slot, activation: str) -> bool:
    """Whether this execution is the one that the claim's starter was given last."""
    return slot.claim is not None and slot.claim.given == activation


def runs(slot: Slot, activation: str) -> bool:
    """Whether this execution is the one in the slot."""
    running = slot.claim.activation if slot.claim is not None else None
    return running is not None and running.activation == activation
