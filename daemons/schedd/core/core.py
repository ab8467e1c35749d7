"""What all parts of the schedd share: the queue, who waits for a slot, the writer, and how a change is carried out.

The parts are given this object, and it knows none of them: what they must hear of it tells those that main has named
(`listeners.py`). All changes are made between two awaits. A job that may run is in `waiting` exactly when it is idle,
has no execution and has no reason to wait longer; `settle` sees to that, and is called after every change of a job's
state. The states are those of "Job States" in HTCondor's manual.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import trio

from daemons.agent.main import socket_name
from daemons.base.pace import Pace
from daemons.schedd.core.executions import Executions
from daemons.schedd.core.holdings import Holdings
from daemons.schedd.core.kept_leases import KeptLeases
from daemons.schedd.core.listeners import Listeners
from pool.base.errors import UserError
from pool.base.words import split_list
from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns, TooDear
from pool.jobs import conclusion, holds
from pool.jobs.accounting_groups import GROUP
from pool.jobs.changes import Changes, Fate
from pool.jobs.crontab import FIELDS
from pool.jobs.deferral import next_deferral
from pool.jobs.queue.cluster import Cluster, Job, any_may_have
from pool.jobs.queue.pack import lower_names
from pool.jobs.transfers.progress import TimedEvent
from pool.jobs.userlog import event_log
from pool.jobs.userlog.event import LogEvent
from pool.jobs.userlog.forms import Form, read_form
from pool.jobs.userlog.forms import write as write_event
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.nodes import is_gang, is_part
from pool.jobs.vocabulary.states import EXECUTING, JobEvent, JobStatus, allowed
from pool.jobs.vocabulary.universes import AT_ACCESS_POINT
from pool.jobs.waiting.autoclusters import Autoclusters
from pool.jobs.waiting.flocking import FlockLevels
from pool.jobs.waiting.groups import Waiting
from protocol.wire.address import Address

if TYPE_CHECKING:
    from daemons.schedd.core.access_point import AccessPoint
    from daemons.schedd.core.job_tasks import JobTasks
    from daemons.schedd.core.settings import ScheddSettings
    from daemons.schedd.core.writer import Writer
    from daemons.schedd.files.directories import Directories
    from daemons.schedd.logs.global_log import GlobalLog
    from daemons.schedd.logs.records import JobRecords
    from daemons.schedd.queue.mailer import Mailer

SORTED_AT_ONCE: Final = 10
"""Steps of a sorting that are done at once."""
DEAR_MOST: Final = 2
"""Evaluations that may cost much before a job can wait for a slot; one that ends for its cost counts twice."""
COOL_DOWN_FIRST_S: Final = 1.0
COOL_DOWN_MAX_S: Final = 60.0
_CRON: Final = tuple(name for name, _, _ in FIELDS)
CRONTAB: Final = lower_names(*_CRON)
_SPECIAL: Final = lower_names("IsNoopJob", "JobCoolDownExpiration", *_CRON)
"""Attributes by which more than a slot may be what a job waits for."""


class Core:
    """The schedd's shared state."""

    def __init__(
        self,
        point: AccessPoint,
        tasks: JobTasks,
        writer: Writer,
        records: JobRecords,
        global_log: GlobalLog,
        mailer: Mailer,
        directories: Directories,
    ) -> None:
        self._point = point
        self.start, self.log, self.queue, self.now = point.start, point.log, point.queue, point.now
        self.tasks = tasks
        self.writer = writer
        self.records = records
        self.global_log = global_log
        self.directories = directories
        self._mailer = mailer
        self._listeners = Listeners()
        self.executions = Executions(point)
        self.autoclusters = Autoclusters(point.queue, point.settings.significant, point.settings.insignificant)
        self.waiting = Waiting(self.autoclusters)
        self._unsorted = trio.Event()
        """Set when what waits is to be sorted anew, and that takes long."""
        self.holdings = Holdings()
        """What is held of the home pool; what of others, `holdings_in` says."""
        self._holdings_elsewhere: dict[str, Holdings] = {}
        self.kept_leases = KeptLeases(point.start)
        self.flock_levels = FlockLevels(point.settings.flock)
        self.stats: Counter[str] = Counter()
        self.requested: dict[Job, Callable[[], None]] = {}
        """Jobs for which a slot is being asked, which may take long; called when the job needs it no more."""
        self._cooling: set[Job] = set()

    @property
    def settings(self) -> ScheddSettings:
        """The knobs as they are now."""
        return self._point.settings

    def holdings_in(self, pool: str) -> Holdings:
        """What is held of a pool that jobs flock to; "" is the home pool."""
        return self._holdings_elsewhere.setdefault(pool, Holdings()) if pool else self.holdings

    def tell(self, listeners: Listeners) -> None:
        """These hear of changes from now on."""
        self._listeners = listeners

    def work_changed(self, more: bool) -> None:
        """What waits for slots has changed; `more`: there is new work."""
        for hear in self._listeners.work_changed:
            hear(more)

    # ---- changing jobs

    def apply(self, job: Job, changes: Changes, at: float | None = None) -> None:
        """Carry out what the domain decided about a job."""
        now = self.now()
        if changes.attributes or changes.drop:
            self.records.transfers(job, changes.attributes)
            if changes.is_note:
                self.queue.note(job, changes.attributes)
            else:
                self.queue.change(job, changes.attributes, changes.drop)
        if changes.move is not None:
            before = job.status
            self.queue.move(job, changes.move, now)
            # The record is of the execution that ends here, with what the ad says of it at its end.
            if before in EXECUTING and job.status not in EXECUTING:
                self.records.execution(job, int(before))
        if changes.earlier or changes.events:
            when = now if at is None else at
            self._write(job, [*changes.earlier, *((when, event) for event in changes.events)])
        self.settle(job)

    def write(self, job: Job, event: LogEvent, at: float | None = None) -> None:
        """The job's logs shall have this event."""
        self._write(job, [(self.now() if at is None else at, event)])

    def _write(self, job: Job, events: Sequence[TimedEvent]) -> None:
        """The job's logs shall have these events; each log gets them in one piece."""
        if is_part(job.cluster.ad, job.proc):  # a log tells of proc 0
            return
        ad = self.queue.ad(job)
        if ad.get("JobNotification"):
            for _, event in events:
                self._mailer.consider(ad, event)
        informs = "JobAdInformationAttrs" in ad
        nodes_log, wanted = _masked(ad) if "DAGManNodesMask" in ad else ("", ())
        for path, form in self.logs_of(ad):
            text = ""
            for at, event in events:
                if path == nodes_log and str(event.number) not in wanted:
                    continue
                text += write_event(event, job.id, at, form)
                if informs:
                    text += write_event(event_log.information(ad, event), job.id, at, form)
            if text:
                self.queue.log(job.cluster, path, text)
        if self.settings.global_log.path:
            for at, event in events:
                self.global_log.add(event, job.id, ad, at)

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
        # A slot that is being asked for would come for a job that does not want it any more.
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
            for hear in self._listeners.waits_here:
                hear(job)
            return
        self.waiting.add(job, self.submitter(job))
        self.sort_waiting()
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
        special = (
            is_local(cluster) or cluster.charges_severally or _has_special_ad(cluster) or any_may_have(jobs, _SPECIAL)
        )
        if special or self._cooling or self.requested:
            pace = Pace()
            for job in jobs:
                # Told at the end: a cycle that saw some of the jobs would share slots between their submitters wrongly.
                self.settle(job, tell=False)
                await pace.breathe()
            self.work_changed(True)
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
        self.work_changed(True)

    def sort_waiting(self) -> None:
        """Sort what waits anew where more matters than before: at once, or if it takes long, beside everything else."""
        if self.waiting.is_stale and not self._unsorted.is_set() and self.waiting.sort_some(SORTED_AT_ONCE):
            self._unsorted.set()

    def reconfigured(self) -> None:
        """Jobs may be alike in other things now."""
        generation = self.autoclusters.generation
        self.autoclusters.configure(self.settings.significant, self.settings.insignificant)
        if self.autoclusters.generation != generation:
            self.sort_waiting()
            self.work_changed(True)

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
        # Only a change is written: each is a row of the next commit.
        if moment is not None and ad.get("DeferralTime") != moment:
            self.queue.change(job, {"DeferralTime": moment})
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
        # Or a job that fails at once would be matched again in each cycle.
        delay = min(COOL_DOWN_MAX_S, COOL_DOWN_FIRST_S * 2 ** max(0, failures - 1))
        self._cool(job, delay)
        self.settle(job)

    def _cool(self, job: Job, delay: float) -> None:
        self._cooling.add(job)
        self.tasks.start(self._cooled, job, delay)

    async def _cooled(self, job: Job, delay: float) -> None:
        await trio.sleep(delay)
        self._cooling.discard(job)
        self.settle(job)

    def leave(self, job: Job) -> None:
        """The job's last change has been made: it goes into the history."""
        self.waiting.discard(job)
        self.records.finished(job)
        self.queue.leave(job, self.now())
        for hear in self._listeners.has_left:
            hear(job)

    def ended(self, job: Job, changes: Changes, fate: Fate) -> None:
        """An execution of the job is over, and this becomes of the job, whoever has run it."""
        self.apply(job, changes)
        self.queue.set_busy(job, False)
        self.stats["JobsExited"] += 1
        if fate is Fate.LEAVES:
            self.stats["JobsCompleted"] += job.status is JobStatus.COMPLETED
            self.leave(job)

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
        changes, fate = conclusion.ended_unrun(ad, end, now, self.settings.system, "A job that does nothing")
        self.apply(job, changes)
        if fate is Fate.LEAVES:
            self.leave(job)

    # ---- holding, releasing, removing: the same for users and for policy

    def hold(self, job: Job, reason: str, code: int, subcode: int = 0) -> None:
        """Put the job on hold; one that runs leaves its slot first, and its log hears of it then."""
        whole = _whole(job, JobEvent.HOLD)
        for one in whole:
            self.apply(one, holds.hold(self.queue.ad(one), reason, code, subcode))
        execution = self.executions.of(job)
        if execution is None:
            for one in whole:
                self.write(one, event_log.Held(reason, code, subcode))
        else:
            execution.stop(reason, code, subcode)

    def release(self, job: Job, reason: str) -> None:
        """Let a job on hold run again."""
        for one in _whole(job, JobEvent.RELEASE):
            ad = self.queue.ad(one)
            code, subcode = ad.eval_int("HoldReasonCode", 0), ad.eval_int("HoldReasonSubCode", 0)
            if one is not job and code == HoldCode.SPOOLING_INPUT:  # its files are still on their way
                continue
            if self.executions.of(one) is not None:  # its execution is still on its way out
                # The log was to hear of the hold when the job had left its slot; a release must not come before it.
                self.write(one, event_log.Held(ad.eval_str("HoldReason", ""), code, subcode))
            self.apply(one, holds.release(ad, reason))

    def remove(self, job: Job, reason: str, *, transfer: bool = False) -> None:
        """Remove the job; one that runs leaves its slot first, and leaves its output where `transfer` says so."""
        whole = _whole(job, JobEvent.REMOVE)
        for one in whole:
            self.apply(one, holds.remove(reason))
        execution = self.executions.of(job)
        if execution is not None:
            graceful = self.queue.ad(job).eval_bool("WantGracefulRemoval", self.settings.removes_gracefully)
            execution.stop(reason, 0, 0, fast=not graceful and not transfer, transfer=transfer)
        for one in whole:
            if execution is None:
                self.write(one, event_log.Aborted(reason))
                self.over(one)
            for hear in self._listeners.removed:
                hear(one)

    def give_up(self, job: Job, error: Exception) -> None:
        """An error that nobody foresaw costs its job: it is put on hold, and the schedd goes on."""
        self.log.error(f"The schedd failed to run job {job.id}", error)
        if job.cluster.jobs.get(job.proc) is job and allowed(job.status, JobEvent.HOLD):
            self.hold(job, f"The schedd failed to run the job: {error}", HoldCode.UNSPECIFIED)

    def vacate(self, job: Job, reason: str, code: int, subcode: int = 0, *, fast: bool = False) -> None:
        """Have the job leave its slot and run again elsewhere."""
        execution = self.executions.of(job)
        if execution is not None:
            execution.stop(reason, code, subcode, fast=fast)


