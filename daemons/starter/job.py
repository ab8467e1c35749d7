"""One job, from RunJob to the acknowledged report: sandbox, input, program, output.

    sandbox, contact the shadow task -> input -> launch -> watch -> end what is left -> output -> report -> clean up

Whatever happens on the way becomes one `Result`. Telling the job to leave works at every step: before the program runs
there is nothing to ask, while it runs it gets its signal and its time, afterwards its output has that time.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import trio

from daemons.faults import fault
from daemons.log import Log
from daemons.starter import sandbox
from daemons.starter.account import Account, account_for
from daemons.starter.body import BareBody, Body
from daemons.starter.cgroup import Group
from daemons.starter.chirp import ChirpJob, ChirpRules, ChirpServer
from daemons.starter.contained import container_of, image_of, put_into
from daemons.starter.deferral import wait_for_moment
from daemons.starter.disk import Disk
from daemons.starter.hooks import JobHooks
from daemons.starter.launch import LaunchError, Stage, launch
from daemons.starter.line import Line
from daemons.starter.local_link import LocalLink
from daemons.starter.processes import Processes
from daemons.starter.scene import Scene
from daemons.starter.settings import StarterSettings
from daemons.starter.shadow_link import Refused, ShadowLink
from daemons.starter.shell import Shells
from daemons.starter.spawn import Spawner
from daemons.starter.streams import Streams
from daemons.starter.terms import Terms, terms_for
from daemons.starter.transfer import FileMover, Held
from daemons.starter.url_mover import UrlMover, UrlSettings
from pool.classad import ClassAd, Member, expr
from pool.containers.engine import EngineError
from pool.errors import PeerError, PoolError, UserError
from pool.execute.assigned import DEFAULTS as ASSIGNED_KNOBS
from pool.execute.cgroup import Limits, memory_limits
from pool.execute.checkpoint import is_checkpoint, kept_on_eviction
from pool.execute.exit import Exited, Hold, exited, over_memory
from pool.execute.plan import Plan, Surroundings, facts, plan_job, wants_transfer, wrapped
from pool.execute.plugins import BadPlugin, Plugin
from pool.execute.signals import HOLD, VACATE, soft_kill_signal
from pool.execute.transfer import Stamp
from pool.execute.usage import Usage
from pool.hooks.ads import Executed, ended_job, running_job
from pool.hooks.answers import Verdict, changed_by
from pool.hooks.table import Hook, HookTable, job_keyword
from pool.jobs.codes import HoldCode
from protocol.messages.common import StopHow
from protocol.messages.schedd import Ending, JobEnded, JobExecuting, JobNotice, JobUpdate
from protocol.messages.starter import EngineTrouble, JobInfo, RunJob, StopJob
from protocol.net import Network
from protocol.rpc import Peer
from protocol.security import Security

INPUT_PATIENCE_S: Final = 20.0
"""How long an agent that sends nothing is tried again; what has come is kept meanwhile."""
INPUT_PAUSE_S: Final = 1.0
VACATE_DEFAULT_S: Final = 600.0
SHORT_JOB_S: Final = 0.02
"""A job that is over sooner is not attended to; only at its end is it said that it ran."""


class HookFailed(PoolError):
    """A prepare hook wants the job to be tried elsewhere."""


@dataclass(frozen=True)
class Result:
    """How an activation ended."""

    ending: Ending
    ad: ClassAd = field(default_factory=ClassAd)
    reason: str = ""


@dataclass
class Context:
    """What a starter's jobs share."""

    settings: StarterSettings
    log: Log
    security: Security
    network: Network
    processes: Processes
    group: Group
    spawner: Spawner
    startd: Peer
    line: Line
    agent: Line
    plugins: dict[str, Plugin | BadPlugin] = field(default_factory=dict)
    """What the machine's file transfer plug-ins have said of themselves."""
    chirp: ChirpServer | None = None


