"""One run of a job's program: started, attended to, ended whole, and judged.

    limits -> launch (or a container) -> watch -> end what is left -> look a last time -> what the end means

A job has more than one run when it makes checkpoints of its own. What is known of the program while it runs, for those
who visit it, freeze it or tell it to leave, is here; it is all None when no program runs.

Rules: told to leave, a program gets its signal and its time (JobMaxVacateTime), then it is killed; a suspended one is
let go on first, else it could not hear. What outlives the program is ended before usage is looked at for the last time.

Source: HTCondor's manual, "Job Termination" and the attributes KillSig, RemoveKillSig, HoldKillSig, JobMaxVacateTime;
src/condor_starter.V6.1/vanilla_proc.cpp, os_proc.cpp.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import trio

from daemons.base.faults import fault
from daemons.base.sync import first_of
from daemons.host.account import Account
from daemons.starter.images import Images, Pen
from daemons.starter.launch.bare import BareBody, start_bare
from daemons.starter.launch.body import Body, Scene
from daemons.starter.launch.container import started_in
from daemons.starter.launch.context import Context
from daemons.starter.launch.criu import CriuFailed, forget_images, restore
from daemons.starter.launch.terms import Terms
from daemons.starter.launch.virtual_machine import judged, saved, start_vm, tell_of_start
from daemons.starter.launch.vm_body import VmBody
from daemons.starter.live.shell import Shells
from daemons.starter.report.local_link import Link
from daemons.starter.report.result import ActivationResult, HoldJob
from daemons.starter.rest.state import Rest
from daemons.starter.watch.figures import Figures, look_now_and_then, tell_now_and_then
from daemons.starter.watch.leaving import Leaving, vacate_s
from daemons.starter.watch.watches import Watches
from pool.classad import ClassAd
from pool.execute.cgroup import CgroupLimits
from pool.execute.exit import Exited, Hold, exited
from pool.execute.plan import RunPlan
from pool.execute.signals import HOLD, VACATE, soft_kill_signal
from pool.hooks.ads import Executed
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.shadow import JobExecuting
from protocol.messages.starter import RunJob, StopJob

SHORT_JOB_S: Final = 0.02
"""A job that is over sooner is not attended to; only at its end is it said that it ran."""

Attendant = Callable[[], Awaitable[None]]


class ProgramRuns:
    """One activation's runs, one after another."""

    def __init__(
        self,
        context: Context,
        request: RunJob,
        sandbox: str,
        link: Link,
        leaving: Leaving,
        figures: Figures,
        watches: Watches,
    ) -> None:
        self._context, self._request, self.sandbox = context, request, sandbox
        self._link, self._leaving, self._figures, self._watches = link, leaving, figures, watches
        self.shells = Shells(context.processes, context.group, context.log)
        self.body: Body | None = None
        self.scene: Scene | None = None
        """For those who visit the program."""
        self.executed: Executed | None = None
        self.ran_s: float | None = None
        """How long the last run was."""
        self.suspended = False
        self.images: Images | None = None
        """Of a program that can be written down before it leaves; then it is only to be ended."""

    def suspend(self) -> None:
        """Freeze the program; one that has not begun is frozen when it does."""
        self.suspended = True
        if self.body is not None:
            self.body.suspend()

    def resume(self) -> None:
        """Let it go on."""
        self.suspended = False
        if self.body is not None:
            self.body.resume()

    def ask_for_checkpoint(self, number: int) -> None:
        """Send the program the signal that it makes a checkpoint at; not one that is on its way out."""
        if self.body is not None and self._leaving.told is None and not self.suspended:
            self._context.log.always("The job is asked for a checkpoint", job=self._request.job_id, signal=number)
            self.body.signal(number)

    # ---- one run

    async def bare(
        self,
        job: ClassAd,
        plan: RunPlan,
        account: Account,
        terms: Terms,
        limits: CgroupLimits,
        attendants: Sequence[Attendant],
        *,
        restored: bool = False,
    ) -> ActivationResult:
        """Run the program to its end, with `attendants` going on meanwhile, unless it is over in a moment.

        `restored`: it goes on from images in the sandbox.
        """
        if not self._figures.has_begun:  # after a checkpoint the same job goes on
            self._context.processes.new_job()
        if restored:
            body: BareBody | ActivationResult = await self._restored(account, terms, limits)
        else:
            body = await start_bare(self._context, plan, account, terms, limits)
        if isinstance(body, ActivationResult):
            return body
        self._note_start(body.watched.pid, "The job runs", user=account.name)
        scene = Scene(job, self._request.slot_ad, plan, account, terms, self.sandbox, body.watched.pid)
        self._runs(scene)
        return await self._watch(body, scene, attendants, limits.memory)

    async def _restored(self, account: Account, terms: Terms, limits: CgroupLimits) -> BareBody | ActivationResult:
        try:
            body = await restore(self._context, account, terms, limits, self.sandbox)
        except CriuFailed as error:
            self._context.log.error("The job cannot go on", job=self._request.job_id, reason=str(error))
            said = f"The job cannot go on from its checkpoint on {self._context.settings.host}: {error}"
            return ActivationResult.held(Hold(said, HoldCode.FAILED_TO_CHECKPOINT))
        forget_images(self.sandbox, account)
        return body

    async def taken_over(
        self, rest: Rest, job: ClassAd, plan: RunPlan, account: Account, terms: Terms, attendants: Sequence[Attendant]
    ) -> ActivationResult:
        """The same with a program that another process has started, and left to the keeper."""
        context = self._context
        watched = context.processes.taken_over
        assert watched is not None
        context.processes.tracking = terms.tracking
        if context.group.works:
            context.group.take_over(rest.group_before, CgroupLimits(memory=rest.memory_limit))
        self.executed = Executed(rest.pid, rest.executing.at)
        self._link.goes_on(rest.executing)
        body = BareBody(watched, context.processes, context.group)
        scene = Scene(job, self._request.slot_ad, plan, account, terms, self.sandbox, rest.pid)
        context.log.full("The starter is awake", job=self._request.job_id, pid=rest.pid)
        return await self._watch(body, scene, attendants, rest.memory_limit)

    async def virtual_machine(
        self,
        job: ClassAd,
        plan: RunPlan,
        account: Account,
        terms: Terms,
        limits: CgroupLimits,
        attendants: Sequence[Attendant],
    ) -> ActivationResult:
        """The same with a virtual machine, which goes on from its checkpoint where there is one."""
        self._context.processes.new_job()
        body = await start_vm(self._context, job, plan, account, terms, limits, self.sandbox)
        if isinstance(body, ActivationResult):
            if body.ending is Ending.FAILED:
                await tell_of_start(self._context, self._request.activation, body.reason)
            return body
        await tell_of_start(self._context, self._request.activation)
        self._note_start(body.watched.pid, "The virtual machine runs", user=account.name)
        scene = Scene(job, self._request.slot_ad, plan, account, terms, self.sandbox, body.watched.pid)
        self._runs(scene)
        return judged(await self._watch(body, scene, attendants, limits.memory), account, self.sandbox)

    @property
    def pen(self) -> Pen:
        """Who writes the virtual machine down."""
        return Pen(write=self._save, go_on=self.resume, forget=lambda scene: None)

    async def _save(self, scene: Scene) -> None:
        assert isinstance(self.body, VmBody)
        await saved(self.body, scene.account, scene.sandbox)

    async def in_container(
        self, image: str, job: ClassAd, plan: RunPlan, account: Account, terms: Terms, attendants: Sequence[Attendant]
    ) -> ActivationResult:
        """The same in a container."""
        self._context.processes.new_job()
        async with started_in(image, self._context, self._request, job, terms, plan, account) as container:
            self._note_start(container.pid, "The job runs in a container", image=image)
            visit = container.entrance, container.name
            scene = Scene(job, self._request.slot_ad, plan, account, terms, self.sandbox, container.pid, *visit)
            self._runs(scene)
            return await self._watch(container, scene, attendants)

    def _note_start(self, pid: int, said: str, **how: str) -> None:
        self._figures.begin()
        self.executed = Executed(pid, time.time())
        self._context.log.always(said, job=self._request.job_id, pid=pid, **how)
        fault("starter.job_started")

    def _runs(self, scene: Scene) -> None:
        executing = JobExecuting(
            job_id=self._request.job_id,
            activation=self._request.activation,
            at=time.time(),
            ad=ClassAd({"JobPid": scene.pid, "CondorScratchDir": self.sandbox, **self._figures.moved}),
        )
        self._link.runs(executing)

    async def _watch(
        self, body: Body, scene: Scene, attendants: Sequence[Attendant], limit_bytes: int = 0
    ) -> ActivationResult:
        """Until the program has ended and nothing of it is left."""
        self.body, self.scene, began = body, scene, trio.current_time()
        try:
            end = await self._until_over(body, scene, attendants, limit_bytes)
        except HoldJob as error:
            return self._leaving.result() if self._leaving.told is not None else ActivationResult.held(error.hold)
        finally:
            self.body, self.ran_s = None, trio.current_time() - began
        return self._judge(end, limit_bytes)

    async def _until_over(self, body: Body, scene: Scene, attendants: Sequence[Attendant], limit_bytes: int) -> Exited:
        context, ended = self._context, body.watched.ended
        if self.suspended:
            body.suspend()
        with trio.move_on_after(SHORT_JOB_S):
            await ended.wait()
        if not ended.is_set():
            await self._attend_to(body, scene, attendants, limit_bytes)
        self.scene = None
        fault("starter.job_exited")
        if context.processes.any():  # the last chance to see what others of the job use
            await self._figures.look(body)
        # What the job left behind ends before output moves: it could still be writing into it.
        await context.processes.end_all(context.group)
        await self._figures.look(body)
        self.body = None
        self._figures.measure_disk()
        self._watches.note_memory(body)
        try:
            end = await body.outcome()
        finally:
            self._figures.hear(body)
        if self.shells.last_status is not None and scene.job.eval_bool("InteractiveJob", False):
            end = exited(self.shells.last_status)
        if self.executed is not None:
            self.executed = replace(self.executed, end=end)
        return end

    def _judge(self, end: Exited, limit_bytes: int) -> ActivationResult:
        """What the program's end means."""
        if self._leaving.told is not None:
            return self._leaving.result()
        always_hold = self._context.settings.always_hold_on_oom
        out = self._watches.verdict(end, self._request.slot_ad, limit_bytes, always_hold=always_hold)
        return out or ActivationResult(Ending.EXITED, end.ad())

    # ---- meanwhile

    async def _attend_to(self, body: Body, scene: Scene, attendants: Sequence[Attendant], limit_bytes: int) -> None:
        """All that is done for a running program, until it has ended; a job of a moment needs none of it."""
        context = self._context
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._link.say_that_it_runs)
            for attendant in attendants:
                nursery.start_soon(attendant)
            nursery.start_soon(
                tell_now_and_then, self._figures, body, context.settings, self._request, self._link, context.startd
            )
            nursery.start_soon(look_now_and_then, self._figures, body, self._look_s)
            nursery.start_soon(self._obey, body, scene.job)
            nursery.start_soon(body.attend)
            if isinstance(body, BareBody):
                nursery.start_soon(self._watches.memory, body, limit_bytes)
            if self._watches.disk_is_enforced:
                nursery.start_soon(self._watches.disk, body)
            await body.watched.ended.wait()
            if self.shells.any:
                await self._until_shells_are_closed()
            nursery.cancel_scope.cancel()

    @property
    def _look_s(self) -> float:
        """How often the program is looked at: in its control group, or process by process."""
        settings = self._context.settings
        return settings.group_look_s if self._context.group.works else settings.processes_look_s

    async def _until_shells_are_closed(self) -> None:
        """A job goes on while somebody is in it, unless it has to leave."""
        await first_of(self.shells.all_closed, self._leaving.until_told)

    async def _obey(self, body: Body, job: ClassAd) -> None:
        """Wait to be told, then end the program: politely first, unless it has to be fast."""
        told = await self._leaving.until_told()
        log, job_id = self._context.log, self._request.job_id
        if not self._leaving.at_once and not await self._goes_along(told, job):
            number = soft_kill_signal(job, HOLD if told.hold_code else VACATE)
            log.always("The job is asked to leave", job=job_id, signal=number)
            body.signal(number)
            if self.suspended:
                self.resume()
            with trio.move_on_after(vacate_s(told, job)):
                await self._leaving.until_at_once()
        log.always("The job is killed", job=job_id)
        await body.end()

    async def _goes_along(self, told: StopJob, job: ClassAd) -> bool:
        """Whether the program leaves as it is, to go on elsewhere; what has to leave for good does not."""
        if self.images is None or self.scene is None or told.cause == "remove" or told.transfer:
            return False
        if self.suspended:
            self.resume()
        done = False
        with trio.move_on_after(vacate_s(told, job)):
            async with trio.open_nursery() as nursery:

                async def unless_at_once() -> None:
                    await self._leaving.until_at_once()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(unless_at_once)
                done = await self.images.take_along(self.scene)
                nursery.cancel_scope.cancel()
        return done
