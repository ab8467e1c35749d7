"""One execution of a job of the local or the scheduler universe: the task that sees it from its start to its end.

The program is started and seen out by the process beside it (`local_job`), which is its owner's: it may be stopped, or
say anything, and every wait for it ends. That process stands for startd and starter in the table by which any execution
goes (`pool.jobs.execution`): it is asked to start the job, told to have it leave, and heard out.

HTCondor's manual: users-manual/choosing-an-htcondor-universe ("Scheduler Universe", "Local Universe").
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.killing import kill_until_gone
from daemons.base.layout import passage
from daemons.daemon_core.world import ChildProcess
from daemons.host import sandbox, tree
from daemons.host.account import Account, NoAccount, named_account, own_account
from daemons.process.children import Zygote
from daemons.schedd.core.core import Core
from daemons.schedd.core.running_policy import ask_policy
from daemons.schedd.execution.local_reports import Ended, NoReport, NotStarted, Started, read_report
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.plan import ExecuteSurroundings, plan_job
from pool.execute.quoting import environment_of
from pool.jobs import conclusion, run
from pool.jobs.changes import End, Fate, StopReason
from pool.jobs.execution import events
from pool.jobs.execution.states import ByReport, ByWord, Execution, Leaving, Over
from pool.jobs.execution.step import step
from pool.jobs.execution.table import Effect
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe

if TYPE_CHECKING:
    from daemons.daemon_core.world import ZygoteLike

GRACE_S: Final[Mapping[int, float]] = {Universe.LOCAL: 30.0, Universe.SCHEDULER: 120.0}
"""How long a job may take to leave after its signal, unless it says itself (JobMaxVacateTime, KillSigTimeout)."""
LAUNCH_S: Final = 5.0
"""How long a job waits for the one before it to start, so that the log has them in their order."""
CLEAR_UP_S: Final = 30.0
"""How long the end of the process beside the job, and of all that the job has left, is waited for."""
LINE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where such jobs run: what makes the processes beside them, and where their directories are."""

    core: Core
    zygote: ZygoteLike
    directory: Path
    mark: str
    """What the environment of each of their processes has."""
    no_set_user_id: bool
    """Whether set-user-id programs give them no rights."""


