"""The starter: forked by the startd's zygote before a claim needs it, it runs one claim's jobs one after another.

It keeps root's rights where its pool has them, to switch to each job's account, and speaks to its startd on the socket
pair that it was born with. It ends when it is told that the claim is over, or when its startd is gone: a job that still
runs is evicted then.

Rules: one job at a time; what the startd asks twice is done once; a message for an activation that is over is answered
and does nothing. What its two sides may ask is in two tables: `Starter.answers` for the startd, `Live.answers` for
tools, by way of the schedd.

Source: HTCondor's manual on condor_starter ("The Different Roles a Machine Can Play"), and the knobs STARTER_*.
"""

from __future__ import annotations

import os
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Final

import trio

from daemons.base import faults
from daemons.base.log import Log
from daemons.host import sandbox
from daemons.host.cgroup import ControlGroup
from daemons.host.child_settings import StarterSettings
from daemons.host.processes import Ended, Processes
from daemons.process.zygote import Birth
from daemons.starter.chirp.job import chirp_rules
from daemons.starter.chirp.server import ChirpServer
from daemons.starter.job import JobRun
from daemons.starter.launch.context import Context
from daemons.starter.launch.spawn import JobSpawner
from daemons.starter.live.requests import Live
from daemons.starter.report.line import SharedConnection
from daemons.starter.rest.kept import WORD_BYTES_MAX, Kept, unpacked
from daemons.starter.rest.state import Rest
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.classad.eval.delta import Delta, changed_by
from pool.classad.forms.kept_lines import KeptLines
from pool.execute.cgroup import Trees
from protocol.messages.common import StopHow
from protocol.messages.starter import (
    ActivationOver,
    CheckpointJob,
    ContinueJob,
    DeviceUse,
    KnowSlot,
    LeaveNow,
    MeetSchedd,
    RunJob,
    StarterAwake,
    StarterSlot,
    StopJob,
    SuspendJob,
    WakeUp,
)
from protocol.network.channel import Network, pair_channel
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, Service, answer
from protocol.security import needs
from protocol.security.credentials import Security
from protocol.wire.message import DONE, Done, replace

NO_GROUP: Final = ControlGroup(Trees(0), "")


class AlreadyBusy(PeerError):
    """Another job runs."""


async def main(birth: Birth, settings: StarterSettings, log: Log, network: Network, kept: Kept | None = None) -> None:
    """Serve the startd until the claim is over or the startd is gone; with `kept`, for a keeper."""
    await Starter(settings, log, network, kept).serve(birth)


