"""One task per execution of a job: it sets a starter to work, hears it out, and makes its end durable.

The handlers of the starter's and the startd's messages call the methods of this class; the task waits for the end and
then does, in this order: one transaction (final state, history, log event as pending, the claim's next job); the event
in the log; the answer to the starter, which may now forget the result.
It has the part of HTCondor's condor_shadow: admin-manual/introduction-admin-manual, job-event-log-codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVarTuple

import trio

from daemons.base.faults import fault
from daemons.process.children import SpawnError
from daemons.schedd.core.core import Core
from daemons.schedd.core.running_policy import ask_policy
from daemons.schedd.execution.activation import Activation
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.jobs import conclusion, run
from pool.jobs.changes import Changes, End, Fate, StopReason
from pool.jobs.queue.cluster import Job
from pool.jobs.userlog import event_log
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.states import JobEvent, JobStatus, allowed
from protocol.messages.common import StopHow
from protocol.messages.startd import DeactivateClaim
from protocol.rpc import endpoints
from protocol.rpc.endpoints import ConnectionLost, Peer, TimedOut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.files.agents import Agents

Args = TypeVarTuple("Args")

DISCONNECT_S: Final = 10.0
"""How long a starter's connection may be away before the user's log hears of it."""
_CAUSES: Final = {JobStatus.HELD: "hold", JobStatus.REMOVED: "remove"}
"""What the starter's hooks hear of why a job ends."""


