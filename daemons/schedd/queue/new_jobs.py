"""New jobs in the making: their ads as the schedd completes them, the limits on their number, their submit events.

Submissions and factories make jobs in the same way.

HTCondor's manual: admin-manual/configuration/schedd (MAX_JOBS_SUBMITTED, MAX_JOBS_PER_OWNER,
MAX_JOBS_PER_SUBMISSION), codes-other-values/job-event-log-codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from daemons.schedd.core.core import Core
from pool.base.errors import SubmitError
from pool.base.version import CONDOR_PLATFORM, CONDOR_VERSION
from pool.classad import ClassAd
from pool.jobs.accounting_groups import ACCOUNTING, GROUP, ChargeRules
from pool.jobs.edits import EditRules
from pool.jobs.holds import hold_attributes
from pool.jobs.queue.cluster import Cluster, Job, any_may_have
from pool.jobs.queue.pack import lower_names, pack, pack_columns
from pool.jobs.userlog import event_log
from pool.jobs.userlog.forms import write as write_event
from pool.jobs.userlog.forms import write_events
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.new_job import DEFAULTS
from pool.jobs.vocabulary.own_attributes import MADE_UP, NO_SUBMITTERS, has_nul
from pool.jobs.vocabulary.priority import AROUND, priority_of
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import SUPPORTED, Universe
from protocol.wire.ad_table import AdTable

if TYPE_CHECKING:
    from daemons.schedd.logs.global_log import GlobalLog

ON_HOLD: Final = ("submitted on hold at user's request", HoldCode.SUBMITTED_ON_HOLD)
_WITHOUT_TEXTS: Final = frozenset({bool, int, float, type(None)})
_SHARED: Final = ("JobStatus", "JobPrio")
_SEVERALLY: Final = frozenset({*MADE_UP, *(name.lower() for name in (*_SHARED, *AROUND, *ACCOUNTING))})
"""Attributes by which jobs of a cluster may differ in how they enter the queue."""


def new_cluster(given: ClassAd, *, owner: str, user: str, now: int, edits: EditRules) -> tuple[Cluster, list[str]]:
    """A cluster of this user's, without an id yet; and the names of what the submitter said of it in vain."""
    truth = ClassAd(DEFAULTS)
    truth["Owner"], truth["User"], truth["QDate"], truth["EnteredCurrentStatus"] = owner, user, now, now
    ignored = edits.submitted(given, truth, NO_SUBMITTERS)
    ad = truth.copy()
    for name, value in given.items():
        ad[name] = value
    universe = ad.eval_int("JobUniverse", Universe.VANILLA)
    if universe not in SUPPORTED and universe != Universe.CONTAINER:
        known = "vanilla, container, java, parallel, vm, local or scheduler"
        raise SubmitError(f"universe {universe} is not supported here", expected=known)
    ad["JobUniverse"] = universe
    ad["EnteredCurrentStatus"] = now
    ad["CondorVersion"], ad["CondorPlatform"] = CONDOR_VERSION, CONDOR_PLATFORM
    ad["JobStatus"] = ad.eval_int("JobStatus", int(JobStatus.IDLE))
    check_texts(ad)
    return Cluster(0, ad, user=user, owner=owner), ignored


def check_texts(ad: ClassAd) -> None:
    """SubmitError when a text of the ad's own has a character that no file's name, no program and no ad can have."""
    for name, value in ad.own():
        check_column(name, (value,))


def check_column(name: str, values: Sequence[Any]) -> None:
    """The same of one attribute of several jobs."""
    kinds = set(map(type, values))
    if kinds <= _WITHOUT_TEXTS:
        return
    if "\0" in "".join(values) if kinds == {str} else any(map(has_nul, values)):
        raise SubmitError(f"{name} contains the character 0", expected="a text without it")


def new_job(cluster: Cluster, own: ClassAd, proc: int, charging: ChargeRules, *, hold_for_spool: bool = False) -> Job:
    """A job from what its submitter says of it alone, which no longer has what only the schedd sets."""
    # A null character would end the text in the middle, at the latest in execve, and then at each attempt.
    check_texts(own)
    own.parent = cluster.ad
    charging.settle(own, owner=cluster.owner, user=cluster.user)
    if GROUP.lower() in own.attrs:
        cluster.charges_severally = True
    status = JobStatus.HELD if own.eval_int("JobStatus") == JobStatus.HELD else JobStatus.IDLE
    hold = None
    if hold_for_spool:
        hold = ("Spooling input data files", HoldCode.SPOOLING_INPUT)
    elif status is JobStatus.HELD:
        hold = ON_HOLD
    if hold is not None:
        status = JobStatus.HELD
        for name, value in hold_attributes(own, *hold, 0).items():
            own[name] = value
    priority = priority_of(own)
    # Packed without the cluster's attributes, which all of its jobs share.
    own.parent = None
    return Job(cluster, proc, status, priority, pack(own, MADE_UP))