class Starter:
    """One process: at most one job at a time."""

    def __init__(self, settings: StarterSettings, log: Log, network: Network, kept: Kept | None = None) -> None:
        self._settings, self._log, self._network = settings, log, network
        self._kept = kept
        self._security: Security = settings.client_security()
        self._processes = Processes()
        self._group = NO_GROUP
        self._spawner = JobSpawner(self._group)
        self._startd: Peer | None = None
        self._job: JobRun | None = None
        self._last = ""
        self._slot_ad, self._slot_lines = ClassAd(), KeptLines()
        self._idle = trio.Event()
        self._idle.set()
        self._leave = trio.Event()
        self._orphaned = False
        self._nursery: trio.Nursery | None = None
        self._lines: tuple[SharedConnection, SharedConnection] | None = None
        self._meeting: trio.CancelScope | None = None
        self._chirp: ChirpServer | None = None
        self._live = Live(
            self._present,
            ssh_to_job=settings.ssh_to_job,
            peek_job=settings.peek_job,
            takes_commands=chirp_rules(settings).enabled,
        )

    async def serve(self, birth: Birth) -> None:
        """The life of the process."""
        service = Service("starter", needs.STARTER)
        service.offer(self.answers())
        visits = Service("starter", needs.STARTER_TO_SCHEDD)
        visits.offer(self._live.answers())
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                line = partial(SharedConnection, nursery, self._security, self._network)
                self._lines = line(visits), line()  # to the schedd, and to the file agent
                self._chirp = ChirpServer(nursery, self._log)
                await nursery.start(self._processes.run)
                self._startd = startd = await self._meet_startd(birth, service)
                if self._kept is not None:
                    nursery.start_soon(self._hear_keeper, self._kept)
                    if self._kept.state >= 0:
                        await self._go_on(self._kept, Rest.unpack(self._kept.read_state()))
                nursery.start_soon(self._until_orphaned, birth.life)
                nursery.start_soon(self._until_hung_up, startd)
                nursery.start_soon(self._evict_at_sigterm)
                await self._leave.wait()
                await self._idle.wait()
                await self._processes.end_all(NO_GROUP)  # so that its exit status 0 says that nothing is left
                self._remove_sandbox()
                await startd.aclose()
                nursery.cancel_scope.cancel()
        finally:
            faults.fault("starter.before_leaving")
            self._spawner.close()
            if self._orphaned:  # else the startd removes it, unless another starter has it by now
                self._group.remove()

    async def _meet_startd(self, birth: Birth, service: Service) -> Peer:
        assert self._nursery is not None
        channel = pair_channel(birth.channel, "startd")
        if self._kept is not None and self._kept.is_orphan:  # nobody is at the other end: it will be heard at once
            ours, theirs = socket.socketpair()
            channel, ended = pair_channel(ours, "startd"), pair_channel(theirs, "nobody")
            nobody = partial(endpoints.open_pair, self._nursery, ended, parent=True, security=self._security)
            self._nursery.start_soon(nobody)
        startd = await endpoints.open_pair(
            self._nursery, channel, parent=False, security=self._security, service=service
        )
        if self._kept is not None and self._kept.is_orphan:
            startd.abort("the startd is gone")
        return startd

    # ---- a job that the keeper has had

    async def _go_on(self, kept: Kept, rest: Rest) -> None:
        """Take over the job that runs."""
        assert self._startd is not None
        assert self._nursery is not None
        # Before anything is awaited: whatever comes next, an order or the job's end, is about these processes.
        self._processes.take_over(kept.keeper, rest.pid)
        self._processes.elsewhere(kept.ended, kept.collected)
        settings = replace(StarterSettings.unpack(rest.settings), keeper=kept.keeper)
        self._work_for(rest.request.slot, settings)
        self._slot_ad = rest.request.slot_ad.copy()
        if self._chirp is not None:
            self._chirp.take_over(rest.chirp_cookie, dict(zip(rest.chirp_at, kept.listeners, strict=True)))
        self._job, self._idle = JobRun(self._context(), rest.request, rest), trio.Event()
        self._name_log(rest.request)
        self._nursery.start_soon(self._run, self._job)
        faults.fault("starter.wakes")
        if not kept.is_orphan:
            await self._startd.notify(StarterAwake(activation=rest.request.activation))
            faults.fault("starter.awake")
        if kept.is_to_leave:
            self._evict("The starter was told to end")

    async def _hear_keeper(self, kept: Kept) -> None:
        """What ends that is no child of this process."""
        line = trio.socket.from_stdlib_socket(kept.line)
        while packet := await line.recv(WORD_BYTES_MAX):
            word = unpacked(packet)
            self._processes.elsewhere(word["ended"], Ended(*word["collected"]))
        # The kernel kills a keeper's starter with it, but forgets to when that has acted as an account. The job's
        # processes are somebody else's now: to say that they have ended is for the startd, when it has swept.
        os._exit(1)

    def _remove_sandbox(self) -> None:
        """The claim's jobs have had one directory, one after another."""
        path = sandbox.path_of(self._settings.execute, self._settings.number)
        try:
            sandbox.remove(path)
        except OSError as error:  # the startd's sweep tries again
            self._log.error("Cannot remove the sandbox", path=path, reason=error.strerror)

    def _present(self, activation: str) -> JobRun | None:
        job = self._job
        return job if job is not None and job.request.activation == activation else None

    # ---- what the startd asks

    def answers(self) -> list[Answer]:
        """What the startd says; what tools ask of the running job, through its schedd, is `Live`'s."""
        return [
            answer(MeetSchedd, self.meet_schedd),
            answer(KnowSlot, self.know_slot),
            answer(RunJob, self.run_job),
            answer(SuspendJob, self.suspend_job),
            answer(ContinueJob, self.continue_job),
            answer(CheckpointJob, self.checkpoint_job),
            answer(DeviceUse, self.device_use),
            answer(StopJob, self.stop_job),
            answer(WakeUp, lambda _peer, _request: DONE),
            answer(LeaveNow, self.leave_now),
        ]

    def run_job(self, _peer: Peer, request: RunJob) -> Done:
        """Begin with a job; asked for it again, it is under way already."""
        # The startd asks again when an answer was lost on its way.
        if request.activation in (self._last, self._job.request.activation if self._job else ""):
            return DONE
        if self._job is not None:
            raise AlreadyBusy(f"the starter of {self._settings.slot} still runs {self._job.request.job_id}")
        if self._leave.is_set():
            raise AlreadyBusy(f"the starter of {self._settings.slot} is leaving")
        assert self._nursery is not None
        if request.slot.name != self._settings.slot:
            self._work_for(request.slot)
        self._slot_ad = changed_by(self._slot_ad, Delta(request.slot_ad, request.slot_lacks))
        request = replace(request, slot_ad=self._slot_ad.copy())
        self._job, self._idle = JobRun(self._context(), request), trio.Event()
        self._name_log(request)
        self._log.always("Activation begins", job=request.job_id, activation=request.activation)
        self._nursery.start_soon(self._run, self._job)
        return DONE

    def _context(self) -> Context:
        assert self._startd is not None
        assert self._lines is not None
        return Context(
            self._settings,
            self._log,
            self._security,
            self._network,
            self._processes,
            self._group,
            self._spawner,
            self._startd,
            *self._lines,
            chirp=self._chirp,
            slot_lines=self._slot_lines,
            kept=self._kept,
        )

    def _work_for(self, slot: StarterSlot, settings: StarterSettings | None = None) -> None:
        """Be this slot's from now on; a spare one was nobody's until its first job."""
        self._settings = (settings or self._settings).for_slot(slot)
        self._group = ControlGroup(self._settings.trees, slot.group, counts_cache=self._settings.counts_cache)
        self._spawner.close()
        self._spawner = JobSpawner(self._group)

    def meet_schedd(self, _peer: Peer, request: MeetSchedd) -> Done:
        """Connect to the claim's schedd before there is a job; or to nobody, as the claim was refused."""
        assert self._nursery is not None
        if self._meeting is not None:
            self._meeting.cancel()
        self._meeting = trio.CancelScope()
        self._nursery.start_soon(self._meet, request, self._meeting)
        return DONE

    def know_slot(self, _peer: Peer, request: KnowSlot) -> Done:
        """Keep what is news of the slot's ad."""
        self._slot_ad = changed_by(self._slot_ad, Delta(request.slot_ad, request.slot_lacks))
        return DONE

    async def _meet(self, request: MeetSchedd, scope: trio.CancelScope) -> None:
        assert self._lines is not None
        line = self._lines[0]
        try:
            with scope:
                if request.shadow_address:
                    await line.peer(request.shadow_address, request.ticket)
                else:
                    line.drop("the claim was refused")
        except (PeerError, OSError) as error:  # the first job tries again
            self._log.full("The schedd cannot be reached yet", error=str(error))

    async def _run(self, job: JobRun) -> None:
        reported, reason = await job.run()
        self._last, self._job = job.request.activation, None
        over = ActivationOver(
            activation=job.request.activation,
            reported=reported,
            reason=reason,
            ran_s=job.ran_s,
            received=job.moved("BytesRecvd"),
            sent=job.moved("BytesSent"),
        )
        try:
            assert self._startd is not None
            await self._startd.notify(over)  # lost only with the startd, or the starter, whose end says the same
        except PeerError as error:
            self._log.always("The startd was not told that the activation is over", error=str(error))
        finally:
            self._idle.set()

    def _name_log(self, request: RunJob) -> None:
        """Write on in the file of the slot, or of the job where each has one of its own."""
        if not self._settings.log_path:
            return
        id, path = request.job_id, Path(self._settings.log_path)
        names = {"cluster": f"{path.name}.{id.cluster}", "jobid": f"{path.name}.{id}"}
        path = path.with_name(names.get(self._settings.log_name, path.name))
        if self._log.path != path:
            self._log.close()
            self._log.path = path

    def stop_job(self, _peer: Peer, request: StopJob) -> Done:
        """Make the job leave."""
        if (job := self._present(request.activation)) is not None:
            job.stop(request)
        return DONE

    def device_use(self, _peer: Peer, told: DeviceUse) -> Done:
        """Note what the job has used of its devices."""
        if (job := self._present(told.activation)) is not None:
            job.note_devices(told.ad)
        return DONE

    def checkpoint_job(self, _peer: Peer, request: CheckpointJob) -> Done:
        """Have it make a checkpoint."""
        if (job := self._present(request.activation)) is not None:
            job.ask_for_checkpoint()
        return DONE

    def suspend_job(self, _peer: Peer, request: SuspendJob) -> Done:
        """Freeze the job."""
        if (job := self._present(request.activation)) is not None:
            job.suspend()
        return DONE

    def continue_job(self, _peer: Peer, request: ContinueJob) -> Done:
        """Let it go on."""
        if (job := self._present(request.activation)) is not None:
            job.resume()
        return DONE

    def leave_now(self, _peer: Peer, _request: LeaveNow) -> Done:
        """End when nothing runs."""
        self._leave.set()
        return DONE

    # ---- what ends it otherwise

    async def _until_orphaned(self, life: int) -> None:
        """The startd is gone: evict, report to the schedd, and leave."""
        await trio.lowlevel.wait_readable(life)
        os.close(life)
        self._orphaned = True
        self._evict("The startd is gone")

    async def _until_hung_up(self, startd: Peer) -> None:
        """Nobody can tell this starter anything any more."""
        await startd.closed.wait()
        if not self._leave.is_set():
            self._orphaned = True
            self._evict("The startd has hung up")

    async def _evict_at_sigterm(self) -> None:
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                self._evict("The starter was told to end")

    def _evict(self, reason: str) -> None:
        self._log.always(f"{reason}; leaving")
        self._leave.set()
        if self._job is not None:
            self._job.stop(StopJob(activation=self._job.request.activation, how=StopHow.FAST, reason=reason))
