"""Users act on their jobs: hold, release, remove, suspend, vacate, edit. Durable when answered, with each result.

HTCondor's manual: users-manual/managing-a-job, man pages condor_hold, condor_release, condor_rm, condor_vacate_job,
condor_suspend, condor_continue and condor_qedit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final

from daemons.base.pace import Pace
from daemons.schedd.claims.claims import Claims
from daemons.schedd.core.core import Core, whole
from daemons.schedd.core.selection import Chosen, is_super_user, may_manage, may_manage_cluster, owner_of
from daemons.schedd.core.sizes import check_growth
from daemons.schedd.queue.factories import Factories
from pool.base.errors import ClassAdError, PoolError, UserError
from pool.base.ids import JobId
from pool.classad import ClassAd, Member, expr
from pool.jobs.changes import Changes
from pool.jobs.claims.events import GivenUp
from pool.jobs.queue.cluster import Cluster, Job
from pool.jobs.userlog import event_log
from pool.jobs.vocabulary.hold_codes import HoldCode, VacateCode
from pool.jobs.vocabulary.nodes import is_gang
from pool.jobs.vocabulary.states import OVER, JobEvent, JobStatus, allowed
from protocol.messages.schedd import (
    Action,
    ActOnJobs,
    ActResult,
    ActResults,
    EditJobs,
    Outcome,
    Reschedule,
)
from protocol.messages.startd import ContinueClaim, SuspendClaim
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import Done

CHUNK: Final = 200
"""Jobs that change in one transaction of a larger request."""

TOOLS: Final = {
    Action.REMOVE: "condor_rm",
    Action.REMOVE_TRANSFER: "condor_rm -transfer",
    Action.REMOVE_X: "condor_rm -forcex",
    Action.HOLD: "condor_hold",
    Action.RELEASE: "condor_release",
    Action.VACATE: "condor_vacate_job",
    Action.VACATE_FAST: "condor_vacate_job",
    Action.SUSPEND: "condor_suspend",
    Action.CONTINUE: "condor_continue",
}


class Actions:
    """Handlers of what users do to jobs."""

    def __init__(self, core: Core, claims: Claims, factories: Factories) -> None:
        self._core = core
        self._claims = claims
        self._factories = factories

    def answers(self) -> list[Answer]:
        """What users do to their jobs."""
        return [
            answer(ActOnJobs, self.act),
            answer(EditJobs, self.edit),
            answer(Reschedule, self.reschedule),
        ]

    async def act(self, peer: Peer, request: ActOnJobs) -> ActResults:
        """Do one thing to the selected jobs."""
        core = self._core
        chosen, mine = Chosen.read(request.select), may_manage(core, peer)
        releases_max = None if is_super_user(core.settings, peer) else core.settings.system.max_releases
        reason = f"{request.reason or f'via {TOOLS[request.action]}'} (by user {owner_of(peer)})"
        made = self._act_on_factories(peer, chosen, request.action, reason)

        of_gangs: dict[Cluster, Outcome] = {}

        async def do(job: Job) -> Outcome:
            if job.cluster in of_gangs:
                return of_gangs[job.cluster]
            outcome = await self._do(job, request.action, reason, request.subcode, releases_max)
            if is_gang(job.cluster.ad):  # its procs are one job
                of_gangs[job.cluster] = outcome
            return outcome

        results = await self._of_each(chosen, mine, do)
        if not any(result.outcome is Outcome.DONE for result in results):
            results += made
        await core.writer.durable()
        return ActResults(results=results)

    async def _of_each(
        self, chosen: Chosen, mine: Callable[[Job], bool], do: Callable[[Job], Awaitable[Outcome]]
    ) -> list[ActResult]:
        """Do this to the selected jobs, as far as they are the caller's; what became of each."""
        core, pace = self._core, Pace()
        results, seen, changed = list[ActResult](), set[JobId](), 0
        async with aclosing(chosen.find(core.queue)) as jobs:
            async for job in jobs:
                seen.add(job.id)
                if not mine(job):
                    results.append(ActResult(job_id=job.id, outcome=Outcome.PERMISSION_DENIED, status=int(job.status)))
                    continue
                outcome = await do(job)
                present = job.cluster.jobs.get(job.proc) is job
                results.append(ActResult(job_id=job.id, outcome=outcome, status=int(job.status) if present else 0))
                if outcome is Outcome.DONE:
                    changed += 1
                    if changed % CHUNK == 0:
                        await core.writer.durable()
                await pace.breathe()
        for id in sorted(chosen.jobs - seen):
            if core.queue.get(id) is None:  # else the constraint has left it out
                results.append(ActResult(job_id=id, outcome=Outcome.NOT_FOUND))
        return results

    def _act_on_factories(self, peer: Peer, chosen: Chosen, action: Action, reason: str) -> list[ActResult]:
        """A cluster that makes its jobs later stops, or goes on, together with those that it has."""
        results = []
        mine = may_manage_cluster(self._core, peer)
        for cluster in chosen.factories(self._core.queue):
            if not mine(cluster):
                continue
            done = False
            if action is Action.HOLD:
                done = self._factories.pause(cluster, reason, hold_code=HoldCode.USER_REQUEST)
            elif action is Action.RELEASE:
                done = self._factories.resume(cluster, reason)
            elif action in (Action.REMOVE, Action.REMOVE_TRANSFER):
                done = True
                self._factories.end(cluster, complete=False)
            if done:
                results.append(ActResult(job_id=JobId(cluster.id, cluster.procs), outcome=Outcome.DONE))
        return results

    async def _do(self, job: Job, action: Action, reason: str, subcode: int, releases_max: int | None) -> Outcome:
        core = self._core
        match action:
            case Action.HOLD:
                if job.status is JobStatus.HELD:
                    return Outcome.ALREADY_DONE
                if not allowed(job.status, JobEvent.HOLD):
                    return Outcome.BAD_STATUS
                core.hold(job, reason, HoldCode.USER_REQUEST, subcode)
            case Action.RELEASE:
                if not allowed(job.status, JobEvent.RELEASE):
                    return Outcome.BAD_STATUS
                ad = core.queue.ad(job)
                # Its files are still on their way; it is released when they are here.
                if ad.eval_int("HoldReasonCode", 0) == HoldCode.SPOOLING_INPUT:
                    return Outcome.BAD_STATUS
                if releases_max is not None and (ad.eval_int("NumHolds") or 0) > releases_max:
                    return Outcome.LIMIT_EXCEEDED
                core.release(job, reason)
            case Action.REMOVE | Action.REMOVE_TRANSFER:
                if job.status is JobStatus.REMOVED:
                    return Outcome.ALREADY_DONE
                core.remove(job, reason, transfer=action is Action.REMOVE_TRANSFER)
            case Action.REMOVE_X:
                if job.status is not JobStatus.REMOVED:
                    return Outcome.BAD_STATUS
                self._remove_locally(job, reason)
            case Action.VACATE | Action.VACATE_FAST:
                if core.executions.of(job) is None or job.status in OVER or job.status is JobStatus.HELD:
                    return Outcome.BAD_STATUS
                core.vacate(job, reason, VacateCode.USER_VACATE_JOB, fast=action is Action.VACATE_FAST)
            case Action.SUSPEND:
                return await self._freeze(job, JobEvent.SUSPEND)
            case Action.CONTINUE:
                return await self._freeze(job, JobEvent.CONTINUE)
        return Outcome.DONE

    def _remove_locally(self, job: Job, reason: str) -> None:
        """Forget a job: what still runs of it ends with the claim, and LeaveJobInQueue keeps it no longer."""
        core = self._core
        for one in whole(job):
            core.apply(one, Changes({"RemoveReason": reason, "LeaveJobInQueue": False}))
        local = core.executions.local.get(job)
        if local is not None:
            local.stop("removed by force", 0, 0, fast=True)
            return
        shadows = core.executions.nodes_of(job)
        if not shadows:  # its log has been told
            for one in whole(job):
                core.leave(one)
            return
        for shadow in shadows:
            # Nobody knows any more what the starter does: no second job may come to it.
            shadow.is_lost("removed by force")
            self._claims.happens(shadow.claim, GivenUp())

    async def _freeze(self, job: Job, event: JobEvent) -> Outcome:
        """Ask the startd; its word that it is done changes the job's state."""
        shadows = self._core.executions.nodes_of(job)
        if not shadows or not allowed(job.status, event):
            already = job.status is JobStatus.SUSPENDED and event is JobEvent.SUSPEND
            return Outcome.ALREADY_DONE if already else Outcome.BAD_STATUS
        for shadow in shadows:
            if event is JobEvent.SUSPEND:
                failed = await self._claims.tell(shadow.claim, lambda id: SuspendClaim(claim_id=id))
            else:
                failed = await self._claims.tell(shadow.claim, lambda id: ContinueClaim(claim_id=id))
            if failed:
                self._core.log.always(f"Job {job.id} could not be asked to {event.value}: {failed}")
                return Outcome.BAD_STATUS
            shadow.frozen(event is JobEvent.SUSPEND)
        return Outcome.DONE

    async def edit(self, peer: Peer, request: EditJobs) -> ActResults:
        """Set attributes; all values are checked before the first is set."""
        core = self._core
        values = read_assignments(request.assignments)
        is_super = is_super_user(core.settings, peer)
        core.settings.edits.check(values, super_user=is_super)
        values = core.settings.charging.edited(values, owner=owner_of(peer), user=peer.identity, anybody=is_super)
        chosen, mine = Chosen.read(request.select), may_manage(core, peer)
        made = []
        for cluster in chosen.factories(core.queue):
            if may_manage_cluster(core, peer)(cluster):
                self._factories.edit(cluster, dict(values))
                made.append(ActResult(job_id=JobId(cluster.id, cluster.procs), outcome=Outcome.DONE))

        async def set_all(job: Job) -> Outcome:
            self.set_attributes(job, values)
            return Outcome.DONE

        results = await self._of_each(chosen, mine, set_all)
        await core.writer.durable()
        return ActResults(results=results or made)

    def set_attributes(self, job: Job, values: Mapping[str, Member]) -> None:
        """Set them, and let what depends on them follow."""
        core = self._core
        before = core.queue.ad(job)
        check_growth(core, job, values)
        was = before.text("JobPrio") if "JobPrio" in before else None
        core.queue.change(job, values)
        now = core.queue.ad(job).text("JobPrio") if any(name.lower() == "jobprio" for name in values) else was
        if now is not None and now != was:
            core.write(job, event_log.AttributeUpdated("JobPrio", now, was))
        core.resort(job)

    async def reschedule(self, peer: Peer, request: Reschedule) -> Done:
        """Have the negotiator hear of the work again."""
        self._core.work_changed(True)
        return Done()


def read_assignments(assignments: dict[str, str]) -> dict[str, Member]:
    """The values, checked; UserError for what cannot be set."""
    if not assignments:
        raise UserError("no attribute to set")
    values: dict[str, Member] = {}
    for name, text in assignments.items():
        try:
            probe = ClassAd()
            probe[name] = values[name] = expr(text, old=True)
            if name.lower() == "jobprio" and probe.eval_int(name) is None:
                raise UserError(f"Update aborted, illegal value for : {name}")
        except ClassAdError:
            raise UserError(f"Update aborted, illegal value for : {name}") from None
        except (PoolError, ValueError) as error:
            raise UserError(str(error)) from None
    return values
