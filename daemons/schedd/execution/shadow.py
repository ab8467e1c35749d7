"""One execution of a job: it sets a starter to work, hears it out, and makes its end durable.

What an execution may come to is decided in `pool.jobs.execution`: the handlers of the starter's and the startd's
messages hand it events, through the methods of this class, and what it wants done is done here, each effect by one
method. While the job runs no task waits for it: one for each of ten thousand jobs would take 60 MB. When it is over a
task does, in this order: one transaction (final state, history, log event as pending, the claim's next job); the event
in the log; the answer to the starter, which may now forget the result.
It has the part of HTCondor's condor_shadow: admin-manual/introduction-admin-manual, job-event-log-codes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVarTuple

import trio

from daemons.base.faults import fault
from daemons.base.sync import Signal
from daemons.process.children import SpawnError
from daemons.schedd.core.core import Core
from daemons.schedd.core.running_policy import ask_policy
from daemons.schedd.core.sizes import taken
from daemons.schedd.execution.activation import Activation
from daemons.schedd.execution.concluding import conclude
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.jobs import run
from pool.jobs.changes import Changes, End, StopReason
from pool.jobs.claims.events import Asked, GivenUp, NotStarted, Spoiled, Spoken, Started
from pool.jobs.execution import events
from pool.jobs.execution.states import NEVER, Execution, Known, Leaving, Starter
from pool.jobs.execution.step import next_at, step, taken_up
from pool.jobs.execution.table import Effect
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.states import JobEvent, JobStatus, allowed
from protocol.messages.common import StopHow
from protocol.messages.startd import ActivateClaim, DeactivateClaim, WakeStarter
from protocol.rpc import endpoints
from protocol.rpc.endpoints import ConnectionLost, Peer, TimedOut

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.files.agents import Agents

Args = TypeVarTuple("Args")

WAKE_S: Final = 5.0
WAKE_TRIES: Final = 4
"""How long, and how often, a starter is waited for that somebody wants something of."""
_CAUSES: Final = {JobStatus.HELD: "hold", JobStatus.REMOVED: "remove"}
"""What the starter's hooks hear of why a job ends."""