def whole(job: Job) -> list[Job]:
    """The job; of a parallel one all procs, in order, for they are one job."""
    jobs = job.cluster.jobs
    return [jobs[proc] for proc in sorted(jobs)] if is_gang(job.cluster.ad) else [job]


def _whole(job: Job, event: JobEvent) -> list[Job]:
    """As much of it as this can happen to; it happens to `job` in any case, or is an error."""
    return [one for one in whole(job) if one is job or allowed(one.status, event)]


def is_local(cluster: Cluster) -> bool:
    """Whether the cluster's jobs run at the access point itself."""
    return cluster.ad.attrs["jobuniverse"] in AT_ACCESS_POINT


def _may_not_wait(job: Job) -> bool:
    """Whether the ad must tell if a slot is all that the job waits for; making ads is most of the cost of new jobs."""
    return _has_special_ad(job.cluster) or job.may_have(_SPECIAL)


def _has_special_ad(cluster: Cluster) -> bool:
    return runs_by_crontab(cluster) or "isnoopjob" in cluster.ad.attrs


def runs_by_crontab(cluster: Cluster) -> bool:
    """Whether the cluster's ad has a crontab; a job may yet have one of its own."""
    if cluster.crontab is None:
        cluster.crontab = has_crontab(cluster.ad)
    return cluster.crontab


def has_crontab(ad: ClassAd) -> bool:
    """Whether the job runs by a crontab."""
    return any(name in ad for name in _CRON)


def _masked(ad: ClassAd) -> tuple[str, Collection[str]]:
    """The log of a workflow's nodes, and the numbers of the events that it is to have."""
    path = os.path.join(ad.eval_str("Iwd", "/"), ad.eval_str("DAGManNodesLog") or "")
    # Whoever names the same file as the job's own log wants all events there.
    own = os.path.join(ad.eval_str("Iwd", "/"), ad.eval_str("UserLog") or "")
    return "" if path == own else path, split_list(ad.eval_str("DAGManNodesMask"))