def new_jobs(cluster: Cluster, table: AdTable, first: int) -> list[Job] | None:
    """Jobs from what their submitter says of them, the first of which gets the id `first`; no ad is made of any.

    None where one may differ from another in more than what it says to the program: each then needs `new_job`.
    """
    shared = cluster.ad
    names, columns = list(table.names), list(table.columns)
    alike = all(type(shared.get(name)) is int for name in _SHARED)
    alike = alike and all(type(shared.get(name, 0)) is int for name in AROUND)
    if alike and shared["JobStatus"] == JobStatus.HELD:
        for name, value in hold_attributes(shared, *ON_HOLD, 0).items():
            names.append(name)
            columns.append([value] * table.rows)
    keys = [name.lower() for name in names]
    if not alike or len(set(keys)) < len(keys) or not _SEVERALLY.isdisjoint(keys):
        return None
    for name, column in zip(names, columns, strict=True):
        check_column(name, column)
    try:
        packed = pack_columns(names, columns, table.rows)
    except TypeError as error:
        raise SubmitError(f"a job has a value that no ad can hold: {error}") from None
    priority = priority_of(shared)
    status = JobStatus.HELD if shared["JobStatus"] == JobStatus.HELD else JobStatus.IDLE
    return [Job(cluster, proc, status, priority, own) for proc, own in enumerate(packed, first)]


def room(core: Core, owner: str) -> tuple[str, int, int]:
    """The limit that is nearest for this user: its name, how many jobs there are, and how many there may be."""
    total, own = len(core.queue), sum(core.queue.by_owner.get(owner, {}).values())
    settings = core.settings
    return min(
        ("MAX_JOBS_SUBMITTED", total, settings.jobs_submitted_max),
        ("MAX_JOBS_PER_OWNER", own, settings.jobs_per_owner_max),
        ("MAX_JOBS_PER_SUBMISSION", 0, settings.jobs_per_submission_max),
        key=lambda one: one[2] - one[1],
    )


def check_limits(core: Core, owner: str, count: int) -> None:
    """SubmitError when so many more jobs of this user are too many."""
    name, current, limit = room(core, owner)
    if current + count > limit:
        raise SubmitError(f"{name} exceeded, submit failed. Current total is {current}. Limit is {limit}")


ROW_CHARS: Final = 64 * 1024
"""How long the text of one row of events gets; a cluster's may be a hundred megabytes."""
_TOLD: Final = lower_names(
    *("DAGNodeName", "JobBatchName", "UserLog", "UserLogUseXML", "DAGManNodesLog", "JobAdInformationAttrs"),
    *("SubmitEventNotes", "SubmitEventNotesAttrs", "SubmitEventUserNotes"),
)
"""Attributes that decide which submit event a job has, and where."""


class SubmitEvents:
    """The submit events of a cluster's new jobs, gathered for each log."""

    def __init__(self, core: Core, cluster: Cluster) -> None:
        self._core = core
        self._cluster = cluster
        self._at, self._host = core.now(), core.start.address
        self._parts: dict[str, list[str]] = {}
        self._overall: list[str] = []

    def add(self, jobs: Sequence[Job], warnings: str = "") -> None:
        """These jobs are new."""
        core, ad = self._core, self._cluster.ad
        overall = self._overall_log
        if self.are_several(jobs):
            for job in jobs:
                self._add_one(job, warnings, overall)
            return
        event = self._event(ad, warnings)
        if overall is not None:
            self._overall += overall.texts_of(event, [job.id for job in jobs], self._at)
        for log, form in core.logs_of(ad):
            self._parts.setdefault(log, []).append(write_events(event, [job.id for job in jobs], self._at, form))

    def are_several(self, jobs: Sequence[Job]) -> bool:
        """Whether each job's ad must be looked at, because events differ or go to different logs."""
        several = self._overall_log is not None and self._core.settings.global_log.attributes
        ad = self._cluster.ad
        told = "JobAdInformationAttrs" in ad or "SubmitEventNotesAttrs" in ad or any_may_have(jobs, _TOLD)
        return bool(several) or told

    @property
    def _overall_log(self) -> GlobalLog | None:
        return self._core.global_log if self._core.settings.global_log.path else None

    def _add_one(self, job: Job, warnings: str, overall: GlobalLog | None) -> None:
        core = self._core
        ad = core.queue.ad(job)
        event = self._event(ad, warnings)
        for log, form in core.logs_of(ad):
            text = write_event(event, job.id, self._at, form)
            if "JobAdInformationAttrs" in ad:
                text += write_event(event_log.information(ad, event), job.id, self._at, form)
            self._parts.setdefault(log, []).append(text)
        if overall is not None:
            self._overall.append(overall.text_of(event, job.id, ad, self._at))

    def _event(self, ad: ClassAd, warnings: str) -> event_log.Submitted:
        return event_log.Submitted(
            self._host,
            attributes=event_log.submit_notes(ad),
            log_notes=ad.eval_str("SubmitEventNotes", ""),
            user_notes=ad.eval_str("SubmitEventUserNotes", ""),
            warnings=warnings,
        )

    def write(self) -> None:
        """Each log shall have its events, as part of the current transaction."""
        for log, several in self._parts.items():
            texts: list[str] = []
            size = 0
            for text in several:
                texts.append(text)
                size += len(text)
                if size >= ROW_CHARS:
                    self._core.queue.log(self._cluster, log, "".join(texts))
                    texts, size = [], 0
            if texts:
                self._core.queue.log(self._cluster, log, "".join(texts))
        self._parts.clear()
        if self._overall:
            self._core.global_log.log(self._overall)
        self._overall = []
