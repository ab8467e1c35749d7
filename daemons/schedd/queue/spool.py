"""What condor_submit -spool and condor_transfer_data ask: a job's files come to SPOOL, and are fetched from there.

The bytes go to and from the user's file agent; here is decided who may, and what it means for the job.

HTCondor's manual: man pages condor_submit (-spool) and condor_transfer_data.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Sequence
from typing import Final

from daemons.schedd.core.core import Core
from daemons.schedd.core.selection import Chosen, may_manage
from daemons.schedd.files.agents import Agents
from daemons.schedd.queue.policy_timer import PolicyTimer
from pool.base.errors import PoolError, UserError
from pool.base.ids import JobId
from pool.classad import ClassAd, Member
from pool.files.spool import PREFIX, PUT_ASIDE, SPOOLED, is_spooled, spooled
from pool.jobs.changes import Changes
from pool.jobs.queue.cluster import Job
from pool.jobs.userlog import event_log
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.states import JobStatus
from protocol.messages.agent import OpenTransfer
from protocol.messages.schedd import CloseSpool, FetchSpool, OpenSpool, SpooledJobs, SpoolFetched, SpoolOpened
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.ticket import ANY_PEER, Bearer, digest_of, new_secret
from protocol.wire.codec import pack_ads
from protocol.wire.message import DONE, Done

ADS_PER_CHUNK: Final = 500
DONE_REASON: Final = "Data files spooled"


def put_logs_aside(ads: Iterable[ClassAd]) -> None:
    """Until a spooled job's files are here, nobody writes to a log that its user may have on another machine."""
    for ad in ads:
        for name in PUT_ASIDE:
            if name.lower() in ad.attrs:
                ad[PREFIX + name] = ad[name]
                del ad[name]


