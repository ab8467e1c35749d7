"""Jobs of the local and the scheduler universe: they run at the access point, with no slot, as their owner.

Beside each runs one process (`daemons.local_job`) that starts it and sees it out. A job waits here, not among those
that want slots, until its time has come, START_LOCAL_UNIVERSE or START_SCHEDULER_UNIVERSE holds, and so do its
Requirements, for which the schedd's ad stands in the place of a machine's. A schedd that is stopped has these jobs
leave first, and one that dies takes them along; the next schedd runs them again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from daemons.layout import passage
from daemons.linux import is_zombie
from daemons.run import DaemonStart
from daemons.schedd.core import Core
from daemons.schedd.running_policy import ask_policy
from daemons.spawn_child import Zygote
from daemons.starter import sandbox, tree
from daemons.starter.account import Account, NoAccount, named_account, own_account
from daemons.world import ChildProcess
from pool.classad import ClassAd
from pool.errors import PoolError
from pool.execute.plan import Surroundings, plan_job
from pool.ids import JobId
from pool.jobs import run
from pool.jobs.codes import HoldCode, VacateCode
from pool.jobs.deferral import MISSED, DeferralError, Late, deferral_of
from pool.jobs.job_queue import Job
from pool.jobs.run import End, Ending, Fate, Stop
from pool.jobs.states import JobStatus
from pool.submit.commands import LOCAL, SCHEDULER
from protocol.messages.common import StopHow

if TYPE_CHECKING:
    from daemons.world import ZygoteLike

UNIVERSES: Final = frozenset({LOCAL, SCHEDULER})
GRACE_S: Final = {LOCAL: 30.0, SCHEDULER: 120.0}
"""How long a job may take to leave after its signal, unless it says itself (JobMaxVacateTime, KillSigTimeout)."""
LOOK_S: Final = 60.0
"""The longest wait before jobs that may not start yet are looked at again."""
LAUNCH_S: Final = 5.0
"""How long a job waits for the one before it to start, so that the log has them in their order."""
LINE_BYTES_MAX: Final = 1 << 20
ROUNDS_MAX: Final = 400
PAUSE_S: Final = 0.005
MARK: Final = "_CONDOR_LOCAL_JOB_OF"
_MACHINE: Final = {"Arch": "ARCH", "OpSys": "OPSYS", "OpSysVer": "OPSYSVER", "OpSysAndVer": "OPSYSANDVER"}


class LocalJobs:
    """Jobs of these universes that wait, and that run."""

    def __init__(self, core: Core, zygote: ZygoteLike) -> None:
        self.core = core
        self.zygote = zygote
        self.directory = Path(core.start.config.path("LOCAL_UNIV_EXECUTE"))
        self.mark = f"{MARK}={core.start.run_dir}"
        self._waiting: dict[Job, None] = {}
        self._launched = trio.Event()  # of the job that was begun last
        self._launched.set()
        self._wake = trio.Event()
        self._ending = False
        self._all_over = trio.Event()
        core.start_local = self.want

    def want(self, job: Job) -> None:
        """The job would like to run."""
        self._waiting[job] = None
        self._wake.set()

    def one_is_over(self) -> None:
        """One that ran has ended: another may start."""
        self._wake.set()
        if self._ending and not self.core.local_runs:
            self._all_over.set()

    async def end(self, start: DaemonStart) -> None:
        """Start no more jobs, and see out those that run, as urgently as the schedd is to end."""
        self._ending = True
        if not self.core.local_runs:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_them, start)
            await self._all_over.wait()
            nursery.cancel_scope.cancel()

    async def _tell_them(self, start: DaemonStart) -> None:
        """Let jobs finish, ask them to leave or end them, whenever the schedd's own stop gets that urgent."""
        for how in (StopHow.GRACEFUL, StopHow.FAST):
            urgent = await start.stopping(at_least=how) is StopHow.FAST
            for execution in list(self.core.local_runs.values()):
                execution.stop("The schedd is stopping", VacateCode.SCHEDD_VACATE, 0, fast=urgent)

    async def run(self) -> None:
        """Start jobs as soon as they may."""
        threads = self.core.start.world.threads
        await threads.run_sync(clear, self.directory, self.mark)
        while True:
            self._wake = trio.Event()
            wait_s = min([LOOK_S, *map(self._consider, sorted(self._waiting, key=self._place))])
            with trio.move_on_after(wait_s):
                await self._wake.wait()

    def _place(self, job: Job) -> tuple[int, JobId]:
        """Jobs of higher priority start first, those of equal priority as they were submitted."""
        return -self.core.queue.ad(job).eval_int("JobPrio", 0), job.id

    def _consider(self, job: Job) -> float:
        """Start the job if it may; else how many seconds there are until it is worth another look."""
        core = self.core
        if job.cluster.jobs.get(job.proc) is not job or job.status is not JobStatus.IDLE or job.busy:
            del self._waiting[job]
            return LOOK_S
        ad = core.queue.ad(job)
        try:
            deferral = deferral_of(ad)
        except DeferralError as error:
            core.hold(job, f"Invalid deferral: {error}", HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
            return LOOK_S
        if deferral is not None:
            late = deferral.judge(core.now())
            if late is Late.WAIT:
                return max(0.0, deferral.left(core.now()))
            if late is Late.MISSED:
                core.hold(job, MISSED, HoldCode.MISSED_DEFERRED_EXECUTION_TIME)
                core.writer.soon()
                return LOOK_S
        if self._ending or not self._may_start(ad) or self._has_enough(job):
            return LOOK_S
        del self._waiting[job]
        execution = LocalRun(self, job, self._launched)
        self._launched = execution.launched
        core.local_runs[job] = execution
        core.queue.set_busy(job, True)
        core.nursery.start_soon(execution.run)
        return LOOK_S

    def _has_enough(self, job: Job) -> bool:
        """Whether as many of its owner's scheduler universe jobs run as may."""
        if universe(job.cluster.ad) != SCHEDULER:
            return False
        running = (one.cluster for one in self.core.local_runs)
        mine = sum(one.owner == job.cluster.owner and universe(one.ad) == SCHEDULER for one in running)
        return mine >= self.core.settings.scheduler_jobs_per_owner_max

    def _may_start(self, ad: ClassAd) -> bool:
        """Whether the access point takes the job, and the job the access point."""
        word = "LOCAL" if universe(ad) == LOCAL else "SCHEDULER"
        wanted = self.core.start.config.expr(f"START_{word}_UNIVERSE")
        here = self._access_point()
        if wanted is not None:
            value = wanted.eval(here, ad)
            if not isinstance(value, bool | int | float) or not value:
                return False
        return "Requirements" not in ad or ad.eval_bool("Requirements", False, here)

    def _access_point(self) -> ClassAd:
        """What the Requirements of these jobs see: the schedd's ad, and what of a machine's ad this host has."""
        ad, config = self.core.own_ad(), self.core.start.config
        for name, knob in _MACHINE.items():
            ad[name] = config.str(knob, default="")
        ad["Cpus"], ad["Memory"] = config.int("DETECTED_CPUS"), config.int("DETECTED_MEMORY")
        place = next(place for place in (self.directory, *self.directory.parents) if place.exists())
        ad["Disk"] = shutil.disk_usage(place).free // 1024
        return ad


class LocalRun:
    """One execution of such a job."""

    def __init__(self, jobs: LocalJobs, job: Job, before: trio.Event) -> None:
        self._jobs = jobs
        self._core = jobs.core
        self.job = job
        self._before = before  # the job that starts before this one has been launched
        self.launched = trio.Event()
        self._stop: Stop | None = None
        self._told = trio.Event()
        self._fast = False
        self._channel: trio.abc.Stream | None = None
        self._scratch = jobs.directory / f"{job.id}.{self._core.start.world.rng.getrandbits(32):08x}"

    # ---- what the schedd wants of it

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """The job shall end. Its files are where they are wanted, so that `transfer` says nothing here."""
        self._stop = Stop(reason, code, subcode)
        self._fast = self._fast or fast
        self._told.set()

    def check_policy(self) -> None:
        """Ask the job's periodic policy."""
        ask_policy(self._core, self.job)

    # ---- the task

    async def run(self) -> None:
        """See the job from its start to its end."""
        core, job = self._core, self.job
        ad = core.queue.ad(job)
        pause_s = core.pause_before_start()
        if pause_s > 0:
            with trio.move_on_after(pause_s):
                await self._told.wait()
        core.apply(job, run.begin(ad, self._slot(), "", core.start.address, core.now()))
        core.stats["JobsStarted"] += 1
        await core.writer.durable()
        try:
            end = await self._execute(ad)
        except ValueError as error:  # a name that no file can have
            end = self._held(f"The job cannot be run: {error}", HoldCode.FAILED_TO_CREATE_PROCESS)
        except (PoolError, OSError) as error:
            core.log.error(f"Job {job.id} was not run here", error)
            end = End(Ending.FAILED, ClassAd(), str(error), core.now())
        self.launched.set()
        self._conclude(end)
        await core.writer.durable()

    def _slot(self) -> ClassAd:
        """What stands for the slot that the job does not have."""
        core = self._core
        name = core.settings.name
        return ClassAd({"Name": name, "Cpus": 1, "MachineResources": "Cpus", "UidDomain": core.settings.uid_domain})

    async def _execute(self, ad: ClassAd) -> End:
        """Have the process beside the job run it."""
        core, threads = self._core, self._core.start.world.threads
        try:
            account = own_account() if os.geteuid() else named_account(self.job.cluster.owner)
        except NoAccount as error:
            return self._held(str(error), HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT)
        order = self._order(ad, account)
        if self._told.is_set():
            return End(Ending.EVICTED, ClassAd(), at=core.now())
        await threads.run_sync(make_scratch, self._scratch, account)
        with trio.move_on_after(LAUNCH_S):
            await self._before.wait()
        who = {"name": account.name, "uid": account.uid, "gid": account.gid, "groups": list(account.groups)}
        process = await self._jobs.zygote.fork("local", json.dumps(who).encode())
        self._channel = process.channel
        try:
            await self._say(order)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._make_it_leave, process)
                ended = await self._hear()
                nursery.cancel_scope.cancel()
        finally:
            await self._channel.aclose()  # the process then ends all of the job, if it has not done so
        if ended is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            if ended is None:
                await self._end_orphans()
            await threads.run_sync(sandbox.remove, str(self._scratch))
        return ended or End(Ending.FAILED, ClassAd(), "The process that watched the job has died", core.now())

    async def _end_orphans(self) -> None:
        """End what the process beside the job has left.

        Its place in the tree tells it; if the zygote has died too, only the environment does.
        """
        if isinstance(self._jobs.zygote, Zygote):
            await self._jobs.zygote.kill_strays()
        mark = f"_CONDOR_SCRATCH_DIR={self._scratch}"
        await self._core.start.world.threads.run_sync(end_marked, mark)

    def _order(self, ad: ClassAd, account: Account) -> dict[str, object]:
        around = Surroundings(
            sandbox=str(self._scratch),
            slot="local",
            starter_pid=os.getpid(),
            home=account.home,
            user=account.name,
            transfers=False,
        )
        plan = plan_job(ad, self._slot(), around)
        name, _, value = self._jobs.mark.partition("=")
        environment: Mapping[str, str] = {**plan.environment, name: value}
        return {
            "program": plan.program,
            "arguments": list(plan.arguments),
            "environment": dict(environment),
            "directory": plan.directory,
            "stdin": plan.stdin,
            "stdout": plan.stdout,
            "stderr": plan.stderr,
            "append": plan.append_output,
            "rlimits": dict(plan.rlimits),
            "nice": plan.nice + (self._core.settings.scheduler_nice if universe(ad) == SCHEDULER else 0),
        }

    async def _hear(self) -> End | None:
        """What the process says, until it says how the job ended; None when it ends without a word."""
        received = b""
        assert self._channel is not None
        while len(received) < LINE_BYTES_MAX:
            while b"\n" in received:
                line, _, received = received.partition(b"\n")
                said = json.loads(line)
                if "started" in said:
                    self._started(ClassAd({"JobPid": said["started"]}), said["at"])
                elif "failed" in said:
                    return self._held(said["reason"], said["failed"], said["subcode"])
                else:
                    return self._exited(said)
            try:
                more = await self._channel.receive_some(65536)
            except trio.BrokenResourceError:  # killed by its owner, for example, with something unread
                more = b""
            if not more:
                return None
            received += more
        return None

    def _started(self, started: ClassAd, at: float) -> None:
        self.launched.set()
        core, job = self._core, self.job
        core.apply(job, run.executing(core.queue.ad(job), self._slot(), core.start.address, started, at), at)
        core.writer.soon()

    def _exited(self, said: Mapping[str, Any]) -> End:
        status = said["ended"]
        ad = ClassAd({"RemoteUserCpu": float(said["user"]), "RemoteSysCpu": float(said["system"])})
        if os.WIFSIGNALED(status):
            ad["ExitBySignal"], ad["ExitSignal"] = True, os.WTERMSIG(status)
        else:
            ad["ExitBySignal"], ad["ExitCode"] = False, os.WEXITSTATUS(status)
        evicted = self._stop is not None and self.job.status not in (JobStatus.HELD, JobStatus.REMOVED)
        return End(Ending.EVICTED if evicted else Ending.EXITED, ad, at=self._core.now())

    def _held(self, reason: str, code: int, subcode: int = 0) -> End:
        ad = ClassAd({"HoldReason": reason, "HoldReasonCode": int(code), "HoldReasonSubCode": subcode})
        return End(Ending.HOLD, ad, reason, self._core.now())

    # ---- making it leave

    async def _make_it_leave(self, process: ChildProcess) -> None:
        """Once it shall end: its signal, and, after a while, the end of all its processes.

        The process beside the job is its owner's, and may have been stopped: it is ended itself if it does not do that.
        """
        await self._told.wait()
        ad = self._core.queue.ad(self.job)
        if not self._fast:
            await self._say({"signal": leaving_signal(ad, self.job.status)})
            with trio.move_on_after(grace_s(ad)):
                while not self._fast:
                    self._told = trio.Event()
                    await self._told.wait()
        await self._say({"kill": True})
        await trio.sleep(self._core.settings.killing_timeout_s)
        self._core.log.always(f"The process beside job {self.job.id} does not end it, and is killed")
        process.kill()

    async def _say(self, said: Mapping[str, object]) -> None:
        """Tell the process; whether it is there is learnt by hearing it."""
        assert self._channel is not None
        with suppress(trio.BrokenResourceError):
            await self._channel.send_all(json.dumps(said).encode() + b"\n")

    # ---- the end

    def _conclude(self, end: End) -> None:
        core, job = self._core, self.job
        now = core.now()
        core.local_runs.pop(job, None)
        changes, fate = run.ended(core.queue.ad(job), job.status, end, self._stop, now, core.settings.system)
        job.busy = False
        ad = core.queue.ad(job)
        if fate is Fate.WAITS and universe(ad) == SCHEDULER and _went_wrong(ad, end):
            changes = run.resting(ad, changes, core.settings.scheduler_cool_down_s, now)
        elif end.ending is Ending.FAILED and fate is Fate.WAITS:
            core.cool_down(job, ad.eval_int("NumShadowExceptions", 0) + 1)
        core.apply(job, changes)
        core.queue.set_busy(job, False)
        core.stats["JobsExited"] += 1
        if fate is Fate.LEAVES:
            core.stats["JobsCompleted"] += job.status is JobStatus.COMPLETED
            core.leave(job)
        self._jobs.one_is_over()


