"""Takes new jobs: checked, made durable in one transaction, their submit events written, and only then acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from daemons.faults import fault
from daemons.schedd.core import Core
from daemons.schedd.selection import owner_of
from pool.classad import ClassAd
from pool.errors import SubmitError
from pool.jobs import event_log
from pool.jobs.codes import HoldCode
from pool.jobs.job_queue import MADE_UP, Cluster, Job
from pool.jobs.pack import pack
from pool.jobs.run import hold_attributes
from pool.jobs.states import JobStatus
from pool.version import CONDOR_PLATFORM, CONDOR_VERSION
from protocol.authorize import Level
from protocol.codec import unpack_ads
from protocol.messages.schedd import ReserveCluster, ReservedCluster, SubmitJobs, Submitted
from protocol.rpc import Peer

PROCS_PER_CHUNK_MAX: Final = 500
RESERVED_MAX: Final = 10_000

DEFAULTS: Final[dict[str, object]] = {
    "BytesRecvd": 0.0,
    "BytesSent": 0.0,
    "CommittedSlotTime": 0.0,
    "CommittedSuspensionTime": 0,
    "CommittedTime": 0,
    "CumulativeRemoteSysCpu": 0.0,
    "CumulativeRemoteUserCpu": 0.0,
    "CumulativeSlotTime": 0.0,
    "CumulativeSuspensionTime": 0,
    "CurrentHosts": 0,
    "ExitBySignal": False,
    "ExitStatus": 0,
    "JobPrio": 0,
    "JobUniverse": 5,
    "LastSuspensionTime": 0,
    "LeaveJobInQueue": False,
    "MaxHosts": 1,
    "MinHosts": 1,
    "MyType": "Job",
    "NumCkpts": 0,
    "NumJobCompletions": 0,
    "NumJobStarts": 0,
    "NumRestarts": 0,
    "NumSystemHolds": 0,
    "Rank": 0.0,
    "RemoteSysCpu": 0.0,
    "RemoteUserCpu": 0.0,
    "RemoteWallClockTime": 0.0,
    "TargetType": "Machine",
    "TotalSuspensions": 0,
}
"""What every job's ad has from the beginning."""

_SCHEDDS_OWN: Final = ("ClusterId", "ProcId", "JobStatus", "GlobalJobId")