class Spool:
    """The handlers of condor_submit -spool and of condor_transfer_data."""

    def __init__(self, core: Core, timer: PolicyTimer, agents: Agents) -> None:
        self._core = core
        self._agents = agents
        self._timer = timer

    def answers(self) -> list[Answer]:
        """Files of jobs that are spooled."""
        return [
            answer(OpenSpool, self.open),
            answer(CloseSpool, self.close),
            answer(FetchSpool, self.fetch),
            answer(SpoolFetched, self.fetched),
        ]

    # ---- input

    async def open(self, peer: Peer, request: OpenSpool) -> SpoolOpened:
        """Make room for the input of new jobs."""
        jobs = [self._job_of(peer, id) for id in request.jobs]
        owner = _owner_of(jobs)
        for job in jobs:
            if self._core.queue.ad(job).eval_int("HoldReasonCode", 0) != HoldCode.SPOOLING_INPUT:
                raise UserError(f"job {job.id} does not wait for files")
            self._set(job, {"StageInStart": int(self._core.now())})
        address, ticket = await self._open(peer, owner, jobs, "stage_in")
        return SpoolOpened(address=address, ticket=ticket)

    async def close(self, peer: Peer, request: CloseSpool) -> Done:
        """The input is here: the jobs may run; or it never will be, and they go."""
        core = self._core
        owners: set[str] = set()
        for id in request.jobs:
            job = self._job_of(peer, id)
            owners.add(job.cluster.owner)
            await self._agents.of(job.cluster.owner).close_transfer(_activation(job))
            ad = core.queue.ad(job)
            if is_spooled(ad):
                continue  # asked again
            if request.failed:
                core.remove(job, f"Staging of job files failed: {request.failed}")
                continue
            self._set(job, spooled(ad, core.directories.path_of(job.id), core.now()))
            self._log_what_was_not(job)
            core.release(job, DONE_REASON)
        last_event = core.queue.next_event - 1
        await core.writer.durable()
        for owner in owners:
            await self._agents.wait(owner, last_event)  # whoever has spooled a job can read its log
        return DONE

    def _log_what_was_not(self, job: Job) -> None:
        """Only now is there a log to write to."""
        core, ad = self._core, self._core.queue.ad(job)
        submitted = event_log.Submitted(
            core.start.address,
            attributes=event_log.submit_notes(ad),
            log_notes=ad.eval_str("SubmitEventNotes", ""),
            user_notes=ad.eval_str("SubmitEventUserNotes", ""),
        )
        core.write(job, submitted, ad.eval_float("QDate", core.now()))
        held = event_log.Held(ad.eval_str("HoldReason", ""), ad.eval_int("HoldReasonCode", 0), 0)
        core.write(job, held, ad.eval_float("QDate", core.now()))

    # ---- output

    async def fetch(self, peer: Peer, request: FetchSpool) -> SpooledJobs:
        """Let the caller have what his jobs left here."""
        core = self._core
        chosen, mine = Chosen.read(request.select), may_manage(core, peer)
        jobs = [job async for job in chosen.find(core.queue) if mine(job) and is_spooled(core.queue.ad(job))]
        if not jobs:
            return SpooledJobs()
        owner = _owner_of(jobs)
        for job in jobs:
            if job.status in (JobStatus.COMPLETED, JobStatus.REMOVED):
                self._set(job, {"StageOutStart": int(core.now())})
        address, ticket = await self._open(peer, owner, jobs, "stage_out")
        ads = [core.queue.ad(job).flat() for job in jobs]
        chunks = [pack_ads(ads[at : at + ADS_PER_CHUNK]) for at in range(0, len(ads), ADS_PER_CHUNK)]
        return SpooledJobs(address=address, ticket=ticket, ads=chunks)

    async def fetched(self, peer: Peer, request: SpoolFetched) -> Done:
        """The caller has it: what is over may leave."""
        core = self._core
        for id in request.jobs:
            job = core.queue.get(id)
            if job is None or not may_manage(core, peer)(job):
                continue
            await self._agents.of(job.cluster.owner).close_transfer(_activation(job))
            if "StageOutStart" in core.queue.ad(job):
                self._set(job, {"StageOutFinish": int(core.now())})
                self._timer.look_at(job)
        await core.writer.durable()
        return DONE

    # ---- both

    def _job_of(self, peer: Peer, id: JobId) -> Job:
        job = self._core.queue.get(id)
        if job is None or not may_manage(self._core, peer)(job):
            raise UserError(f"{peer.identity} has no job {id} here")
        return job

    def _set(self, job: Job, attributes: dict[str, Member]) -> None:
        self._core.apply(job, Changes(attributes))

    async def _open(self, peer: Peer, owner: str, jobs: list[Job], use: str) -> tuple[str, str]:
        """One ticket for the files of all these jobs, and where their user's agent is."""
        core = self._core
        ticket = new_secret()
        digest = digest_of(ticket)
        label = f"{use}-{digest[:8]}"
        bearer, is_local = self._bearer(peer, owner)
        address = ""
        peer.on_close(lambda _: self._abandon(jobs))  # also when only some of them could be opened
        for job in jobs:
            request = OpenTransfer(
                activation=_activation(job),
                digest=digest,
                bearer=bearer,
                job_id=job.id,
                job_ad=core.queue.ad(job).flat(),
                claim=label,
                use=use,
                spool=core.directories.make(job.id, owner),
                directories=[core.directories.path_of(job.id)],
            )
            address = await self._agents.of(owner).open_transfer(request)
        return core.agent_address(address, local=is_local), ticket

    def _bearer(self, peer: Peer, owner: str) -> tuple[Bearer, bool]:
        """Who may show the ticket: the account that asks, or who asks over TLS; and whether over the unix socket.

        The socket of another's agent opens to its user and to root alone; who else may have the files takes the port.
        """
        credentials = peer.link.credentials
        if credentials is None:
            return Bearer(duty=ANY_PEER), False
        is_local = os.geteuid() != 0 or credentials.uid in (0, _uid_of(owner)) or not self._core.start.port_address
        return Bearer(uids=[credentials.uid], duty="" if is_local else ANY_PEER), is_local

    def _abandon(self, jobs: list[Job]) -> None:
        """Whoever asked is gone: nothing more moves."""
        self._core.tasks.start(self._close_all, jobs)

    async def _close_all(self, jobs: list[Job]) -> None:
        for job in jobs:
            try:
                await self._agents.of(job.cluster.owner).close_transfer(_activation(job))
            except PoolError as error:
                self._core.log.full(f"Closing the transfer of {job.id}: {error}")


def _uid_of(owner: str) -> int | None:
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        return None


def _activation(job: Job) -> str:
    return f"{SPOOLED}{job.id}"


def _owner_of(jobs: Sequence[Job]) -> str:
    """Whose jobs these are; UserError when they are several users', or none at all."""
    owners = sorted({job.cluster.owner for job in jobs})
    if len(owners) > 1:
        raise UserError(f"these jobs belong to several users ({', '.join(owners)}): name one user's at a time")
    if not owners:
        raise UserError("no job is named", expected="one or more jobs of one user")
    return owners[0]