class Shadow:
    """One execution. `job`, `claim` and `activation` never change."""

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
        self._over = trio.Event()
        self._stopped = trio.Event()
        """It shall leave, whether it has been started or not."""
        self._end: End | None = None
        self._lost_reason: str | None = None
        self._stop: StopReason | None = None
        self._transfer = False
        self._told_to_leave = False
        self._removal = trio.CancelScope()
        """How long a removed job is waited for."""
        self._activated = False
        self._in_doubt = False
        """The startd may have been asked to start it, or not: the connection was lost over it."""
        self._recovered = False
        self._executing = False
        self._skipped = False
        """Its output is newer than its input: it does not run, and is done."""
        self._never_started = ""
        self._starter: Peer | None = None
        self.durable = trio.Event()
        """The execution is on disk: from now on its starter may run the job."""
        self.acknowledged = trio.Event()
        """The result is durable and logged; the starter may forget it."""

    @property
    def starter(self) -> Peer | None:
        """The connection to the starter, while it is there."""
        return self._starter

    @property
    def is_given_up(self) -> bool:
        """It ended without having run, or nobody knows how: a starter that wants to run it comes too late."""
        return self._over.is_set() and self._end is None

    def _start(self, task: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Do something beside the task; an error in it that nobody foresaw costs this execution and its claim."""
        self.core.tasks.start(task, *args, failed=self._failed)

    def _failed(self, error: Exception) -> None:
        self.claim.reusable = False
        self.core.give_up(self.job, error)
        self.is_lost(f"The schedd failed to run the job: {error}")

    # ---- the task

    async def run(self) -> Shadow | None:
        """See the execution to its end; the claim's next one, already begun in the same transaction."""
        core = self.core
        if not self._recovered:
            await self._begin()
        await self._over.wait()
        following = self._conclude()
        last_event = core.queue.next_event - 1
        await core.writer.durable()
        fault("schedd.final_committed")
        if following is not None:
            following.durable.set()
        await self._agents.wait(self.job.cluster.owner, last_event)
        fault("schedd.event_marked")
        self.acknowledged.set()
        core.executions.shadows.pop(self.activation, None)
        if self._terms.moves_files:
            self._start(self._terms.close_transfer)
        return following

    async def _begin(self) -> None:
        """Have the job started while the execution becomes durable; until then its starter gets no answer."""
        if self.durable.is_set():
            await self._activate()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._activate)
            await self.core.writer.durable()
            self.durable.set()
            fault("schedd.claim_granted")

    async def _activate(self) -> None:
        """Have the startd start the job; whatever comes of it, `_over` is set at some time."""
        core = self.core
        pause_s = core.executions.pause_before_start(core.queue.ad(self.job), self.claim.slot_ad)
        if pause_s > 0:
            with trio.move_on_after(pause_s):
                await self._stopped.wait()
        if self._over.is_set() or self._stop is not None:
            self._finish_unstarted("")
            return
        try:
            if await self._is_skipped():
                return
            order = await self._terms.order()
        except (ConnectionLost, TimedOut, SpawnError) as error:  # the file agent's trouble: not for ever, and not here
            self.claim.reusable = False
            self._finish_unstarted(str(error))
            return
        except PoolError as error:
            core.hold(self.job, str(error), HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT)
            self._finish_unstarted("")
            return
        try:
            answer = await self._terms.ask(order, lambda: not self._over.is_set() and self._stop is None)
        except (ConnectionLost, TimedOut):  # it may have been started: the lease, or the way back, will tell
            self._in_doubt = True
            self.slot_lost(f"The connection to {self.claim.slot_name} was lost while the job was started")
            return
        except PoolError as error:
            self.claim.reusable = False
            self._finish_unstarted(str(error))
            return
        if answer.started:
            self._activated = True
            if self._stop is not None:
                await self._tell_to_leave(StopHow.GRACEFUL)
            return
        self.claim.reusable = False
        if not answer.claim_is_good:
            self._finish_unstarted(answer.reason or "the claim is over")
        else:
            self._finish_unstarted("" if self._stop is not None else answer.reason or "the slot stays busy")

    async def _is_skipped(self) -> bool:
        if await self._terms.may_be_skipped() and not self._over.is_set() and self._stop is None:
            self._skipped = True
            self._over.set()
        return self._skipped

    def _finish_unstarted(self, reason: str) -> None:
        if not self._over.is_set():
            if reason:
                self.core.log.always(f"Job {self.job.id} was not started on {self.claim.slot_name}: {reason}")
            self._never_started = reason or "told to leave before it was started"
            self._over.set()

    # ---- the end

    def _conclude(self) -> Shadow | None:
        """One transaction: what becomes of the job, and what the claim does next."""
        core, job, claim = self.core, self.job, self.claim
        now = core.now()
        if self._end is not None and self._end.ending is Ending.EXITED:
            self.started(self._end.at or now, ClassAd())  # a schedd that died may have taken the word of it along
        if self._skipped and job.status is JobStatus.RUNNING:
            core.write(job, event_log.DataflowSkipped())
        changes, fate = self._outcome(now)
        core.executions.shadow_of.pop(job, None)
        job.busy = False
        failed = self._end is not None and (self._end.ending is Ending.FAILED or conclusion.is_sent_back(self._end))
        if fate is Fate.WAITS and (failed or self._never_started):
            core.cool_down(job, core.queue.ad(job).eval_int("NumShadowExceptions", 0) + 1 if failed else 1)
        if fate is Fate.WAITS and (self._end is None or self._end.ending is not Ending.EXITED):
            changes = conclusion.resting(core.queue.ad(job), changes, core.settings.vacate_cool_down, now)
        core.apply(job, changes)
        core.queue.set_busy(job, False)
        core.stats["JobsExited"] += 1
        if fate is Fate.LEAVES:
            core.stats["JobsCompleted"] += job.status is JobStatus.COMPLETED
            core.leave(job)
        claim.shadow = None
        if failed or self._lost_reason is not None:
            claim.reusable = False
        following = self.claims.next(claim, job)
        if following is None and claim.public and not claim.gone:
            core.queue.claim_works(claim.work())
        return following

    def _outcome(self, now: float) -> tuple[Changes, Fate]:
        core, job = self.core, self.job
        ad, status, system = core.queue.ad(job), job.status, core.settings.system
        if self._skipped and status is JobStatus.RUNNING:
            code = ClassAd({"ExitBySignal": False, "ExitCode": 0})
            return conclusion.ended_unrun(ad, code, now, system, "A job whose output is newer than its input")
        if self._end is not None:
            return conclusion.ended(ad, status, self._end, self._stop, now, system)
        if self._lost_reason is not None:
            return conclusion.lost(ad, status, self._lost_reason, now, system)
        if status in (JobStatus.HELD, JobStatus.REMOVED):
            return conclusion.ended(ad, status, End(Ending.EVICTED, ClassAd(), at=now), self._stop, now, system)
        if status is JobStatus.IDLE:
            return Changes(run.not_started().attributes, run.not_started().drop), Fate.WAITS
        return run.not_started(), Fate.WAITS

    def take_end(self, end: End) -> None:
        """The starter's report of the end; the first one counts."""
        if self._end is None and not self._over.is_set():
            self._end = end
            self._over.set()

    def ends_without_report(self, end: End, grace_s: float) -> None:
        """The startd says that nothing runs any more; the starter's own report may still be on its way."""
        self._start(self._end_after, end, grace_s)

    async def _end_after(self, end: End, grace_s: float) -> None:
        with trio.move_on_after(grace_s):
            await self._over.wait()
        self.take_end(end)

    def is_lost(self, reason: str) -> None:
        """The claim is over, and nobody said what became of the job."""
        if not self._over.is_set():
            self._lost_reason = reason
            self._over.set()

    # ---- making it end

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """The job shall leave its slot; with `transfer` its output comes back, as far as it has any."""
        self._stop = StopReason(reason, code, subcode)
        self._transfer = transfer
        self._stopped.set()
        self._limit_removal(fast=fast)
        if self._activated and not self._over.is_set() and (fast or not self._told_to_leave):
            self._start(self._tell_to_leave, StopHow.FAST if fast else StopHow.GRACEFUL)

    def _limit_removal(self, *, fast: bool) -> None:
        """A job that was removed leaves the queue, and gives its slot back, even if nobody there obeys or answers.

        One that may run again has to wait for the end of its claim: it must not run twice.
        """
        if self.job.status is not JobStatus.REMOVED or self._over.is_set():
            return
        leaving_s = 0.0 if fast else self.claim.vacate_s(self.core.queue.ad(self.job))
        patience_s = 2 * self.core.settings.killing_timeout_s + leaving_s
        self._removal.cancel()
        self._removal = trio.CancelScope(deadline=trio.current_time() + patience_s)
        self._start(self._give_up_in_time, self._removal, patience_s)

    async def _give_up_in_time(self, removal: trio.CancelScope, patience_s: float) -> None:
        with removal:
            await self._over.wait()
        if removal is not self._removal or self._over.is_set():
            return
        self.core.log.always(f"{self.claim.slot_name} did not end job {self.job.id}, and is given up")
        self.claim.reusable = False
        self.is_lost(f"The job was removed, and {self.claim.slot_name} did not end it within {patience_s:.0f} seconds")
        await self.claims.release(self.claim, StopHow.FAST)

    def leaving(self, stop: StopReason) -> None:
        """The startd has told the job to leave, for reasons of its own."""
        self._told_to_leave = True
        if self._stop is None:
            self._stop = stop

    async def _tell_to_leave(self, how: StopHow) -> None:
        self._told_to_leave = True
        pause_s = self.core.executions.pause_before_stop()
        if pause_s > 0:
            self._removal.deadline += pause_s
            with trio.move_on_after(pause_s):
                await self._over.wait()
        if self._over.is_set():
            return
        reason = self._stop.reason if self._stop is not None else ""
        cause = _CAUSES.get(self.job.status, "")
        startd = self.claims.startd(self.claim.startd)
        try:
            id = await startd.id_of(self.claim)
            peer = await startd.peer()
            await peer.call(DeactivateClaim(claim_id=id, how=how, reason=reason, cause=cause, transfer=self._transfer))
        except endpoints.RemoteError as error:
            if not self._over.is_set():
                self.core.log.always(f"{self.claim.slot_name} does not end job {self.job.id}: {error}")
                self.ends_without_report(End(Ending.EVICTED, ClassAd(), str(error)), DISCONNECT_S)
        except PoolError:
            self._told_to_leave = False  # told again when the startd is back

    # ---- hearing of it

    def starter_ready(self, peer: Peer, address: str) -> None:
        """The starter is here, for the first time or again."""
        self._starter, self._activated = peer, True
        self.claim.meet(peer)
        core = self.core
        changes = run.reconnected(core.queue.ad(self.job), address)
        if changes.events:
            core.apply(self.job, changes)
        if self._stop is not None and not self._told_to_leave:
            self._start(self._tell_to_leave, StopHow.GRACEFUL)
        fault("schedd.activated")

    def starter_gone(self, peer: Peer) -> None:
        """The claim's connection to its starter is lost."""
        if self._starter is peer and not self._over.is_set():
            self._starter = None
            self._start(self._maybe_disconnected, "The connection to the starter was lost")

    async def _maybe_disconnected(self, reason: str) -> None:
        with trio.move_on_after(DISCONNECT_S):
            await self._over.wait()
        if self._starter is None and not self._over.is_set() and not self._told_to_leave:
            self._apply(run.disconnected(self.core.queue.ad(self.job), reason, self.core.now()))

    def slot_lost(self, reason: str) -> None:
        """The connection to the startd is lost; the lease still runs."""
        if not self._over.is_set():
            self._start(self._maybe_disconnected, reason)

    def slot_came_back(self, activation: str) -> None:
        """The startd is back, and runs `activation` under the claim ("" for nothing)."""
        if self._over.is_set():
            return
        if activation != self.activation:
            if self._activated or self._recovered:
                self._start(self._lost_after_grace, "The slot no longer runs the job")
            elif self._in_doubt:
                self._finish_unstarted("the connection was lost before the job was started")
            return  # else it is being started just now, which the startd did not know yet when it said this
        self._activated = True
        wants_out = self._stop is not None or self.job.status in (JobStatus.HELD, JobStatus.REMOVED)
        if wants_out and not self._told_to_leave:
            self._start(self._tell_to_leave, StopHow.GRACEFUL)

    async def _lost_after_grace(self, reason: str) -> None:
        """A starter that ended while we were away still wants to report; give it the time to find us."""
        with trio.move_on_after(DISCONNECT_S):
            await self._over.wait()
        self.is_lost(reason)

    def recovered(self) -> None:
        """This execution began in an earlier life of the schedd."""
        self._recovered = self._activated = True
        self.durable.set()
        ad = self.core.queue.ad(self.job)
        began, started = ad.eval_int("JobCurrentStartExecutingDate"), ad.eval_int("ShadowBday", 0)
        self._executing = began is not None and began >= started
        self._start(self._terms.take_up)
        if self.job.status in (JobStatus.HELD, JobStatus.REMOVED):
            self._stop = StopReason(ad.eval_str("HoldReason") or ad.eval_str("RemoveReason") or "")
            self._limit_removal(fast=False)

    def executing(self, at: float, started: ClassAd) -> None:
        """The program was started."""
        if not self._over.is_set():
            self.started(at, started)

    def started(self, at: float, started: ClassAd) -> None:
        """Count the start, once."""
        if self._executing:
            return
        self._executing = True
        core = self.core
        ad = core.queue.ad(self.job)
        core.apply(self.job, run.executing(ad, self.claim.slot_ad, self.claim.startd, started, at), at)

    def update(self, ad: ClassAd) -> None:
        """What the job uses now; its policy may have something to say about it."""
        if self._over.is_set():
            return
        core = self.core
        self._apply(run.used(core.queue.ad(self.job), ad))
        self.check_policy()

    def notice(self, message: str) -> None:
        """The starter has something to say to the job's user."""
        if not self._over.is_set():
            self._apply(run.noticed(self.claim.slot_name, message))

    def transfer_queued(self, *, upload: bool) -> None:
        """The job's files wait for their turn."""
        if not self._over.is_set():
            self._apply(run.transfer_queued(self.core.queue.ad(self.job), upload=upload, now=self.core.now()))

    def transfer_started(self, *, upload: bool) -> None:
        """It is their turn."""
        if not self._over.is_set():
            self._apply(run.transfer_started(self.core.queue.ad(self.job), upload=upload, now=self.core.now()))

    def check_policy(self) -> None:
        """Ask the job's periodic policy."""
        if not self._over.is_set():
            ask_policy(self.core, self.job, is_leaving=self._told_to_leave)

    def frozen(self, suspended: bool) -> None:
        """The startd has frozen the job, or thawed it."""
        core, job = self.core, self.job
        event = JobEvent.SUSPEND if suspended else JobEvent.CONTINUE
        if allowed(job.status, event) and not self._over.is_set():
            ad = core.queue.ad(job)
            change = run.suspended if suspended else run.continued
            self._apply(change(ad, core.now()))

    def _apply(self, changes: Changes) -> None:
        if changes != Changes():
            self.core.apply(self.job, changes)