def universe(ad: ClassAd) -> int:
    """JobUniverse."""
    return ad.eval_int("JobUniverse", 5)


def _went_wrong(ad: ClassAd, end: End) -> bool:
    """Whether a job of the scheduler universe shall rest before it is tried again."""
    if end.ending is Ending.EXITED:
        return end.ad.eval_int("ExitCode", 0) != 0 and not ad.eval_bool("DisableCoolDown", False)
    return end.ending is Ending.FAILED


def leaving_signal(ad: ClassAd, status: JobStatus) -> int:
    """The signal that asks a job to end, by what shall become of it."""
    own = {JobStatus.REMOVED: "RemoveKillSig", JobStatus.HELD: "HoldKillSig"}.get(status, "KillSig")
    for name in (own, "KillSig"):
        value = ad.eval(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.upper() in signal.Signals.__members__:
            return int(signal.Signals[value.upper()])
    return int(signal.SIGTERM)


def grace_s(ad: ClassAd) -> float:
    """How long the job may take to leave."""
    for name in ("JobMaxVacateTime", "KillSigTimeout"):
        seconds = ad.eval_float(name)
        if seconds is not None:
            return max(0.0, seconds)
    return GRACE_S.get(universe(ad), GRACE_S[LOCAL])


def make_scratch(path: Path, account: Account) -> None:
    """A directory of the job's own."""
    passage(path.parent)
    path.mkdir(mode=0o700)
    if account.switches:
        os.chown(path, account.uid, account.gid)


def end_marked(mark: str) -> None:
    """End all processes whose environment has this mark."""
    for _ in range(ROUNDS_MAX):
        left = {pid for pid in tree.marked(os.fsencode(mark)) if not is_zombie(pid)}
        if not tree.send(left, signal.SIGKILL):
            break
        time.sleep(PAUSE_S)


def clear(directory: Path, mark: str) -> None:
    """End what an earlier schedd's jobs left behind, and remove their directories."""
    end_marked(mark)
    for path in directory.glob("*") if directory.is_dir() else ():
        sandbox.remove(str(path))