class JobRun:
    """One activation."""

    def __init__(self, context: Context, request: RunJob) -> None:
        self.context = context
        self.request = request
        self.job, self.slot = request.job_ad, request.slot_ad
        self.sandbox = sandbox.path_of(context.settings.execute, os.getpid())
        self.link: ShadowLink | LocalLink
        if request.shadow_address:
            self.link = ShadowLink(request, context.line, context.log)
        else:
            self.link = LocalLink(request, self.sandbox, context.log, self._account)
        self.usage = Usage()
        self.body: Body | None = None
        """Set while the program runs."""
        self.executed: Executed | None = None
        self.ran_s: float | None = None
        """How long its program ran."""
        self.hooks: JobHooks | None = None
        self.streams: Streams | None = None
        self.scene: Scene | None = None
        """Set while the program runs, for those who visit it."""
        self.chirp = ChirpJob(
            request, self.job, _chirp_rules(context.settings), context.agent, self.link.peer, context.log
        )
        self.shells = Shells(context.processes, context.group, context.log)
        self.suspended = False
        self.disk = Disk(context.settings, self.job, self.slot, self.sandbox, context.log)
        self._made_sandbox = False
        self._stop: StopJob | None = None
        self._stopped = trio.Event()
        self._phase = trio.CancelScope()
        self._out_of_memory = False
        self._out_of_disk: Hold | None = None
        self.of_devices = ClassAd()
        """What it has used of its devices, as the startd's monitors see it."""
        self._moved: dict[str, Member] = {}
        self._told = ClassAd()
        """What the job's body had to say of itself."""

    # ---- from outside

    def stop(self, request: StopJob) -> None:
        """Make the job leave; asked again, the harder way counts."""
        first = self._stop is None
        if first or (request.how is StopHow.FAST and self._stop is not None and self._stop.how is not StopHow.FAST):
            self._stop = request
            self._stopped.set()
            self._stopped = trio.Event()
            if self.body is None:
                self._give_phase_up(request)

    def _give_phase_up(self, request: StopJob) -> None:
        """Files on their way to the job are of no use now; those coming from it have the vacate time."""
        grace = 0.0 if request.how is StopHow.FAST or not self.usage.processes_seen else self._vacate_s(request)
        self._phase.deadline = min(self._phase.deadline, trio.current_time() + grace)

    def suspend(self) -> None:
        """Freeze the job."""
        self.suspended = True
        if self.body is not None:
            self.body.suspend()

    def resume(self) -> None:
        """Let it go on."""
        self.suspended = False
        if self.body is not None:
            self.body.resume()

    # ---- the whole

    async def run(self) -> tuple[bool, str]:
        """Do it all; whether the end was reported, and if not, why."""
        context = self.context
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_link)
            result = await self._execute()
            context.log.always(
                "The job ended", job=self.request.job_id, ending=result.ending.value, reason=result.reason
            )
            reported, reason = await self._report(result)
            nursery.cancel_scope.cancel()
        self._clean_up()
        return reported, reason

    async def _keep_link(self) -> None:
        """Speak with the schedd; stop when nobody waits for the job any more."""
        await self.link.run()
        if self.link.over is not None:
            self.stop(StopJob(activation=self.request.activation, how=StopHow.FAST, reason=self.link.over))

    async def _report(self, result: Result) -> tuple[bool, str]:
        ad = result.ad.copy()
        ad.update(self.usage.ad() if self.usage.processes_seen else {})
        ad.update(self._moved)
        ad.update(self.of_devices)
        ad.update(self.chirp.delayed_ad())
        ad.update(self._told)
        message = JobEnded(
            job_id=self.request.job_id,
            activation=self.request.activation,
            ending=result.ending,
            at=time.time(),
            reason=result.reason,
            ad=ad,
        )
        try:
            await self.link.ended(message)
        except Refused as error:
            return False, str(error)
        fault("starter.reported")
        return True, ""

    def _clean_up(self) -> None:
        if self._made_sandbox:
            self.disk.remove()
            try:
                sandbox.remove(self.sandbox)
            except OSError as error:  # the startd's sweep tries again when this process is gone
                self.context.log.error("Cannot remove the sandbox", path=self.sandbox, reason=error.strerror)

    # ---- step by step

    async def _execute(self) -> Result:
        """Run the job; every way it can end is a Result."""
        try:
            with self._phase:
                return await self._prepare_and_run()
            return self._evicted()
        except Held as error:
            return Result(Ending.HOLD, error.hold.ad(), error.hold.reason)
        except Refused as error:
            return Result(Ending.EVICTED, reason=str(error))
        except UserError as error:  # arguments or environment that cannot be read
            hold = Hold(str(error), HoldCode.FAILED_TO_CREATE_PROCESS)
            return Result(Ending.HOLD, hold.ad(), hold.reason)
        except (PoolError, OSError) as error:
            self.context.log.error("This machine cannot run the job", error)
            return Result(Ending.FAILED, reason=str(error))

    async def _prepare_and_run(self) -> Result:
        image = image_of(self.job, self.slot, self.context.settings)  # Held before files move, if it cannot be run
        if image is not None and not self.job.eval_bool("WantContainer", False):
            self.job["WantDocker"], self.job["DockerImage"] = True, image  # also where the machine's owner wants it so
        account = self._account()
        sandbox.make(self.sandbox, account)
        self._made_sandbox = True
        self.disk.make(account)
        sandbox.write_ads(self.sandbox, account, self.job, self.slot)
        fault("starter.sandbox_made")
        plan = self._plan(account)
        await self.link.peer()  # which is there when the schedd has made the execution durable: only now may it run
        if self.context.settings.hooks:
            self.hooks = self._hooks_for(account)
            plan = await self._prepared(Hook.PREPARE_JOB_BEFORE_TRANSFER, plan, account)
        mover: FileMover | None = None
        before: Mapping[str, Stamp] = {}
        if plan.transfers:
            mover = self._mover(account, plan)
            await self._fetch(mover)
            before = mover.catalog()
            self.streams = Streams(self.request, self.job, self.sandbox, account, self.context.agent, self.context.log)
            self.streams.prepare(plan)
        if self.hooks is not None:
            plan = await self._prepared(Hook.PREPARE_JOB, plan, account)
        fault("starter.input_done")
        if (missed := await wait_for_moment(self.job, self.slot)) is not None:
            return Result(Ending.HOLD, missed.ad(), missed.reason)
        if mover is not None and mover.restored:
            plan = replace(plan, append_output=True)
        result = await self._run_program(plan, account)
        while mover is not None and self._has_made_checkpoint(result):
            try:
                await self._keep_checkpoint(mover, before)
            except Held as error:
                reason = f"Starter failed to upload checkpoint: {error.hold.reason}"
                raise Held(Hold(reason, HoldCode.FAILED_TO_CHECKPOINT, error.hold.subcode)) from None
            if self._stop is not None:
                break
            result = await self._run_program(replace(plan, append_output=True), account)
        if self.hooks is not None and self.executed is not None:
            await self._tell_of_exit(self.hooks, self.executed, result)
        if self.streams is not None and not self._must_be_fast():
            await self.streams.finish()
        if mover is not None and result.ending is Ending.EXITED:
            self._moved["BytesSent"] = float(await mover.push_output(before, result.ad.eval_int("ExitCode")))
        elif mover is not None and self._stop is not None:
            await self._keep_for_later(mover, before, self._stop)
        fault("starter.output_pushed")
        return result if self._stop is None or result.ending is not Ending.EXITED else self._evicted()

    # ---- checkpoints

    def _has_made_checkpoint(self, result: Result) -> bool:
        """Whether the program has ended only to be started again."""
        end = self.executed.end if self.executed is not None else None
        return result.ending is Ending.EXITED and isinstance(end, Exited) and is_checkpoint(self.job, end)

    async def _keep_checkpoint(self, mover: FileMover, before: Mapping[str, Stamp]) -> None:
        """Have the agent keep it, and say so; one that it does not take is made up for by the next."""
        number = (self.job.eval_int("CheckpointNumber", -1) or 0) + 1
        request = self.request
        ids: dict[str, Any] = {"job_id": request.job_id, "activation": request.activation}
        try:
            size = await mover.push_checkpoint(before, number)
        except (PeerError, OSError) as error:
            self.context.log.always("A checkpoint was not kept", number=number, error=str(error))
            await self.link.notice(JobNotice(message=f"Checkpoint {number} was not kept: {error}", **ids))
            return
        self.context.log.always("A checkpoint is kept", number=number, bytes=size)
        fault("starter.checkpoint_kept")
        self.job["CheckpointNumber"] = number
        ad = self.usage.ad()
        ad.update({"CheckpointNumber": number, "LastCkptTime": int(time.time()), "BytesSent": float(size)})
        await self.link.update(JobUpdate(ad=ad, **ids))

    async def _keep_for_later(self, mover: FileMover, before: Mapping[str, Stamp], stop: StopJob) -> None:
        """The job has to leave: what it has so far is kept, if it wants that and there is the time."""
        if self._must_be_fast() or not self.usage.processes_seen:
            return
        end = self.executed.end if self.executed is not None else None
        made = isinstance(end, Exited) and is_checkpoint(self.job, end)
        if made or kept_on_eviction(self.job, stop.cause):
            await self._keep_checkpoint(mover, before)

    # ---- how it is run

    def _account(self) -> Account:
        settings = self.context.settings
        return account_for(
            self.job,
            uid_domain=settings.uid_domain,
            fallback=settings.fallback_account,
            run_as_owner=_holds(settings.run_as_owner, self.slot, self.job),
            soft_uid_domain=settings.soft_uid_domain,
        )

    def _plan(self, account: Account) -> Plan:
        plan = self._limited(plan_job(self.job, self.slot, self._surroundings(account)))
        wrapper = self.context.settings.wrapper
        if not wrapper or image_of(self.job, self.slot, self.context.settings) is not None:
            return plan
        return wrapped(plan, wrapper, self.sandbox)

    def _limited(self, plan: Plan) -> Plan:
        """The plan with this machine's limits added to the job's own."""
        if not (address_space := self.context.settings.address_space_mb << 20):
            return plan
        return replace(plan, rlimits={**plan.rlimits, "AS": address_space})

    def _surroundings(self, account: Account) -> Surroundings:
        settings = self.context.settings
        return Surroundings(
            sandbox=self.sandbox,
            slot=settings.slot.partition("@")[0],
            starter_pid=os.getpid(),
            home=account.home if settings.sets_home else None,
            user=account.name,
            thread_variables=settings.thread_variables,
            assigned_knobs=settings.assigned_knobs or ASSIGNED_KNOBS,
            starter_environment=settings.given_environment(),
            java=settings.java,
            transfers=bool(self.request.agent_address) and wants_transfer(self.job, self.slot),
        )

    def _mover(self, account: Account, plan: Plan) -> FileMover:
        context, settings = self.context, self.context.settings
        urls = UrlMover(
            self.job,
            self.sandbox,
            account,
            context.processes,
            {**os.environ, **plan.environment},
            UrlSettings(
                settings.url_plugins,
                settings.plugin_query_s,
                settings.plugin_lifetime_s,
                self._jobs_plugins(),
            ),
            context.log,
            context.plugins,
        )
        return FileMover(
            self.request, self.sandbox, account, settings.slot, context.agent, context.log, urls, self._moved
        )

    def _jobs_plugins(self) -> str:
        """Whether plug-ins that the job brings are used."""
        text = self.context.settings.refuses_jobs_plugins.strip()
        value = expr(text).eval(self.slot, self.job) if text else False
        if value is not True and value == 2:
            return "ignored"
        return "refused" if isinstance(value, bool | int | float) and value else "allowed"

    async def _fetch(self, mover: FileMover) -> None:
        patient_until, progress = trio.current_time() + INPUT_PATIENCE_S, 0
        while True:
            try:
                self._moved["BytesRecvd"] = float(await mover.fetch_input())
                return
            except Held as error:
                self.usage = self.disk.measured(self.usage)
                raise Held(self.disk.instead_of(error.hold, self.usage)) from None
            except PeerError as error:
                if mover.progress > progress:
                    patient_until, progress = trio.current_time() + INPUT_PATIENCE_S, mover.progress
                if trio.current_time() > patient_until:
                    raise
                self.context.log.always("Input did not come; trying again", error=str(error))
            await trio.sleep(INPUT_PAUSE_S)

    # ---- the program

    async def _run_program(self, plan: Plan, account: Account) -> Result:
        if self._stop is not None:
            return self._evicted()
        if self.context.chirp is None or not self.request.shadow_address:
            return await self._run_on_its_terms(plan, account)
        with self.context.chirp.serving(self.chirp, self.sandbox, account) as config:
            if config:
                plan = replace(plan, environment={**plan.environment, "_CONDOR_CHIRP_CONFIG": config})
            return await self._run_on_its_terms(plan, account)

    async def _run_on_its_terms(self, plan: Plan, account: Account) -> Result:
        settings, log = self.context.settings, self.context.log
        with terms_for(settings, self.job, self.slot, plan, account, self.sandbox, log) as terms:
            image = image_of(self.job, self.slot, settings)
            if image is not None:
                return await self._run_contained(image, terms, plan, account)
            result = await self._run_on(terms, plan, account)
        if plan.wrapped and (said := sandbox.wrapper_error(self.sandbox, account)) is not None:
            log.error("The job wrapper has failed", wrapper=plan.program, said=said)
            if result.ending is Ending.EXITED:
                return Result(Ending.FAILED, reason=f"{plan.program} could not run the job: {said}")
        return result

    async def _run_on(self, terms: Terms, plan: Plan, account: Account) -> Result:
        context = self.context
        if not self.usage.processes_seen:  # after a checkpoint the same job goes on
            context.processes.new_job()
        if context.group.works:
            for problem in context.group.prepare(self._limits()):
                context.log.always("A limit could not be set", limit=problem)
        context.processes.tracking = terms.tracking
        started = launch(plan, account, context.spawner, terms)
        watched = context.processes.watch(started.pid)
        try:
            await started.begun()
        except trio.Cancelled:  # told to leave while it waits for a pipe that nobody opens
            with trio.CancelScope(shield=True):
                await context.processes.end_all(context.group)
            raise
        except LaunchError as error:
            await context.processes.end_all(context.group)
            hold = error.hold()
            if hold is None or (plan.wrapped and error.stage is Stage.EXECUTE):  # the machine's program, not the job's
                return Result(Ending.FAILED, reason=f"Failed to execute '{plan.program}': {error}")
            return Result(Ending.HOLD, hold.ad(), hold.reason)
        self.usage = self.usage.begun()
        self.executed = Executed(started.pid, time.time())
        context.log.always("The job runs", job=self.request.job_id, pid=started.pid, user=account.name)
        fault("starter.job_started")
        self.scene = Scene(self.job, self.slot, plan, account, terms, self.sandbox, started.pid)
        return await self._watch(BareBody(watched, started, context.processes, context.group), started.pid)

    async def _run_contained(self, image: str, terms: Terms, plan: Plan, account: Account) -> Result:
        """The same in a container, which is removed whatever happens."""
        context = self.context
        context.processes.new_job()
        container = container_of(self.job, self.slot, context.settings, context.processes, context.group, context.log)
        try:
            await container.make(put_into(image, terms, plan, account, self.request, self.job, self.slot, context))
            container.start(plan, account)
            await container.begun()
            self.usage = self.usage.begun()
            self.executed = Executed(container.pid, time.time())
            context.log.always("The job runs in a container", job=self.request.job_id, image=image, pid=container.pid)
            fault("starter.job_started")
            self.scene = Scene(
                self.job,
                self.slot,
                plan,
                account,
                terms,
                self.sandbox,
                container.pid,
                container.entrance,
                container.name,
            )
            return await self._watch(container, container.pid)
        except EngineError as error:
            await self._report_engine(str(error))
            raise
        finally:
            self.body = None
            await container.remove()

    async def _report_engine(self, reason: str) -> None:
        """Let the startd know, so that no more jobs come for their container's sake."""
        try:
            await self.context.startd.notify(EngineTrouble(activation=self.request.activation, reason=reason))
        except PeerError:
            pass

    def moved(self, name: str) -> int:
        """How many bytes were transferred: BytesRecvd, BytesSent."""
        figure = self._moved.get(name)
        return int(figure) if isinstance(figure, int | float) else 0

    def _limits(self) -> Limits:
        settings, slot = self.context.settings, self.slot
        policy, memory = settings.memory_policy.strip().lower(), slot.eval_int("Memory") or 0
        if policy == "custom":
            value = expr(settings.hard_memory_expr).eval(slot, self.job) if settings.hard_memory_expr else 0
            memory = int(value) if isinstance(value, int | float) else 0
            policy = "hard"
        limits = memory_limits(
            policy,
            memory,
            machine_mb=settings.machine_memory_mb,
            disable_swap=settings.disable_swap,
            slot_swap_kb=slot.eval_int("VirtualMemory"),
        )
        return Limits(
            memory=limits.memory,
            memory_soft=limits.memory_soft,
            memory_and_swap=limits.memory_and_swap,
            cpus=max(1, slot.eval_int("Cpus") or 1),
            processes=settings.processes_max,
        )

    async def _watch(self, body: Body, pid: int) -> Result:
        """Until the program has ended and nothing of it is left."""
        self.body, began = body, trio.current_time()
        try:
            return await self._until_over(body, pid)
        finally:
            self.ran_s = trio.current_time() - began

    async def _until_over(self, body: Body, pid: int) -> Result:
        context, watched = self.context, body.watched
        executing = JobExecuting(
            job_id=self.request.job_id,
            activation=self.request.activation,
            at=time.time(),
            ad=ClassAd({"JobPid": pid, "CondorScratchDir": self.sandbox}),
        )
        self.link.runs(executing)
        if self.suspended:
            body.suspend()
        with trio.move_on_after(SHORT_JOB_S):
            await watched.ended.wait()
        if not watched.ended.is_set():
            await self._attend_to(body)
        self.scene = None
        fault("starter.job_exited")
        if context.processes.any():  # the last chance to see what others of the job use
            self._look()
        await context.processes.end_all(context.group)
        self._look()
        self.body = None
        self.usage = self.disk.measured(self.usage)
        self._report_memory_if_out(body)
        try:
            end = await body.outcome()
        except Held as error:
            return self._evicted() if self._stop is not None else Result(Ending.HOLD, error.hold.ad(), str(error))
        finally:
            self._told = body.told()
        if self.shells.last_status is not None and self.job.eval_bool("InteractiveJob", False):
            end = exited(self.shells.last_status)
        if self.executed is not None:
            self.executed = replace(self.executed, end=end)
        return self._judge(end)

    async def _attend_to(self, body: Body) -> None:
        """All that is done for a running program, until it has ended; a job of a moment needs none of it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.link.say_that_it_runs)
            if self.streams is not None:
                nursery.start_soon(self.streams.run)
            nursery.start_soon(self._update_now_and_then)
            if self.hooks is not None and self.hooks.has(Hook.UPDATE_JOB_INFO):
                nursery.start_soon(self._tell_hook_now_and_then, self.hooks)
            nursery.start_soon(self._obey, body)
            nursery.start_soon(body.attend)
            if isinstance(body, BareBody):
                nursery.start_soon(self._notice_lack_of_memory, body)
            if self.disk.enforced:
                nursery.start_soon(self._notice_lack_of_disk, body)
            await body.watched.ended.wait()
            if self.shells.any:
                await self._until_shells_are_closed()
            nursery.cancel_scope.cancel()

    async def _until_shells_are_closed(self) -> None:
        """A job goes on while somebody is in it, unless it has to leave."""
        async with trio.open_nursery() as race:
            race.start_soon(self._until_told_to_leave, race.cancel_scope)
            await self.shells.all_closed()
            race.cancel_scope.cancel()

    async def _until_told_to_leave(self, scope: trio.CancelScope) -> None:
        while self._stop is None:
            await self._stopped.wait()
        scope.cancel()

    def _judge(self, end: Exited) -> Result:
        """What the program's end means."""
        if self._stop is not None:
            return self._evicted()
        if self._out_of_memory:
            limit = self._limits().memory >> 20 or (self.slot.eval_int("Memory") or 0)
            used = max(self.context.group.peak() >> 20, self.usage.resident_mb)
            hold = over_memory(limit, used, always_hold=self.context.settings.always_hold_on_oom)
            if hold is None:
                return Result(Ending.EVICTED, reason="The machine ran out of memory")
            return Result(Ending.HOLD, hold.ad(), hold.reason)
        failed = end.signal is not None or end.code != 0
        if (over := self._out_of_disk or (self.disk.over(self.usage) if failed else None)) is not None:
            return Result(Ending.HOLD, over.ad(), over.reason)
        return Result(Ending.EXITED, end.ad())

    async def _notice_lack_of_disk(self, body: Body) -> None:
        """A job that has used up its disk is ended: what it writes from now on is lost."""
        while True:
            began = time.monotonic()
            self.usage = self.disk.measured(self.usage)
            if (over := self.disk.over(self.usage)) is not None:
                self._out_of_disk = over
                self.context.log.always("The job has used up its disk", job=self.request.job_id, reason=over.reason)
                await body.end()
                return
            await self.disk.pause(time.monotonic() - began)

    def _report_memory_if_out(self, body: Body) -> None:
        if isinstance(body, BareBody):  # an engine says so itself
            self._out_of_memory = self._out_of_memory or self.context.group.oom_killed()

    async def _notice_lack_of_memory(self, body: Body) -> None:
        """A job that has lost one of its processes to the kernel is ended as a whole."""
        descriptor = self.context.group.oom_descriptor() if self.context.group.works else None
        if descriptor is None:
            return
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            os.eventfd_read(descriptor)
            with trio.move_on_after(1.0):  # the notice comes before the kill
                while not self.context.group.oom_killed():  # noqa: ASYNC110 (a file of the kernel)
                    await trio.sleep(0.01)
            if self.context.group.oom_killed():
                self._out_of_memory = True
                self.context.log.always("The job is out of memory", job=self.request.job_id)
                body.signal(signal.SIGKILL)
                return

    # ---- telling how it is

    def _look(self) -> None:
        if self.body is not None:
            self.usage = self.usage.seen(self.body.sample())
            self._told = self.body.told()

    async def _update_now_and_then(self) -> None:
        settings = self.context.settings
        pause = settings.update_first_s
        while True:
            await trio.sleep(pause)
            pause = settings.update_s
            self._look()
            self.usage = self.disk.measured(self.usage)
            ad = self.usage.ad()
            ad.update(self.chirp.delayed_ad())
            ad.update(self._told)
            ad.update(self.of_devices)
            ids = {"job_id": self.request.job_id, "activation": self.request.activation}
            await self.link.update(JobUpdate(ad=ad, **ids))  # type: ignore[arg-type]  # two types in one dict
            try:
                await self.context.startd.notify(JobInfo(activation=self.request.activation, ad=ad))
            except PeerError:
                continue

    # ---- hooks

    def _hooks_for(self, account: Account) -> JobHooks | None:
        """The job's hooks on this machine, if it has any."""
        context, settings = self.context, self.context.settings
        table = HookTable.unpacked(settings.hooks)
        keyword = job_keyword(self.job, table, forced=settings.hook_keyword, default=settings.default_hook_keyword)
        if not (programs := table.of(keyword)):
            return None
        told = facts(self.job, self.slot, self._surroundings(account))
        return JobHooks(programs, context.log, context.processes, account, self.sandbox, told)

    async def _prepared(self, hook: Hook, plan: Plan, account: Account) -> Plan:
        """Let a prepare hook change the job; Held or HookFailed when it refuses it."""
        if self.hooks is None or not self.hooks.has(hook):
            return plan
        answer = await self.hooks.prepare(hook, self.job)
        if answer.verdict is Verdict.HOLD:
            raise Held(Hold(answer.message, HoldCode.HOOK_PREPARE_JOB_FAILURE, answer.status))
        if answer.verdict is Verdict.IDLE:
            raise HookFailed(answer.message)
        if answer.message:
            request = self.request
            notice = JobNotice(job_id=request.job_id, activation=request.activation, message=answer.message)
            await self.link.notice(notice)
        self.job = changed_by(self.job, answer.updates)
        sandbox.write_ads(self.sandbox, account, self.job, self.slot)
        return self._plan(account)

    async def _tell_hook_now_and_then(self, hooks: JobHooks) -> None:
        """Run the update hook whenever the schedd hears how the job is; never two at a time."""
        settings = self.context.settings
        at = trio.current_time() + settings.update_first_s
        while self.executed is not None:
            await trio.sleep_until(at)
            self._look()
            state = "Suspended" if self.suspended else "Running"
            await hooks.update(running_job(self.job, self.usage.ad(), self.executed, state))
            at = max(at + settings.update_s, trio.current_time())

    async def _tell_of_exit(self, hooks: JobHooks, executed: Executed, result: Result) -> None:
        """Run the exit hook, before output moves and anybody hears of the end."""
        stop = self._stop
        reason = result.reason or (stop.reason if stop is not None else "")
        ad = ended_job(self.job, self.usage.ad(), executed, time.time(), reason)
        patience_s = self.context.settings.killing_timeout_s / 2 if self._must_be_fast() else math.inf
        await hooks.job_exit(ad, "exit" if stop is None else stop.cause or "evict", at_most_s=patience_s)

    # ---- leaving

    async def _obey(self, body: Body) -> None:
        """Wait to be told, then end the program: politely first, unless it has to be fast."""
        while self._stop is None:
            await self._stopped.wait()
        if not self._must_be_fast():
            number = soft_kill_signal(self.job, HOLD if self._stop.hold_code else VACATE)
            self.context.log.always("The job is asked to leave", job=self.request.job_id, signal=number)
            body.signal(number)
            if self.suspended:
                self.resume()
            with trio.move_on_after(self._vacate_s(self._stop)):
                while not self._must_be_fast():
                    await self._stopped.wait()
        self.context.log.always("The job is killed", job=self.request.job_id)
        await body.end()

    def _must_be_fast(self) -> bool:
        return self._stop is not None and self._stop.how is StopHow.FAST

    def _vacate_s(self, request: StopJob) -> float:
        if request.vacate_s is not None:
            return request.vacate_s
        asked = self.job.eval_float("JobMaxVacateTime")
        return VACATE_DEFAULT_S if asked is None else max(0.0, asked)

    def _evicted(self) -> Result:
        stop = self._stop
        if stop is not None and stop.hold_code:
            hold = Hold(stop.reason, stop.hold_code, stop.hold_subcode)
            return Result(Ending.HOLD, hold.ad(), hold.reason)
        return Result(Ending.EVICTED, reason=stop.reason if stop is not None else "")


def _chirp_rules(settings: StarterSettings) -> ChirpRules:
    enabled, files, updates, delayed = settings.chirp
    return ChirpRules(enabled, files, updates, delayed, tuple(settings.chirp_names), settings.chirp_names_max)


def _holds(expression: str, slot: ClassAd, job: ClassAd) -> bool:
    """Whether an expression of the machine's is true of the job."""
    text = expression.strip()
    return text.lower() == "true" or (bool(text) and expr(text).eval(slot, job) is True)
