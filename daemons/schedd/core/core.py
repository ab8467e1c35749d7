"""What all parts of the schedd share: the queue, who waits for a slot, the writer, and how a change is carried out.

The parts hold this object and each other's functions through it; none holds another. All changes are made between two
awaits. A job that may run is in `waiting` exactly when it is idle, has no execution and has no reason to wait longer;
`settle` sees to that, and is called after every change of a job's state.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import trio

from daemons.agent.main import socket_name
from daemons.pace import Pace
from daemons.run import DaemonStart
from daemons.schedd.checkpoint_cleanup import CheckpointCleanup
from daemons.schedd.directories import Directories
from daemons.schedd.held_slots import HeldSlots
from daemons.schedd.records import Records
from daemons.schedd.settings import Settings
from pool.classad import ClassAd
from pool.classad.budget import Overruns, TooDear
from pool.errors import UserError
from pool.jobs import event_log, run
from pool.jobs.accounting_groups import GROUP
from pool.jobs.autocluster import Autoclusters
from pool.jobs.bursts import Bursts
from pool.jobs.codes import HoldCode
from pool.jobs.crontab import FIELDS
from pool.jobs.deferral import next_deferral
from pool.jobs.event_forms import Form, read_form
from pool.jobs.event_forms import write as write_event
from pool.jobs.event_log import Event
from pool.jobs.job_queue import NOBODYS, Cluster, Job, JobQueue, mention
from pool.jobs.run import Changes
from pool.jobs.states import JobEvent, JobStatus
from pool.jobs.store import EventRow
from pool.jobs.transfer_life import TimedEvent
from pool.jobs.waiting import Waiting
from protocol.address import Address

if TYPE_CHECKING:
    from daemons.schedd.agents import Agents
    from daemons.schedd.global_log import GlobalLog
    from daemons.schedd.shadow import Shadow
    from daemons.schedd.transfer_turns import TransferTurns
    from daemons.schedd.users import Users
    from daemons.schedd.writer import Writer

SORTED_AT_ONCE: Final = 10
"""Steps of a sorting that are done at once."""
DEAR_MOST: Final = 2
"""Evaluations that may cost much before a job can wait for a slot; one that ends for its cost counts twice."""
COOL_DOWN_FIRST_S: Final = 1.0
COOL_DOWN_MAX_S: Final = 60.0
_SPECIAL: Final = ('"isnoopjob', '"cron', '"jobcooldown')
"""Beginnings of attributes by which more than a slot may be what a job waits for."""


class Execution(Protocol):
    """A job that runs, as far as policy and users have to do with it."""

    def stop(self, reason: str, code: int, subcode: int, *, fast: bool = False, transfer: bool = False) -> None:
        """The job shall leave."""

    def check_policy(self) -> None:
        """Ask the job's periodic policy."""


_IN_EXECUTION = frozenset((JobStatus.RUNNING, JobStatus.TRANSFERRING_OUTPUT, JobStatus.SUSPENDED))


