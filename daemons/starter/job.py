"""One job, from RunJob to the acknowledged report: sandbox, input, program, output.

    sandbox, contact the shadow task -> input -> launch -> watch -> end what is left -> output -> report -> clean up

Whatever happens on the way becomes one `Result`. Telling the job to leave works at every step: before the program runs
there is nothing to ask, while it runs it gets its signal and its time (`running.py`), afterwards its output has that
time.

Rules: the program does not run before the schedd has made the execution durable (P2); the end is reported until it is
acknowledged (P3); what a person must mend puts the job on hold, what another machine may do better is a failure here;
the sandbox goes in any case.

Source: HTCondor's manual, "Running a Job: the Steps To Take" and "Job Hook Configuration Options"; the starter's course
is src/condor_starter.V6.1/starter.cpp (jobEnvironmentReady, SpawnJob, transferOutput, cleanupJobs).
"""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.host import sandbox
from daemons.host.account import Account, NotInGroup
from daemons.starter.checkpoints import Checkpoints, has_made_one
from daemons.starter.chirp.job import ChirpJob, chirp_rules
from daemons.starter.chirp.server import BRIDGES, LOOPBACK, host_of
from daemons.starter.deferral import wait_for_moment
from daemons.starter.fetching import fetch_input, transfer_for
from daemons.starter.files.outputs import Outputs
from daemons.starter.files.streams import Streams
from daemons.starter.hook_times import HookTimes, hooks_for
from daemons.starter.images import Images, criu_of
from daemons.starter.launch.body import Scene
from daemons.starter.launch.container_plan import image_of
from daemons.starter.launch.context import Context
from daemons.starter.launch.image_test import tested, unless_unlaunched, unmark
from daemons.starter.launch.terms import Terms, terms_for
from daemons.starter.live.shell import Shells
from daemons.starter.planning import Planner
from daemons.starter.remote_io.served import SERVER_GONE, ServedHomes, homes_for
from daemons.starter.report.local_link import Link, LocalLink
from daemons.starter.report.result import ActivationResult, HoldJob
from daemons.starter.report.shadow_link import ActivationRefused, ShadowLink
from daemons.starter.rest.kept import Used
from daemons.starter.rest.state import Course, Rest
from daemons.starter.resting import Resting
from daemons.starter.running import Attendant, ProgramRuns
from daemons.starter.watch.disk import Disk
from daemons.starter.watch.figures import Figures
from daemons.starter.watch.leaving import Leaving, vacate_s
from daemons.starter.watch.reserve import keep_reserve
from daemons.starter.watch.watches import Watches
from pool.base.errors import PeerError, PoolError, UserError
from pool.classad import ClassAd
from pool.containers.engine import knob
from pool.containers.singularity import runs_in_singularity
from pool.execute.criu import wants_criu
from pool.execute.exit import Hold
from pool.execute.isolation import HomeMount
from pool.execute.plan import JOB_AD_NAME, MACHINE_AD_NAME, RunPlan, facts
from pool.execute.remote_io import wants_remote_io
from pool.execute.vm import is_vm
from pool.files.checkpoint import appends_output, checkpoint_signal, is_written_down
from pool.files.transfer import streamed_input, streamed_outputs
from pool.hooks.table import Hook
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.universes import Universe
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobEnded
from protocol.messages.starter import MayGoOn, RunJob, StopJob

LAST_WRITES_S: Final = 3.0
"""How long what a job has written may take to get home when it has to leave at once."""
GREETING_TURNS: Final = 2
"""Turns of the loop in which the schedd hears who is here: it answers while the sandbox is made."""
UNSEEN_S: Final = 0.1
"""A job that is over sooner is not asked how much disk it took."""