class Shadow:
    """One execution. `job`, `claim` and `activation` never change."""

    __slots__ = (
        *("_agents", "_alarm", "_is_begun", "_news", "_order", "_pause", "_terms", "activation", "claim", "claims"),
        *("core", "execution", "is_acknowledged", "is_durable", "is_early", "is_prepared", "job", "starter"),
    )

    def __init__(
        self,
        core: Core,
        claims: Claims,
        agents: Agents,
        claim: Claim,
        job: Job,
        activation: str,
        expanded: dict[str, object],
    ) -> None:
        self.core = core
        self.claims = claims
        self._agents = agents
        self.claim = claim
        self.job = job
        self.activation = activation
        self._terms = Activation(core, claims, agents, claim, job, activation, expanded)
        """What its starter is given."""
        self.execution = Execution(claim.slot_name, alive_s=claim.alive_s)
        """What it has come to."""
        self._alarm: trio.CancelScope | None = None
        """There while time may bring something."""
        self._pause: trio.CancelScope | None = None
        """There while its start has to wait for others'."""
        self._order: Callable[[str], ActivateClaim] | None = None
        self._is_begun = False
        self.starter: Peer | None = None
        """The connection to the starter, while it is there."""
        self.is_durable = False
        """The execution is on disk: from now on its starter may run the job."""
        self.is_early = False
        """A starter may have it already."""
        self.is_prepared = False
        """What its starter is given is ready."""
        self.is_acknowledged = False
        """The result is durable and logged; the starter may forget it."""
        self._news = Signal()

    @property
    def is_given_up(self) -> bool:
        """It ended without having run, or nobody knows how: a starter that wants to run it comes too late."""
        return self.execution.is_unwelcome

    @property
    def is_resting(self) -> bool:
        """Its starter has left the job alone, and its startd can wake it."""
        return self.execution.starter is Starter.RESTS

    @property
    def _ad(self) -> ClassAd:
        return self.core.queue.ad(self.job)

    def _start(self, task: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Do something beside the task; an error in it that nobody foresaw costs this execution and its claim."""
        self.core.tasks.start(task, *args, failed=self._failed)

    def _failed(self, error: Exception) -> None:
        self.claims.happens(self.claim, Spoiled())
        self.core.give_up(self.job, error)
        self.is_lost(f"The schedd failed to run the job: {error}")

    def _happens(self, event: events.Event) -> None:
        """Something has happened: do what the execution wants done because of it.

        What is done may make more happen, which the execution then hears of at once.
        """
        self.execution, effects = step(self.execution, event, now=trio.current_time())
        for effect in effects:
            _PERFORM[effect](self, event)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """See to it that it hears of the time when that may bring something."""
        deadline, alarm = next_at(self.execution), self._alarm
        if alarm is None and deadline < NEVER:
            self._alarm = trio.CancelScope(deadline=deadline)
            self._start(self._await_time, self._alarm)
        elif alarm is not None and deadline < NEVER:
            alarm.deadline = deadline
        elif alarm is not None:
            alarm.cancel()

    async def _await_time(self, alarm: trio.CancelScope) -> None:
        with alarm:
            await trio.sleep_forever()
        self._alarm = None
        self._happens(events.Time())

    # ---- its course

    async def begin(self) -> None:
        """Set the execution going; when it is over, and not before it is durable, the claim goes on (`goes_on`)."""
        is_new = self.execution.known is Known.UNASKED
        if is_new and not self.is_early:
            self._start(self._prepare)  # it becomes durable meanwhile; until then its starter gets no answer
        if not self.is_durable:
            if not self.is_early:
                await self.core.writer.after_words()  # the startd's
            await self.core.writer.durable()
            self.note_durable()
            fault("schedd.claim_granted")
        if is_new and self.is_early:  # it is the answer that its starter waits for
            self._start(self._prepare)
        self._is_begun = True
        if self.execution.is_over:
            self._end()
        else:
            self._set_alarm()

    def _end(self) -> None:
        """It is known what came of it; a task concludes it."""
        self._news.fire()
        if self._pause is not None:
            self._pause.cancel()
        if self._is_begun:
            self._goes_on()

    def _goes_on(self) -> None:
        self.claims.goes_on(self)

    def note_durable(self) -> None:
        """The execution is on disk."""
        self.is_durable = True
        self._news.fire()

    def acknowledge(self) -> None:
        """Its starter may forget the result."""
        self.is_acknowledged = True
        self._news.fire()

    async def until_prepared(self) -> None:
        """Wait until all is ready that it is started with, or it is over."""
        await self._news.until(lambda: self.is_prepared or self.execution.is_over)

    def job_ad(self) -> ClassAd:
        """The job as its starter sees it."""
        return self._terms.job_ad()

    async def until_durable(self) -> None:
        """Wait until the starter may run the job."""
        await self._news.until(lambda: self.is_durable)

    async def until_acknowledged(self) -> None:
        """Wait until the starter may forget the result."""
        await self._news.until(lambda: self.is_acknowledged)

    async def conclude(self) -> Shadow | None:
        """Make what came of it durable; the claim's next execution, already begun in the same transaction."""
        core = self.core
        following = conclude(self, self.execution)
        last_event = core.queue.next_event - 1
        await core.writer.durable()
        fault("schedd.final_committed")
        if following is not None:
            following.note_durable()
        await self._agents.wait(self.job.cluster.owner, last_event)
        fault("schedd.event_marked")
        self.leave()
        return following

    def leave(self) -> None:
        """What came of it is durable and logged."""
        self.acknowledge()
        self.core.executions.shadows.pop(self.activation, None)
        if self._terms.moves_files:
            self._start(self._terms.close_transfer)

    async def _prepare(self) -> None:
        """Make ready what the starter is given, unless the job need not run at all."""
        core = self.core
        pause_s = core.executions.pause_before_start(self._ad, self.claim.slot_ad)
        if pause_s > 0:
            with trio.move_on_after(pause_s) as self._pause:
                await trio.sleep_forever()
            self._pause = None
        if self.execution.is_over:
            return
        try:
            if await self._terms.may_be_skipped():
                self._happens(events.UpToDate())
                return
            self._order = await self._terms.order()
        except (ConnectionLost, TimedOut, SpawnError) as error:  # the file agent's trouble: not for ever, and not here
            self._cannot_start(str(error), slot_is_good=False)
        except PoolError as error:
            core.hold(self.job, str(error), HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT)
            self._cannot_start("", slot_is_good=True)
        else:
            self._happens(events.Prepared())
            self.is_prepared = True
            self._news.fire()
            if self.execution.is_over:  # nobody wants it any more
                await self._terms.close_transfer()

    async def _ask(self) -> None:
        """Have the startd start the job."""
        order, self._order = self._order, None  # the job's whole ad is in it
        assert order is not None
        self.claims.happens(self.claim, Asked())
        try:
            answer = await self._terms.ask(order)
        except (ConnectionLost, TimedOut):  # it may have been started: the lease, or the way back, will tell
            reason = f"The connection to {self.claim.slot_name} was lost while the job was started"
            self._happens(events.AnswerLost(reason))
            return
        except PoolError as error:
            self._cannot_start(str(error), slot_is_good=False)
            return
        if answer.started:
            before = self.claim.life.lease_s
            self.claims.happens(self.claim, Started(answer.lease_s))
            if self.claim.life.lease_s != before and self.claim.shadow is self:
                self.core.queue.claim_works(self.claim.work())
            self._happens(events.Started())
            return
        self.claims.happens(self.claim, NotStarted())
        self._cannot_start(answer.reason or "no reason given", slot_is_good=False)

    def _cannot_start(self, reason: str, *, slot_is_good: bool) -> None:
        if reason and not self.execution.is_over:
            self.core.log.always(f"Job {self.job.id} was not started on {self.claim.slot_name}: {reason}")
        self._happens(events.CannotStart(reason, slot_is_good))

    # ---- effects

    def _count_start(self, event: events.Event) -> None:
        """The program was started; of one that has reported its end, that may be news (a schedd died of the word)."""
        at, said = self.core.now(), ClassAd()
        if isinstance(event, events.Executing):
            at, said = event.at, event.ad
        elif isinstance(event, events.Reported):
            at = event.end.at or at
        self._started(run.executing(self._ad, self.claim.slot_ad, self.claim.startd, said, at), at)

    def _started(self, changes: Changes, at: float) -> None:
        self.core.apply(self.job, changes, at)

    def _note(self, event: events.Event) -> None:
        assert isinstance(event, events.Said)
        self._log(event.change(self._ad))

    def _log_back(self, event: events.Event) -> None:
        assert isinstance(event, events.StarterHere)
        self._log(run.reconnected(self._ad, event.address))

    def _ask_policy(self) -> None:
        ask_policy(self.core, self.job, is_leaving=self.execution.is_told)

    def _log_away(self) -> None:
        self._log(run.disconnected(self._ad, self.execution.silence, self.core.now()))

    def _log(self, changes: Changes) -> None:
        if changes != Changes():
            self.core.apply(self.job, changes)

    def _give_slot_up(self) -> None:
        self.core.log.always(f"{self.claim.slot_name} did not end job {self.job.id}, and is given up")
        self.claims.happens(self.claim, GivenUp())

    async def _tell_to_leave(self) -> None:
        one, startd = self.execution, self.claims.startd(self.claim.startd)
        is_fast = isinstance(one.state, Leaving) and one.state.fast
        order = partial(
            DeactivateClaim,
            how=StopHow.FAST if is_fast else StopHow.GRACEFUL,
            reason=one.stop.reason if one.stop is not None else "",
            cause=_CAUSES.get(self.job.status, ""),
            transfer=one.transfer,
        )
        try:
            id = await startd.id_of(self.claim)
            peer = await startd.peer()
            if not self.execution.is_over:
                self.claims.happens(self.claim, Spoken())
                await peer.call(order(claim_id=id))
        except endpoints.RemoteError as error:
            if not self.execution.is_over:
                self.core.log.always(f"{self.claim.slot_name} does not end job {self.job.id}: {error}")
            self._happens(events.NotHeeded(str(error)))
        except PoolError:
            self._happens(events.NotTold())

    # ---- what the schedd wants of it

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """The job shall leave its slot; with `transfer` its output comes back, as far as it has any."""
        self._happens(self._order_to_leave(StopReason(reason, code, subcode), fast=fast, transfer=transfer))

    def _order_to_leave(self, stop: StopReason, *, fast: bool = False, transfer: bool = False) -> events.Stop:
        """A job that was removed leaves the queue, and gives its slot back, even if nobody there obeys or answers.

        One that may run again has to wait for the end of its claim: it must not run twice.
        """
        one, patience_s = self.execution, NEVER
        if self.job.status is JobStatus.REMOVED:
            leaving_s = 0.0 if fast else self.claim.vacate_s(self._ad)
            patience_s = 2 * self.core.settings.killing_timeout_s + leaving_s
        is_there = not one.is_over and one.known is not Known.UNASKED
        pause_s = self.core.executions.pause_before_stop() if is_there and one.heeds(fast=fast) else 0.0
        return events.Stop(stop, fast, transfer, pause_s, patience_s)

    def check_policy(self) -> None:
        """Ask the job's periodic policy."""
        self._happens(events.PolicyDue())

    def is_lost(self, reason: str) -> None:
        """The claim is over, and nobody said what became of the job."""
        self._happens(events.ClaimLost(reason))

    def recovered(self) -> None:
        """This execution began in an earlier life of the schedd."""
        self.is_prepared = True
        self.note_durable()
        ad = self._ad
        began, started = ad.eval_int("JobCurrentStartExecutingDate"), ad.eval_int("ShadowBday", 0)
        stop: events.Stop | None = None
        if self.job.status in (JobStatus.HELD, JobStatus.REMOVED):
            why = StopReason(ad.eval_str("HoldReason") or ad.eval_str("RemoveReason") or "")
            stop = self._order_to_leave(why)
        self.execution = taken_up(
            self.execution,
            stop,
            away="JobDisconnectedDate" in ad,
            counted=began is not None and began >= started,
            now=trio.current_time(),
        )
        self._start(self._terms.take_up)

    # ---- what the startd says

    def slot_lost(self, reason: str) -> None:
        """The connection to the startd is lost; the lease still runs."""
        self._doubt_starter()
        self._happens(events.SlotLost(reason))

    def slot_away(self) -> None:
        """The startd cannot be reached; the lease still runs."""
        self._doubt_starter()
        self._happens(events.SlotAway())

    def slot_came_back(self, activation: str, known: Known) -> None:
        """The startd is back, and runs `activation` under the claim ("" for nothing).

        `known`: what was known of its part when it was asked.
        """
        runs_it = activation == self.activation
        if not runs_it:
            self._doubt_starter()
        self._happens(events.SlotRunsIt() if runs_it else events.SlotRunsNothing(known))

    def vacated(self, stop: StopReason) -> None:
        """The startd has told the job to leave, for reasons of its own."""
        self._happens(events.Vacated(stop))

    def nothing_runs(self, end: End, stop: StopReason | None = None) -> None:
        """The startd says that nothing runs any more: unless its starter reports, this is the job's end."""
        self._doubt_starter()
        self._happens(events.NothingRuns(end, stop))

    def frozen(self, suspended: bool) -> None:
        """The startd has frozen the job, or thawed it."""
        if allowed(self.job.status, JobEvent.SUSPEND if suspended else JobEvent.CONTINUE):
            change = run.suspended if suspended else run.continued
            self._happens(events.Said(partial(change, now=self.core.now())))

    def _doubt_starter(self) -> None:
        """What is left of the connection to its starter may be this end alone."""
        if self.starter is not None:
            self.starter.doubt()

    # ---- what the starter says

    def starter_ready(self, peer: Peer, address: str) -> None:
        """The starter is here, for the first time or again."""
        self.starter = peer
        peer.may_rest(self.claim.alive_s)
        self.claim.meet(peer)
        self._happens(events.StarterHere(address))
        self._news.fire()
        fault("schedd.activated")

    def starter_rests(self, peer: Peer) -> None:
        """It will close its connection, and the startd can wake it."""
        if self.starter is peer:
            self._happens(events.StarterRests())

    async def awake(self) -> Peer | None:
        """The starter, woken if it rests; None when it cannot be reached."""
        for _ in range(WAKE_TRIES):  # one that has just said that it rests may not have been heard by its startd
            if not self.is_resting:  # its startd can wake it, and says when it cannot
                break
            try:
                await self.claims.startd(self.claim.startd).call(self.claim, lambda id: WakeStarter(claim_id=id))
            except PoolError as error:
                self.core.log.always(f"The starter of job {self.job.id} cannot be woken: {error}")
                break
            with trio.move_on_after(WAKE_S):
                await self._news.until(lambda: self.execution.starter is Starter.HERE)
        return self.starter

    def starter_gone(self, peer: Peer) -> None:
        """The claim's connection to its starter is lost."""
        if self.starter is not peer:
            return
        self.starter = None
        self._happens(events.StarterLost("The connection to the starter was lost"))

    def executing(self, at: float, started: ClassAd) -> None:
        """The program was started."""
        self._happens(events.Executing(at, started))

    def reported(self, ad: ClassAd) -> ClassAd:
        """What of a report on it is its starter's to say."""
        return taken(self.core, self.job, self.core.settings.edits.reported(ad))

    def update(self, ad: ClassAd) -> None:
        """What the job uses now; its policy may have something to say about it."""
        self._happens(events.Said(partial(run.used, update=ad)))
        self.check_policy()

    def notice(self, message: str) -> None:
        """The starter has something to say to the job's user."""
        self._happens(events.Said(lambda _: run.noticed(self.claim.slot_name, message)))

    def transfer_queued(self, *, upload: bool) -> None:
        """The job's files wait for their turn."""
        self._happens(events.Said(partial(run.transfer_queued, upload=upload, now=self.core.now())))

    def transfer_started(self, *, upload: bool) -> None:
        """It is their turn."""
        self._happens(events.Said(partial(run.transfer_started, upload=upload, now=self.core.now())))

    def take_end(self, end: End) -> None:
        """The starter's report of the end; the first one counts."""
        self._happens(events.Reported(end))


_PERFORM: Final[dict[Effect, Callable[[Shadow, events.Event], None]]] = {
    Effect.ASK: lambda one, _: one._start(one._ask),
    Effect.COUNT_START: lambda one, event: one._count_start(event),
    Effect.NOTE: lambda one, event: one._note(event),
    Effect.ASK_POLICY: lambda one, _: one._ask_policy(),
    Effect.LOG_AWAY: lambda one, _: one._log_away(),
    Effect.LOG_BACK: lambda one, event: one._log_back(event),
    Effect.TELL: lambda one, _: one._start(one._tell_to_leave),
    Effect.GIVE_SLOT_UP: lambda one, _: one._give_slot_up(),
    Effect.CONCLUDE: lambda one, _: one._end(),
}
"""What is done for each effect."""