class Core:
    """The schedd's shared state."""

    def __init__(self, start: DaemonStart, settings: Settings, queue: JobQueue) -> None:
        self.start = start
        self.log = start.log
        self.settings = settings
        self.queue = queue
        self.autoclusters = Autoclusters(queue, settings.significant)
        self.waiting = Waiting(self.autoclusters)
        self._unsorted = trio.Event()
        """Set when what waits is to be sorted anew, and that takes long."""
        self.shadows: dict[str, Shadow] = {}
        """Executions by their activation."""
        self.shadow_of: dict[Job, Shadow] = {}
        self.local_runs: dict[Job, Execution] = {}
        """Executions that have no slot (local and scheduler universe)."""
        self.idle_claims: set[trio.Event] = set()
        """Set when there is work: slots that are kept idle for it (keep_claim_idle) wait for these."""
        self.tell_owner: Callable[[ClassAd, Event], None] = lambda job, event: None
        """Called with what happens to jobs whose owners want mail."""
        self.global_log: GlobalLog | None = None
        """The log of all jobs' events, when there is one."""
        self.start_local: Callable[[Job], None] = lambda job: None
        """Called with each job that wants to run here."""
        self.claims_of: Counter[str] = Counter()
        """How many slots each submitter holds, or is about to."""
        self.held_slots = HeldSlots()
        self.work_changed: Callable[[bool], None] = lambda more: None
        """Called when what waits for slots changes; `more`: there is new work."""
        self.own_ad: Callable[[], ClassAd] = ClassAd
        """The schedd's own ad, which submit requirements may speak of."""
        self.stats: Counter[str] = Counter()
        self.directories = Directories(start)
        self.users: Users
        self.records = Records(self)
        self.writer: Writer
        self.agents: Agents
        self.transfers: TransferTurns
        self.cleanup = CheckpointCleanup(self)
        self.nursery: trio.Nursery
        self.requested: dict[Job, Callable[[], None]] = {}
        """Jobs for which a slot is being asked, which may take long; called when the job needs it no more."""
        self._cooling: set[Job] = set()
        self._starts, self._stops = Bursts(), Bursts()

    def now(self) -> float:
        """Wall clock."""
        return self.start.world.wall()

    def pause_before_start(self, job_ad: ClassAd | None = None, slot_ad: ClassAd | None = None) -> float:
        """How long the next start of a job has to wait; the one after it waits as long as this job asks for."""
        settings = self.settings
        own = job_ad.eval_float("NextJobStartDelay", 0.0, slot_ad) if job_ad is not None else 0.0
        most = settings.next_start_delay_max_s
        return self._starts.book(
            self.now(),
            count=settings.start_count,
            delay_s=settings.start_delay_s,
            own_delay_s=max(0.0, min(own, most) if most else own),
        )

    def pause_before_stop(self) -> float:
        """How long the next job that shall leave its slot is left alone."""
        return self._stops.book(self.now(), count=self.settings.stop_count, delay_s=self.settings.stop_delay_s)

    # ---- changing jobs

    def apply(self, job: Job, changes: Changes, at: float | None = None) -> None:
        """Carry out what the domain decided about a job."""
        now = self.now()
        if changes.attributes or changes.drop:
            self.records.transfers(job, changes.attributes)
            self.queue.change(job, changes.attributes, changes.drop)
        if changes.move is not None:
            before = job.status
            self.queue.move(job, changes.move, now)
            if before in _IN_EXECUTION and job.status not in _IN_EXECUTION:
                self.records.execution(job, int(before))
        if changes.earlier or changes.events:
            when = now if at is None else at
            self._write(job, [*changes.earlier, *((when, event) for event in changes.events)])
        self.settle(job)

    def write(self, job: Job, event: Event, at: float | None = None) -> None:
        """The job's logs shall have this event."""
        self._write(job, [(self.now() if at is None else at, event)])

    def _write(self, job: Job, events: Sequence[TimedEvent]) -> None:
        """The job's logs shall have these events; each log gets them in one piece."""
        ad = self.queue.ad(job)
        if ad.get("JobNotification"):
            for _, event in events:
                self.tell_owner(ad, event)
        informs = "JobAdInformationAttrs" in ad
        for path, form in self.logs_of(ad):
            text = ""
            for at, event in events:
                text += write_event(event, job.id, at, form)
                if informs:
                    text += write_event(event_log.information(ad, event), job.id, at, form)
            self.queue.log(job.cluster, path, text)
        if self.settings.global_log.path and self.global_log is not None:
            for at, event in events:
                self.global_log.add(event, job.id, ad, at)

    def deliver(self, rows: Sequence[EventRow], *, check: bool = False) -> None:
        """Have durable events written to their logs; `check`: these may be there already."""
        self.agents.put([row for row in rows if row.owner != NOBODYS], check=check)
        if self.global_log is not None:
            self.global_log.put([row for row in rows if row.owner == NOBODYS], check=check)

    def logs_of(self, ad: ClassAd) -> list[tuple[str, Form]]:
        """The files that hear of a job, and how they are written: its user's log, and its DAG's, which is never XML."""
        found = []
        for name in ("UserLog", "DAGManNodesLog"):
            path = ad.eval_str(name)
            if path and path != os.devnull:
                form = self.settings.log_form
                if name == "UserLog" and "UserLogUseXML" in ad and ad.eval_bool("UserLogUseXML", False):
                    form = read_form(["XML"], form)
                found.append((path if path.startswith("/") else os.path.join(ad.eval_str("Iwd", "/"), path), form))
        return found

    def settle(self, job: Job, *, tell: bool = True) -> None:
        """Let the job wait for a slot, or not, according to its state. `tell`: the negotiator may hear of it."""
        present = job.cluster.jobs.get(job.proc) is job
        if job in self.requested and (not present or job.status is not JobStatus.IDLE):
            self.requested.pop(job)()
        if present and job.status is JobStatus.IDLE and not job.busy and job not in self._cooling:
            if job.group is None:
                self._wait_for_slot(job, tell)
        elif job.group is not None:
            self.waiting.discard(job)
            self.work_changed(False)

    def _wait_for_slot(self, job: Job, tell: bool) -> None:
        if _may_not_wait(job):
            try:
                with Overruns(DEAR_MOST):
                    ready = self._is_ready(job)
            except TooDear as error:
                self.hold(job, f"The job cannot wait for a slot: {error}", HoldCode.EXPRESSION_TOO_COSTLY)
                return
            if not ready:
                return
        if is_local(job.cluster):
            self.start_local(job)
            return
        self.waiting.add(job, self.submitter(job))
        self.sort_waiting()
        for news in self.idle_claims:
            news.set()
        if tell:
            self.work_changed(True)

    def _is_ready(self, job: Job) -> bool:
        """Whether the job's ad lets it wait for a slot now; otherwise what it wants instead is done, or booked."""
        ad = self.queue.ad(job)
        if (rest_s := ad.eval_int("JobCoolDownExpiration", 0) - self.now()) > 0:
            self._cool(job, rest_s)
            return False
        if ad.eval_bool("IsNoopJob", False):
            self._finish_noop(job, ad)
            return False
        return not has_crontab(ad) or self._set_clock(job, ad)

    async def settle_new(self, jobs: Sequence[Job]) -> None:
        """The same as `settle` for jobs of one cluster that nobody has acted on yet, or only just."""
        cluster = jobs[0].cluster
        special = is_local(cluster) or cluster.charges_severally or _has_special_ad(cluster) or mention(jobs, _SPECIAL)
        if special or self._cooling or self.requested:
            pace = Pace()
            for job in jobs:
                self.settle(job)
                await pace.breathe()
            return
        present, idle = cluster.jobs, JobStatus.IDLE
        wait = [
            job
            for job in jobs
            if job.status is idle and not job.busy and job.group is None and present.get(job.proc) is job
        ]
        if not wait:
            return
        self.waiting.add_alike(wait, self.submitter(wait[0]))
        self.sort_waiting()
        for news in self.idle_claims:
            news.set()
        self.work_changed(True)

    def sort_waiting(self) -> None:
        """Sort what waits anew where more matters than before: at once, or if it takes long, beside everything else."""
        if self.waiting.is_stale and not self._unsorted.is_set() and self.waiting.sort_some(SORTED_AT_ONCE):
            self._unsorted.set()

    async def keep_sorted(self) -> None:
        """Do what of that takes long."""
        while True:
            await self._unsorted.wait()
            pace = Pace()
            while self.waiting.sort_some(1):
                await pace.breathe()
            self._unsorted = trio.Event()
            self.work_changed(True)

    def _set_clock(self, job: Job, ad: ClassAd) -> bool:
        """Set when a job with a crontab runs next; one whose crontab is wrong is put on hold."""
        try:
            moment = next_deferral(ad, self.now(), time.localtime, time.mktime)
        except TooDear:
            raise
        except UserError as error:
            self.hold(job, str(error), HoldCode.INVALID_CRON_SETTINGS)
            return False
        if moment is not None and ad.get("DeferralTime") != moment:
            self.queue.change(job, {"DeferralTime": moment})
            self.writer.soon()
        return True

    def missed_its_run(self, job: Job) -> bool:
        """Whether a job with a crontab still waits though its moment has passed; it then waits for the next one."""
        ad = self.queue.ad(job)
        if job.group is None or not has_crontab(ad):
            return False
        moment, window = ad.eval_int("DeferralTime"), ad.eval_int("DeferralWindow", 0)
        return moment is not None and self.now() > moment + window

    def resort(self, job: Job) -> None:
        """Something that decides where the job waits has changed."""
        if job.group is not None:
            self.waiting.discard(job)
        self.settle(job)

    def submitter(self, job: Job) -> str:
        """Who is charged for the job's slots: its owner, or its accounting group."""
        ad = self.queue.ad(job) if job.cluster.charges_severally else job.cluster.ad
        group = ad.eval_str(GROUP)
        return f"{group}@{self.settings.uid_domain}" if group else job.cluster.user

    def cool_down(self, job: Job, failures: int) -> None:
        """A job whose start fails again and again waits longer each time before it is offered again."""
        delay = min(COOL_DOWN_MAX_S, COOL_DOWN_FIRST_S * 2 ** max(0, failures - 1))
        self._cool(job, delay)
        self.settle(job)

    def _cool(self, job: Job, delay: float) -> None:
        self._cooling.add(job)
        self.nursery.start_soon(self._cooled, job, delay)

    async def _cooled(self, job: Job, delay: float) -> None:
        await trio.sleep(delay)
        self._cooling.discard(job)
        self.settle(job)

    def leave(self, job: Job) -> None:
        """The job's last change has been made: it goes into the history."""
        self.waiting.discard(job)
        self.records.finished(job)
        self.queue.leave(job, self.now())
        if self.directories.exists(job.id):
            self.nursery.start_soon(self.cleanup.left, self.directories.path_of(job.id))

    def over(self, job: Job) -> None:
        """The job was removed and runs nowhere: it leaves, unless LeaveJobInQueue keeps it."""
        if not self.queue.ad(job).eval_bool("LeaveJobInQueue", False):
            self.leave(job)

    def agent_address(self, path: str, *, local: bool) -> str:
        """Where the file agent of this unix socket is reached: from another host, through this one's port."""
        if local or not path or not self.start.port_address:
            return path
        port = Address.parse(self.start.port_address)
        return str(Address.tcp(port.host, port.port, sock=socket_name(path), alias=port.alias))

    def _finish_noop(self, job: Job, ad: ClassAd) -> None:
        """A job that was not to be run at all is done."""
        end = ClassAd({"ExitBySignal": False, "ExitCode": ad.eval_int("NoopJobExitCode", 0)})
        if "NoopJobExitSignal" in ad:
            end = ClassAd({"ExitBySignal": True, "ExitSignal": ad.eval_int("NoopJobExitSignal", 0)})
        now = self.now()
        report = run.End(run.Ending.EXITED, end, at=now)
        changes, fate = run.ended(ad, JobStatus.RUNNING, report, None, now, self.settings.system)
        if changes.move is JobEvent.REQUEUE:  # it would end the same way for ever
            changes, fate = run.hold(ad, "A job that does nothing shall be run again", 3, 0, now), run.Fate.HELD
        self.apply(job, changes)
        if fate is run.Fate.LEAVES:
            self.leave(job)
        self.writer.soon()

    def execution_of(self, job: Job) -> Execution | None:
        """The job's execution, while it has one."""
        return self.shadow_of.get(job) or self.local_runs.get(job)

    # ---- holding, releasing, removing: the same for users and for policy

    def hold(self, job: Job, reason: str, code: int, subcode: int = 0) -> None:
        """Put the job on hold; one that runs leaves its slot first, and its log hears of it then."""
        ad = self.queue.ad(job)
        self.apply(job, run.hold(ad, reason, code, subcode, self.now()))
        execution = self.execution_of(job)
        if execution is None:
            self.write(job, event_log.Held(reason, code, subcode))
        else:
            execution.stop(reason, code, subcode)

    def release(self, job: Job, reason: str) -> None:
        """Let a job on hold run again."""
        ad = self.queue.ad(job)
        if self.execution_of(job) is not None:  # its execution is still on its way out
            code, subcode = ad.eval_int("HoldReasonCode", 0), ad.eval_int("HoldReasonSubCode", 0)
            self.write(job, event_log.Held(ad.eval_str("HoldReason", ""), code, subcode))
        self.apply(job, run.release(ad, reason, self.now()))

    def remove(self, job: Job, reason: str, *, transfer: bool = False) -> None:
        """Remove the job; one that runs leaves its slot first, and leaves its output where `transfer` says so."""
        self.apply(job, run.remove(reason))
        execution = self.execution_of(job)
        if execution is None:
            self.write(job, event_log.Aborted(reason))
            self.over(job)
        else:
            graceful = self.queue.ad(job).eval_bool("WantGracefulRemoval", self.settings.removes_gracefully)
            execution.stop(reason, 0, 0, fast=not graceful and not transfer, transfer=transfer)

    def vacate(self, job: Job, reason: str, code: int, subcode: int = 0, *, fast: bool = False) -> None:
        """Have the job leave its slot and run again elsewhere."""
        execution = self.execution_of(job)
        if execution is not None:
            execution.stop(reason, code, subcode, fast=fast)


def is_local(cluster: Cluster) -> bool:
    """Whether the cluster's jobs run at the access point itself."""
    return cluster.ad.attrs["jobuniverse"] in (12, 7)


def _may_not_wait(job: Job) -> bool:
    """Whether the ad must tell if a slot is all that the job waits for; making ads is most of the cost of new jobs."""
    return _has_special_ad(job.cluster) or job.may_have("isnoopjob", "cron", "jobcooldown")


def _has_special_ad(cluster: Cluster) -> bool:
    if cluster.crontab is None:
        cluster.crontab = has_crontab(cluster.ad)
    return cluster.crontab or "isnoopjob" in cluster.ad.attrs


def has_crontab(ad: ClassAd) -> bool:
    """Whether the job runs by a crontab."""
    return any(name in ad for name, _, _ in FIELDS)