class JobRun:
    """One activation."""

    def __init__(self, context: Context, request: RunJob, rest: Rest | None = None) -> None:
        self._rest = rest
        """What another process knows of the program that it has started, until that is taken over."""
        self.context = context
        self.request = request
        self.job, self.slot = request.job_ad, request.slot_ad
        log, settings = context.log, context.settings
        self.sandbox = sandbox.path_of(settings.execute, settings.number)
        self._link: Link
        if request.shadow_address:
            self._link = ShadowLink(request, context.line, log)
        else:
            self._link = LocalLink(request, self.sandbox, log, lambda: self._planner.account(self.job))
        self._chirp = ChirpJob(request, self.job, chirp_rules(settings), context.agent, self._link.peer, log)
        self._planner = Planner(settings, request, self.sandbox, chirps=bool(self._chirp.rights))
        self._disk = Disk(settings, self.job, self.slot, self.sandbox, log)
        self._made_sandbox = False
        self._figures = Figures(self._disk, self._chirp, context.settings.memory_metric)
        self._leaving = Leaving()
        self._phase = trio.CancelScope()
        poll_s = context.settings.memory_poll_s
        watches = Watches(context.group, self._disk, self._figures, request.job_id, log, memory_poll_s=poll_s)
        self._running = ProgramRuns(context, request, self.sandbox, self._link, self._leaving, self._figures, watches)
        self._resting = Resting(
            context,
            request,
            self._link,
            self._running,
            self._figures,
            self._chirp,
            self._leaving,
            lambda: self.visitors,
        )
        self._hooks: HookTimes | None = None
        self._streams: Streams | None = None
        self._outputs: Outputs | None = None
        self._homes: ServedHomes | None = None
        self.visitors = 0
        """How many look into it."""
        self._beside: trio.Nursery
        """For what goes on beside it, until its end is reported."""

    # ---- from outside

    def stop(self, request: StopJob) -> None:
        """Make the job leave; asked again, the harder way counts."""
        # A program that another starter has begun runs already, and is ended when it has been taken over.
        if self._leaving.tell(request) and self._running.body is None and self._rest is None:
            self._give_phase_up(request)
        if self._homes is not None:
            self._beside.start_soon(self._cut_off, self._homes, self._grace_s(request) + LAST_WRITES_S)

    async def _cut_off(self, homes: ServedHomes, after_s: float) -> None:
        """Nobody waits longer for files at home: neither the job's processes nor who looks at them."""
        await trio.sleep(after_s)
        homes.stop()

    def _give_phase_up(self, request: StopJob, at_least_s: float = 0.0) -> None:
        """Files on their way to the job are of no use now; those coming from it have the vacate time."""
        grace = max(self._grace_s(request), at_least_s)
        self._phase.deadline = min(self._phase.deadline, trio.current_time() + grace)

    def _grace_s(self, request: StopJob) -> float:
        has_time = request.how is not StopHow.FAST and self._figures.has_begun
        return vacate_s(request, self.job) if has_time else 0.0

    def suspend(self) -> None:
        """Freeze the job."""
        self._running.suspend()

    def resume(self) -> None:
        """Let it go on."""
        self._running.resume()

    def ask_for_checkpoint(self) -> None:
        """The machine's owner wants it to make one, and so does it."""
        number = checkpoint_signal(self.job)
        if number is not None:
            self._running.ask_for_checkpoint(number)
        elif wants_criu(self.job) and self._leaving.told is None and not self._running.suspended:
            self._beside.start_soon(self._write_down)

    async def _write_down(self) -> None:
        """Have the program go on from here, should it be lost later."""
        images, scene = self._running.images, self.scene
        if images is None or scene is None:
            return
        try:
            await images.take(scene)
        except HoldJob as error:
            self._hold_now(error.hold)

    def note_devices(self, used: ClassAd) -> None:
        """What it has used of its devices."""
        self._figures.of_devices = used

    @property
    def scene(self) -> Scene | None:
        """Set while the program runs, for those who visit it."""
        return self._running.scene

    @property
    def shells(self) -> Shells:
        """Those of its visitors."""
        return self._running.shells

    @property
    def ran_s(self) -> float | None:
        """How long its program ran."""
        return self._running.ran_s

    def moved(self, name: str) -> int:
        """How many bytes were transferred: BytesRecvd, BytesSent."""
        return self._figures.bytes_moved(name)

    # ---- the whole

    async def run(self) -> tuple[bool, str]:
        """Do it all; whether the end was reported, and if not, why."""
        async with trio.open_nursery() as nursery:
            self._beside = nursery
            nursery.start_soon(self._keep_link)
            for _ in range(GREETING_TURNS):
                await trio.lowlevel.checkpoint()
            result = await self._execute()
            if self._rest is not None:  # something is wrong with this machine, and the program still runs
                await self.context.processes.end_all(self.context.group)
            said = {"ending": result.ending.value, "reason": result.reason}
            self.context.log.always("The job ended", job=self.request.job_id, **said)
            reported, reason = await self._report(result)
            nursery.cancel_scope.cancel()
        self._clean_up()
        return reported, reason

    async def _keep_link(self) -> None:
        """Speak with the schedd; stop when nobody waits for the job any more."""
        await self._link.run()
        if self._link.over is not None:
            self.stop(StopJob(activation=self.request.activation, how=StopHow.FAST, reason=self._link.over))

    async def _keep_reserve(self) -> None:
        """Nothing but this keeps the job from filling a disk that it shares."""
        if self._disk.enforced:
            return
        await trio.sleep(UNSEEN_S)
        reserved_mb = self.context.settings.reserved_disk_mb
        await keep_reserve(self.sandbox, self.slot, reserved_mb, self._figures, self._hold_now)

    def _hold_now(self, hold: Hold) -> None:
        self.stop(
            StopJob(
                activation=self.request.activation,
                how=StopHow.FAST,
                reason=hold.reason,
                hold_code=hold.code,
                hold_subcode=hold.subcode,
            )
        )

    async def _report(self, result: ActivationResult) -> tuple[bool, str]:
        ad = result.ad.copy()
        ad.update(self._figures.final_ad())
        message = JobEnded(
            job_id=self.request.job_id,
            activation=self.request.activation,
            ending=result.ending,
            at=time.time(),
            reason=result.reason,
            ad=ad,
            checkpointed=self._running.images is not None and self._running.images.are_kept,
        )
        try:
            await self._link.ended(message)
        except ActivationRefused as error:
            return False, str(error)
        fault("starter.reported")
        return True, ""

    def _clean_up(self) -> None:
        if self._made_sandbox:
            self._disk.remove()
            try:
                if self._disk.enforced:
                    sandbox.remove(self.sandbox)
                else:
                    sandbox.empty(self.sandbox)
            except OSError as error:  # the startd's sweep tries again when this process is gone
                self.context.log.error("Cannot empty the sandbox", path=self.sandbox, reason=error.strerror)

    # ---- step by step

    async def _execute(self) -> ActivationResult:
        """Run the job; every way it can end is a Result."""
        try:
            with self._phase:
                return await self._prepare_and_run()
            return self._leaving.result()
        except HoldJob as error:
            return ActivationResult.held(error.hold)
        except ActivationRefused as error:
            return ActivationResult(Ending.EVICTED, reason=str(error))
        except NotInGroup as error:
            return ActivationResult.held(Hold(str(error), HoldCode.CANNOT_SWITCH_PRIMARY_GROUP))
        except UserError as error:  # arguments or environment that cannot be read
            return ActivationResult.held(Hold(str(error), HoldCode.FAILED_TO_CREATE_PROCESS))
        except ValueError as error:  # a name that no file can have: it would be the same on every machine
            self.context.log.error("The job cannot be run", error)
            return ActivationResult.held(Hold(f"The job cannot be run: {error}", HoldCode.FAILED_TO_CREATE_PROCESS))
        except (PoolError, OSError) as error:
            self.context.log.error("This machine cannot run the job", error)
            return ActivationResult(Ending.FAILED, reason=str(error))

    async def _prepare_and_run(self) -> ActivationResult:
        if self._rest is not None:
            return await self._go_on(self._rest)
        self._note_image()
        account = self._planner.account(self.job)
        self._make_sandbox(account)
        plan = None if self.request.early else self._planner.plan(self.job, account)
        await self._link.peer()  # which is there when the schedd has made the execution durable: only now may it run
        plan = plan or self._granted(account)
        self._hooks = hooks_for(
            self.context,
            self.request,
            self._link,
            account,
            self.sandbox,
            lambda: facts(self.job, self.slot, self._planner.surroundings(self.job, account)),
        )
        plan = await self._prepared(Hook.PREPARE_JOB_BEFORE_TRANSFER, plan, account)
        outputs: Outputs | None = None
        if plan.transfers:
            transfer = transfer_for(self.context, self.request, self.job, self.sandbox, account, plan, self._figures)
            self._beside.start_soon(transfer.times.tell, self._link, self.request)
            self._beside.start_soon(self._keep_reserve)
            await fetch_input(transfer, self._figures, self._disk, self.context.log)
            outputs = Outputs(transfer)
            self._streams = Streams(self.request, self.job, self.sandbox, account, self.context.agent, self.context.log)
            self._streams.prepare(plan)
        plan = await self._prepared(Hook.PREPARE_JOB, plan, account)
        fault("starter.input_done")
        if (missed := await wait_for_moment(self.job, self.slot)) is not None:
            return ActivationResult.held(missed)
        if outputs is None:
            result = await self._run_program(plan, account)
            await self._end_hooks_and_streams(result)
        else:
            result = await self._run_and_keep(outputs, plan, account)
        fault("starter.output_pushed")
        return self._leaving.result() if self._leaving.told and result.ending is Ending.EXITED else result

    def _note_image(self) -> None:
        """Held before files move, if it is in a container and cannot be run."""
        image = image_of(self.job, self.slot, self.context.settings)
        if image is not None and not self.job.eval_bool("WantContainer", False):
            self.job["WantDocker"], self.job["DockerImage"] = True, image  # also where the machine's owner wants it so

    def _granted(self, account: Account) -> RunPlan:
        """The plan for a job that was ordered early, which the schedd has told of by now as it is with this slot."""
        if (granted := self._link.granted) is not None:
            # The same object: all that has to do with the job has it.
            for name in [name for name in self.job if name not in granted]:
                del self.job[name]
            self.job.update(granted)
            self._note_image()
        self._write_job_ad(account)
        return self._planner.plan(self.job, account)

    def _make_sandbox(self, account: Account) -> None:
        sandbox.make(self.sandbox, account)
        self._made_sandbox = True
        self._disk.make(account)
        ads = {} if self.request.early else {JOB_AD_NAME: self.job.long()}
        ads[MACHINE_AD_NAME] = self.context.slot_lines.long(self.slot)
        sandbox.write_ads(self.sandbox, account, ads)
        fault("starter.sandbox_made")

    def _write_job_ad(self, account: Account) -> None:
        sandbox.write_ads(self.sandbox, account, {JOB_AD_NAME: self.job.long()})

    async def _go_on(self, rest: Rest) -> ActivationResult:
        """The program runs, and its starter has rested."""
        self.job, self._made_sandbox = rest.job, True
        account = self._planner.account(self.job)
        self._disk.take_over(account)
        assert self.context.kept is not None
        self._figures.take_over(Used(*self.context.kept.used).usage(), rest.moved, rest.of_devices)
        self._chirp.take_over(rest.delayed)
        plan = self._planner.plan(self.job, account)
        if rest.stamps is None:
            result = await self._run_program(plan, account)
        else:
            transfer = transfer_for(self.context, self.request, self.job, self.sandbox, account, plan, self._figures)
            self._beside.start_soon(transfer.times.tell, self._link, self.request)
            result = await self._run_and_keep(Outputs(transfer, rest.before()), plan, account)
        return self._leaving.result() if self._leaving.told and result.ending is Ending.EXITED else result

    async def _prepared(self, hook: Hook, plan: RunPlan, account: Account) -> RunPlan:
        """The plan for the job as a prepare hook has left it."""
        if self._hooks is None or not self._hooks.has(hook):
            return plan
        self.job = await self._hooks.prepared(hook, self.job)
        self._write_job_ad(account)
        return self._planner.plan(self.job, account)

    async def _run_and_keep(self, outputs: Outputs, plan: RunPlan, account: Account) -> ActivationResult:
        """Run the program, again after each checkpoint of its own, and see to it that what it made is kept."""
        checkpoints = Checkpoints(self.request, outputs, self._figures, self._link, self.context.log)
        self._outputs = outputs
        if is_written_down(self.job):
            pen = self._running.pen if is_vm(self.job) else criu_of(self.context)
            keep = partial(checkpoints.push, self.job)
            self._running.images = Images(pen, self.context.log, self.request, self._link, keep)
        resumes = outputs.goes_on and appends_output(self.job)
        result = await self._run_program(replace(plan, append_output=True) if resumes else plan, account)
        while has_made_one(self.job, result, self._running.executed):
            await checkpoints.keep(self.job, self._running.executed)
            if self._leaving.told is not None:
                result = self._leaving.result()
                break
            if why_not := await self._why_not_again():
                result = ActivationResult(Ending.EVICTED, reason=why_not)
                break
            result = await self._run_program(replace(plan, append_output=True), account)
        await self._end_hooks_and_streams(result)
        told = self._leaving.told
        if (images := self._running.images) is not None and images.waits:
            images.are_kept = not self._leaving.at_once and await checkpoints.push(self.job)
            return result
        if result.ending is Ending.EXITED or (told is not None and told.transfer and not self._leaving.at_once):
            sent = await outputs.push(result.ad.eval_int("ExitCode"))
            self._figures.moved["BytesSent"] = float(sent)
        else:
            await checkpoints.keep_for_later(self.job, self._running.executed, self._leaving)
        return result

    async def _why_not_again(self) -> str:
        """Why the slot takes the program no more, as its startd says; empty where it does, or does not say."""
        try:
            return (await self.context.startd.call(MayGoOn(activation=self.request.activation))).why_not
        except PeerError as error:
            self.context.log.full(f"Whether the job may go on is not known: {error}")
            return ""

    async def _end_hooks_and_streams(self, result: ActivationResult) -> None:
        executed = self._running.executed
        if self._hooks is not None and executed is not None:
            await self._hooks.tell_of_exit(self.job, self._figures, executed, result, self._leaving)
        if self._streams is not None and not self._leaving.at_once:
            await self._streams.finish()

    # ---- the program

    async def _run_program(self, plan: RunPlan, account: Account) -> ActivationResult:
        if self._leaving.told is not None and self._rest is None:
            return self._leaving.result()
        if self.context.chirp is None or not self.request.shadow_address:
            return await self._run_with_its_files(plan, account)
        settings = self.context.settings
        is_contained = image_of(self.job, self.slot, settings) is not None
        bridges = knob(settings.docker, "DOCKER_NETWORK_NAME"), *BRIDGES
        host = host_of(self.job.eval_str("DockerNetworkType") or "", bridges) if is_contained else LOOPBACK
        with self.context.chirp.serving(self._chirp, self.sandbox, account, host):
            return await self._run_with_its_files(plan, account)

    async def _run_with_its_files(self, plan: RunPlan, account: Account) -> ActivationResult:
        """The same, with files that stay at home where the job wants that."""
        if not wants_remote_io(self.job):
            return await self._run_on_its_terms(plan, account)
        contained = image_of(self.job, self.slot, self.context.settings) is not None
        if contained or runs_in_singularity(self.job, self.slot, self.context.settings.docker):
            return ActivationResult(Ending.FAILED, reason="A job in a container cannot have its files where they are.")
        async with homes_for(self.request, self.job, self.context, account, self._beside, self._leave_lost) as homes:
            self._homes = homes
            result = await self._run_on_its_terms(plan, account, homes.mounts)
            if self._leaving.told is not None:
                self._give_phase_up(self._leaving.told, LAST_WRITES_S)
        return self._leaving.result() if homes.is_lost else result

    def _leave_lost(self) -> None:
        """Its files are out of reach for good, and what it wrote last is lost: it has to begin again."""
        self.stop(StopJob(activation=self.request.activation, how=StopHow.FAST, reason=SERVER_GONE))

    async def _run_on_its_terms(
        self, plan: RunPlan, account: Account, homes: tuple[HomeMount, ...] = ()
    ) -> ActivationResult:
        settings, log, running = self.context.settings, self.context.log, self._running
        with terms_for(settings, self.job, self.slot, plan, account, self.sandbox, log, homes) as terms:
            image = image_of(self.job, self.slot, settings)
            if image is not None:
                attendants = self._attendants(terms)
                return await running.in_container(image, self.job, plan, account, terms, attendants)
            if self._rest is not None:
                rest, self._rest = self._rest, None
                attendants = self._attendants(terms, rest.memory_limit)
                result = await running.taken_over(rest, self.job, plan, account, terms, attendants)
                return await self._unless_never_begun(result, plan, account)
            if runs_in_singularity(self.job, self.slot, settings.docker):
                log.always("The job's program is put into an image", command=shlex.join(plan.argv))
                if (failed := await tested(self.context, self.request.activation, plan, account)) is not None:
                    return failed
                unmark(plan, account)
            limits = self._planner.limits(self.job)
            attendants = self._attendants(terms, limits.memory)
            if is_vm(self.job):
                return await running.virtual_machine(self.job, plan, account, terms, limits, attendants)
            restored = self._outputs is not None and self._outputs.has_images
            result = await running.bare(self.job, plan, account, terms, limits, attendants, restored=restored)
            return await self._unless_never_begun(result, plan, account)

    async def _unless_never_begun(self, result: ActivationResult, plan: RunPlan, account: Account) -> ActivationResult:
        """The result, where it is the job's own, and not that of an image that did not run, or of a wrapper."""
        result = await unless_unlaunched(self.context, self.request.activation, plan, account, result)
        if plan.wrapped and (said := sandbox.wrapper_error(self.sandbox, account)) is not None:
            self.context.log.error("The job wrapper has failed", wrapper=plan.program, said=said)
            if result.ending is Ending.EXITED:
                return ActivationResult(Ending.FAILED, reason=f"{plan.program} could not run the job: {said}")
        return result

    def _attendants(self, terms: Terms, memory_limit: int = 0) -> list[Attendant]:
        """What goes on beside the program."""
        found: list[Attendant] = []
        if self._streams is not None:
            found.append(self._streams.run)
        else:  # where files move, it has gone on since they began to
            found.append(self._keep_reserve)
        if self._hooks is not None and self._hooks.has(Hook.UPDATE_JOB_INFO):
            found.append(partial(self._hooks.tell_now_and_then, self.job, self._figures, self._running))
        if (kept := self.context.kept) is not None and self.context.settings.rest_after_s:
            course = self._course(terms)
            found.append(partial(self._resting.when_alone, kept, self.job, course, memory_limit, self._outputs))
        return found

    def _course(self, terms: Terms) -> Course:
        return Course(
            has_schedd=bool(self.request.shadow_address),
            in_container=image_of(self.job, self.slot, self.context.settings) is not None,
            has_hooks=self._hooks is not None,
            streams=streamed_input(self.job) is not None or bool(streamed_outputs(self.job)),
            from_checkpoint=self._outputs is not None and self._outputs.goes_on,
            in_pid_namespace=terms.isolation.processes,
            disk_is_enforced=self._disk.enforced,
            devices=any(name.lower().startswith("assigned") for name in self.slot),
            borrows=bool(terms.cpus or terms.group_id),
            is_node=self.job.eval_int("JobUniverse") == Universe.PARALLEL,
            has_remote_io=wants_remote_io(self.job),
            is_interactive=self.job.eval_bool("InteractiveJob", False),
            is_virtual_machine=is_vm(self.job),
        )