class Submits:
    """The handler of submissions."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._reserved: dict[int, str] = {}
        core.start.service.on(SubmitJobs, self.submit, level=Level.WRITE)
        core.start.service.on(ReserveCluster, self.reserve, level=Level.WRITE)

    async def reserve(self, peer: Peer, request: ReserveCluster) -> ReservedCluster:
        """Give out an id; one that is never used is lost, and no harm done."""
        while len(self._reserved) >= RESERVED_MAX:
            del self._reserved[next(iter(self._reserved))]
        cluster = self._core.queue.new_id()
        self._reserved[cluster] = peer.identity
        return ReservedCluster(cluster=cluster)

    def _id_for(self, peer: Peer, wanted: int | None) -> int:
        """The id of a new cluster: a fresh one, or the one that was reserved for this caller."""
        if wanted is None:
            return self._core.queue.new_id()
        if self._reserved.get(wanted) != peer.identity:
            raise SubmitError(f"cluster {wanted} was not reserved for {peer.identity}")
        del self._reserved[wanted]
        return wanted

    async def submit(self, peer: Peer, request: SubmitJobs) -> Submitted:
        """Queue one cluster."""
        core = self._core
        owner = owner_of(peer)
        now = int(core.now())
        ad = self._cluster_ad(request.cluster_ad, owner, peer.identity, now)
        cluster = Cluster(0, ad, user=peer.identity, owner=owner)
        jobs: list[Job] = []
        for chunk in request.procs or [b"\x91\x80"]:
            for own in self._procs(chunk, len(jobs)):
                jobs.append(self._job(cluster, own, len(jobs), request.hold_for_spool))
            self._check_limits(owner, len(jobs))
            await trio.lowlevel.checkpoint()
        cluster.id = self._id_for(peer, request.cluster)
        ad["ClusterId"], ad["TotalSubmitProcs"] = cluster.id, len(jobs)
        texts = await self._submit_events(cluster, jobs)
        self._check_limits(owner, len(jobs))
        fault("schedd.before_submit_commit")
        core.queue.add(cluster, jobs)
        for log, text in texts.items():
            core.queue.log(cluster, log, text)
        last_event = core.queue.next_event - 1
        core.stats["JobsSubmitted"] += len(jobs)
        await core.writer.durable()
        fault("schedd.after_submit_commit")
        await self._let_wait(jobs)
        await core.agents.wait(owner, last_event)
        fault("schedd.before_submit_answer")
        core.log.full(f"Submitted {len(jobs)} jobs of {peer.identity}.", cluster=cluster.id)
        return Submitted(cluster=cluster.id, count=len(jobs), warnings=self._warnings(jobs))

    async def _let_wait(self, jobs: Sequence[Job]) -> None:
        for at, job in enumerate(jobs):
            self._core.settle(job)
            if at % 200 == 199:
                await trio.lowlevel.checkpoint()

    def _cluster_ad(self, given: ClassAd, owner: str, identity: str, now: int) -> ClassAd:
        ad = ClassAd(DEFAULTS)
        for name, value in given.items():
            ad[name] = value
        if ad.eval_int("JobUniverse", 5) not in (5, 14):
            known = "vanilla and container jobs"
            raise SubmitError(f"universe {ad.eval_int('JobUniverse', 5)} is not supported here", expected=known)
        ad["Owner"], ad["User"], ad["QDate"], ad["EnteredCurrentStatus"] = owner, identity, now, now
        ad["CondorVersion"], ad["CondorPlatform"] = CONDOR_VERSION, CONDOR_PLATFORM
        ad["JobStatus"] = ad.eval_int("JobStatus", int(JobStatus.IDLE))
        return ad

    @staticmethod
    def _procs(chunk: bytes, made: int) -> list[ClassAd]:
        ads = unpack_ads(chunk)
        if len(ads) > PROCS_PER_CHUNK_MAX:
            raise SubmitError(f"{len(ads)} jobs in one chunk (after {made} others)", expected=f"{PROCS_PER_CHUNK_MAX}")
        return ads

    def _job(self, cluster: Cluster, own: ClassAd, proc: int, hold_for_spool: bool) -> Job:
        """A job from what its submitter says of it alone."""
        own.parent = cluster.ad
        status = JobStatus.HELD if own.eval_int("JobStatus") == JobStatus.HELD else JobStatus.IDLE
        hold = None
        if hold_for_spool:
            hold = ("Spooling input data files", HoldCode.SPOOLING_INPUT)
        elif status is JobStatus.HELD:
            hold = ("submitted on hold at user's request", HoldCode.SUBMITTED_ON_HOLD)
        if hold is not None:
            status = JobStatus.HELD
            for name, value in hold_attributes(own, *hold, 0, 0.0).items():
                own[name] = value
        for name in _SCHEDDS_OWN:
            if any(name.lower() == given.lower() for given, _ in own.own()):
                del own[name]
        prio = own.eval_int("JobPrio", 0)
        own.parent = None
        return Job(cluster, proc, status, prio, pack(own, MADE_UP))

    def _check_limits(self, owner: str, count: int) -> None:
        core, settings = self._core, self._core.settings
        total, own = len(core.queue), sum(core.queue.by_owner.get(owner, {}).values())
        for name, current, limit in (
            ("MAX_JOBS_SUBMITTED", total, settings.jobs_submitted_max),
            ("MAX_JOBS_PER_OWNER", own, settings.jobs_per_owner_max),
            ("MAX_JOBS_PER_SUBMISSION", 0, settings.jobs_per_submission_max),
        ):
            if current + count > limit:
                raise SubmitError(f"{name} exceeded, submit failed. Current total is {current}. Limit is {limit}")

    async def _submit_events(self, cluster: Cluster, jobs: Sequence[Job]) -> dict[str, str]:
        """Each log's submit events, as one text."""
        core, texts = self._core, {}
        at, host = core.now(), core.start.address
        parts: dict[str, list[str]] = {}
        shared = None if any("log" in job.packed.lower() for job in jobs) else core.logs_of(cluster.ad)
        batch = cluster.ad.eval_str("JobBatchName", "")
        for number, job in enumerate(jobs):
            ad = cluster.ad if shared is not None else core.queue.ad(job)
            logs = core.logs_of(ad) if shared is None else shared
            if logs:
                event = event_log.Submitted(
                    host,
                    batch_name=batch,
                    log_notes=ad.eval_str("SubmitEventNotes", ""),
                    user_notes=ad.eval_str("SubmitEventUserNotes", ""),
                )
                text = event_log.text(event, job.id, at)
                for log in logs:
                    parts.setdefault(log, []).append(text)
            if number % 200 == 199:
                await trio.lowlevel.checkpoint()
        for log, several in parts.items():
            texts[log] = "".join(several)
        return texts

    def _warnings(self, jobs: Sequence[Job]) -> list[str]:
        """What went wrong with jobs that are nevertheless in the queue: a log that cannot be written, first of all."""
        for job in jobs[:1]:
            ad = self._core.queue.ad(job)
            if ad.eval_int("HoldReasonCode", 0) == HoldCode.UNABLE_TO_INIT_USER_LOG:
                return [ad.eval_str("HoldReason", "")]
        return []