class LocalRun:
    """One execution of such a job."""

    def __init__(self, place: Place, job: Job, before: trio.Event, over: Callable[[], None]) -> None:
        self._place = place
        self._core = place.core
        self._one_is_over = over
        self.job = job
        self._before = before  # the job that starts before this one has been launched
        self.launched = trio.Event()
        self._execution = Execution(self._core.settings.name)
        self._over = trio.Event()
        self._beside: trio.Nursery | None = None
        """For what goes on until the execution is over."""
        self._process: ChildProcess | None = None
        """The one beside the job, as long as it is heard out."""
        self._speaking = trio.Lock()
        self._scratch = place.directory / f"{job.id}.{self._core.start.world.rng.getrandbits(32):08x}"

    # ---- what the schedd wants of it

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """The job shall end. Its files are where they are wanted, so that `transfer` says nothing here."""
        self._happens(events.Stop(StopReason(reason, code, subcode), fast))

    def check_policy(self) -> None:
        """Ask the job's periodic policy."""
        ask_policy(self._core, self.job)

    def failed(self, error: Exception) -> None:
        """Its task has ended with an error that nobody foresaw: the job goes on hold."""
        self.launched.set()
        self._core.executions.local.pop(self.job, None)
        self._core.queue.set_busy(self.job, False)
        self._one_is_over()
        self._core.give_up(self.job, error)

    def _happens(self, event: events.Event) -> None:
        """Something has happened: do what the execution wants done because of it."""
        self._execution, effects = step(self._execution, event, now=trio.current_time())
        for effect in effects:
            match effect:
                case Effect.ASK:
                    self._begin(self._execute)
                case Effect.TELL:
                    self._begin(self._make_it_leave)
                case Effect.COUNT_START:
                    self._count_start(event)
                case Effect.CONCLUDE:
                    self._over.set()  # the task does it

    def _begin(self, task: Callable[[], Awaitable[None]]) -> None:
        assert self._beside is not None
        self._beside.start_soon(task)

    # ---- the task

    async def run(self) -> None:
        """See the job from its start to its end."""
        core, job = self._core, self.job
        ad = core.queue.ad(job)
        pause_s = core.executions.pause_before_start()
        if pause_s > 0:
            with trio.move_on_after(pause_s):
                await self._over.wait()
        if not self._over.is_set():
            core.apply(job, run.begin(ad, self._slot(), "", core.start.address, core.now()))
            core.stats["JobsStarted"] += 1
            await core.writer.durable()
            async with trio.open_nursery() as self._beside:
                self._happens(events.Prepared())
                await self._over.wait()
                self._beside.cancel_scope.cancel()
        self.launched.set()
        self._conclude()
        await core.writer.durable()

    def _slot(self) -> ClassAd:
        """What stands for the slot that the job does not have."""
        core = self._core
        name = core.settings.name
        return ClassAd({"Name": name, "Cpus": 1, "MachineResources": "Cpus", "UidDomain": core.settings.uid_domain})

    async def _execute(self) -> None:
        """Have the process beside the job run it, and hear how it ended."""
        core, job = self._core, self.job
        try:
            end = await self._have_it_run(core.queue.ad(job))
        except ValueError as error:  # a name that no file can have
            end = self._held(f"The job cannot be run: {error}", HoldCode.FAILED_TO_CREATE_PROCESS)
        except (PoolError, OSError) as error:
            core.log.error(f"Job {job.id} was not run here", error)
            end = End(Ending.FAILED, ClassAd(), str(error), core.now())
        if end is None:
            died = "The process that watched the job has died"
            self._happens(events.NothingRuns(End(Ending.FAILED, ClassAd(), died, core.now())))
        else:
            self._happens(events.Reported(end))

    async def _have_it_run(self, ad: ClassAd) -> End | None:
        """How the process beside the job says that it ended; None when that has died without a word."""
        threads = self._core.start.world.threads
        try:
            account = own_account() if os.geteuid() else named_account(self.job.cluster.owner)
        except NoAccount as error:
            return self._held(str(error), HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT)
        order = self._order(ad, account)
        await threads.run_sync(make_scratch, self._scratch, account)
        with trio.move_on_after(LAUNCH_S):
            await self._before.wait()
        who = {"name": account.name, "uid": account.uid, "gid": account.gid, "groups": list(account.groups)}
        who["no_set_user_id"] = self._place.no_set_user_id
        self._process = process = await self._place.zygote.fork("local", json.dumps(who).encode())
        try:
            await self._say(order)
            self._happens(events.Started())
            ended = await self._hear_out(process.channel)
        finally:
            self._process = None
            await process.channel.aclose()  # the process then ends all of the job, if it has not done so
        if ended is None:
            process.kill()
        await self._clear_up(process, died=ended is None)
        return ended

    async def _clear_up(self, process: ChildProcess, *, died: bool) -> None:
        """See the process beside the job gone, and what the job has left; also when the schedd is about to end."""
        with trio.move_on_after(CLEAR_UP_S) as patience:
            patience.shield = True
            await process.wait()
            if died:
                await self._end_orphans()
            await self._core.start.world.threads.run_sync(sandbox.remove, str(self._scratch))
        if patience.cancelled_caught:
            process.kill()
            self._core.log.always(f"The process beside job {self.job.id} does not end")

    async def _end_orphans(self) -> None:
        """End what the process beside the job has left.

        Its place in the tree tells it; if the zygote has died too, only the environment does.
        """
        if isinstance(self._place.zygote, Zygote):
            await self._place.zygote.kill_strays()
        mark = f"_CONDOR_SCRATCH_DIR={self._scratch}"
        await self._core.start.world.threads.run_sync(end_marked, mark)

    def _order(self, ad: ClassAd, account: Account) -> dict[str, object]:
        around = ExecuteSurroundings(
            sandbox=str(self._scratch),
            slot="local",
            starter_pid=os.getpid(),
            home=account.home,
            user=account.name,
            transfers=False,
        )
        plan = plan_job(ad, self._slot(), around)
        name, _, value = self._place.mark.partition("=")
        # By its id condor_dagman finds its own job.
        environment = {**plan.environment, name: value, "CONDOR_ID": str(self.job.id)}
        # As in HTCondor no starter stands between: a condor_dagman whose user has another HOME finds his pool there.
        if universe(ad) == Universe.SCHEDULER and (home := environment_of(ad).get("HOME")):
            environment["HOME"] = home
        return {
            "program": plan.program,
            "arguments": list(plan.arguments),
            "environment": environment,
            "directory": plan.directory,
            "stdin": plan.stdin,
            "stdout": plan.stdout,
            "stderr": plan.stderr,
            "append": plan.append_output,
            "rlimits": dict(plan.rlimits),
            "nice": plan.nice + (self._core.settings.scheduler_nice if universe(ad) == Universe.SCHEDULER else 0),
        }

    async def _hear(self, channel: trio.abc.Stream) -> End | None:
        """What the process says, until it says how the job ended; None when it ends without a word."""
        received = b""
        while len(received) < LINE_BYTES_MAX:
            while b"\n" in received:
                line, _, received = received.partition(b"\n")
                match read_report(line):
                    case Started(pid, at):
                        self.launched.set()
                        self._happens(events.Executing(at, ClassAd({"JobPid": pid})))
                    case NotStarted(code, subcode, reason):
                        return self._held(reason, code, subcode)
                    case Ended() as over:
                        return self._exited(over)
            try:
                more = await channel.receive_some(65536)
            except trio.BrokenResourceError:  # killed by its owner, for example, with something unread
                more = b""
            if not more:
                return None
            received += more
        return None

    async def _hear_out(self, channel: trio.abc.Stream) -> End | None:
        """The same; a process that says what none says is taken for dead."""
        try:
            return await self._hear(channel)
        except NoReport as error:
            self._core.log.always(f"The process beside job {self.job.id} is not believed: {error}")
            return None

    def _count_start(self, event: events.Event) -> None:
        """The program was started; one that has exited was, though nobody has said so."""
        core, job = self._core, self.job
        at, said = (event.at, event.ad) if isinstance(event, events.Executing) else (core.now(), ClassAd())
        core.apply(job, run.executing(core.queue.ad(job), self._slot(), core.start.address, said, at), at)

    def _exited(self, over: Ended) -> End:
        ad = ClassAd({"RemoteUserCpu": over.user_s, "RemoteSysCpu": over.system_s})
        if os.WIFSIGNALED(over.status):
            ad["ExitBySignal"], ad["ExitSignal"] = True, os.WTERMSIG(over.status)
        else:
            ad["ExitBySignal"], ad["ExitCode"] = False, os.WEXITSTATUS(over.status)
        evicted = self._execution.stop is not None and self.job.status not in (JobStatus.HELD, JobStatus.REMOVED)
        return End(Ending.EVICTED if evicted else Ending.EXITED, ad, at=self._core.now())

    def _held(self, reason: str, code: int, subcode: int = 0) -> End:
        ad = ClassAd({"HoldReason": reason, "HoldReasonCode": int(code), "HoldReasonSubCode": subcode})
        return End(Ending.HOLD, ad, reason, self._core.now())

    # ---- making it leave

    async def _make_it_leave(self) -> None:
        """It shall end: its signal, and, after a while or when it shall end at once, the end of all its processes.

        The process beside the job is its owner's, and may have been stopped: it is ended itself if it does not do that.
        """
        state, ad = self._execution.state, self._core.queue.ad(self.job)
        if isinstance(state, Leaving) and not state.fast:
            await self._say({"signal": leaving_signal(ad, self.job.status)})
            await trio.sleep(grace_s(ad))
            self._happens(events.Stop(self._execution.stop or StopReason(""), fast=True))
            return
        await self._say({"kill": True})
        await trio.sleep(self._core.settings.killing_timeout_s)
        if self._process is not None:
            self._core.log.always(f"The process beside job {self.job.id} does not end it, and is killed")
            self._process.kill()

    async def _say(self, said: Mapping[str, object]) -> None:
        """Tell the process; whether it is there is learnt by hearing it."""
        async with self._speaking:
            if self._process is None:
                return
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._process.channel.send_all(json.dumps(said).encode() + b"\n")

    # ---- the end

    def _conclude(self) -> None:
        core, job, one = self._core, self.job, self._execution
        now = core.now()
        core.executions.local.pop(job, None)
        came_to = one.state.outcome if isinstance(one.state, Over) else None
        end = came_to.end if isinstance(came_to, ByReport | ByWord) else End(Ending.EVICTED, ClassAd(), at=now)
        changes, fate = conclusion.ended(core.queue.ad(job), job.status, end, one.stop, now, core.settings.system)
        job.busy = False
        ad = core.queue.ad(job)
        if fate is Fate.WAITS and universe(ad) == Universe.SCHEDULER and _went_wrong(ad, end):
            changes = conclusion.resting(ad, changes, core.settings.scheduler_cool_down_s, now)
        elif end.ending is Ending.FAILED and fate is Fate.WAITS:
            core.cool_down(job, ad.eval_int("NumShadowExceptions", 0) + 1)
        core.ended(job, changes, fate)
        self._one_is_over()


def universe(ad: ClassAd) -> int:
    """JobUniverse."""
    return ad.eval_int("JobUniverse", Universe.VANILLA)


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
    return GRACE_S.get(universe(ad), GRACE_S[Universe.LOCAL])


def make_scratch(path: Path, account: Account) -> None:
    """A directory of the job's own."""
    passage(path.parent)
    path.mkdir(mode=0o700)
    if account.switches:
        os.chown(path, account.uid, account.gid)


def end_marked(mark: str) -> None:
    """End all processes whose environment has this mark."""
    kill_until_gone(lambda: tree.marked(os.fsencode(mark)))
