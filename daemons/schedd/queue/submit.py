"""Takes new jobs: checked, made durable in one transaction, their submit events written, and only then acknowledged.

HTCondor's manual: users-manual/submitting-a-job, man page condor_submit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from daemons.base.faults import fault
from daemons.base.no_garbage import no_garbage
from daemons.base.pace import Pace
from daemons.schedd.core.core import Core
from daemons.schedd.core.selection import owner_of
from daemons.schedd.core.sizes import check_new
from daemons.schedd.files.agents import Agents
from daemons.schedd.queue.factories import Factories
from daemons.schedd.queue.new_jobs import SubmitEvents, check_limits, new_cluster, new_job, new_jobs
from daemons.schedd.queue.spool import put_logs_aside
from daemons.schedd.queue.users import Users
from pool.ads.limits import size_of
from pool.base.errors import SubmitError
from pool.classad import ClassAd
from pool.classad.eval.budget import Overruns
from pool.jobs.queue import job_sets
from pool.jobs.queue.cluster import Cluster, Job, NewJobs
from pool.jobs.vocabulary.hold_codes import HoldCode
from pool.jobs.vocabulary.nodes import dedicated_scheduler, is_gang, is_part
from protocol.messages.submit import ReserveCluster, ReservedCluster, SubmitJobs, Submitted
from protocol.network import turns
from protocol.rpc.connection import FRAME_BYTES_MAX
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.ad_table import AdTable, unpack_table
from protocol.wire.codec import NEW_TEXT_MAX

PROCS_PER_CHUNK_MAX: Final = 500
MANY_CHUNKS: Final = 20
ONE_WITHOUT_ATTRIBUTES: Final = b"\x91\x80"
"""A chunk (msgpack) of one job that says nothing of its own: `queue` alone."""
RESERVED_MAX: Final = 10_000
DEAR_MOST: Final = 20
"""Evaluations for one submission that may cost much: those of transforms and of requirements for submission."""
BREATH: Final = 1000
"""Jobs that are dealt with before others get their turn."""


COMMITTED: Final = "Committed job submission into the queue with the following warning(s):"
IGNORED: Final = "only the schedd sets these attributes of a job; what the submission says of them is ignored: "


class Gate:
    """What the access point makes of a cluster's jobs before they are in the queue."""

    def __init__(self, core: Core, cluster: Cluster, ignored: Sequence[str], own_ad: Callable[[], ClassAd]) -> None:
        self._rules = core.settings.admission
        self._edits = core.settings.edits
        self._charging = core.settings.charging
        self._complain = core.log.always
        self._cluster = cluster
        self._before = cluster.ad
        self._touched: set[str] = set()
        self._schedd = own_ad() if self._rules.requirements else ClassAd()
        self._ignored = dict.fromkeys(ignored)
        self.warning = ""
        if not self._rules.transforms:
            self.charge_cluster()

    def ignore(self, names: Iterable[str]) -> None:
        """The submitter shall hear that what he says of these attributes is not believed."""
        self._ignored.update(dict.fromkeys(names))

    def lets_through(self, table: AdTable) -> bool:
        """Whether nothing is to be done with the jobs of this table."""
        return not self._rules and not table.shared and not self._edits.concern(table.names)

    def pass_through(self, own: ClassAd, proc: int) -> None:
        """Change a job's own attributes; SubmitError when the job is refused."""
        rules, cluster = self._rules, self._cluster
        self.ignore(self._edits.submitted(own, cluster.ad))
        own["ProcId"] = proc
        if rules.transforms:
            if not proc:
                cluster.ad = self._before.copy()
                self._touched = rules.transform_cluster(cluster.ad, own, self._complain)
                self.charge_cluster()
            rules.transform_job(own, self._before, cluster.ad, self._touched, self._complain)
            self._edits.submitted(own, cluster.ad)
        if rules.requirements:
            own.parent = cluster.ad
            self.warning = rules.judge(own, self._schedd) or self.warning

    def charge_cluster(self) -> None:
        """Settle whom the cluster's jobs are charged to; SubmitError when the submitter may not say that."""
        cluster = self._cluster
        self._charging.settle(cluster.ad, owner=cluster.owner, user=cluster.user)

    @property
    def ignored(self) -> list[str]:
        """A warning for the submitter about what the schedd does not believe, if there is anything."""
        return [IGNORED + ", ".join(sorted(self._ignored))] if self._ignored else []


class Submits:
    """The handler of submissions."""

    def __init__(
        self, core: Core, factories: Factories, users: Users, agents: Agents, own_ad: Callable[[], ClassAd]
    ) -> None:
        self._core = core
        self._users = users
        self._agents = agents
        self._own_ad = own_ad
        self._factories = factories
        self._reserved: dict[int, str] = {}

    def answers(self) -> list[Answer]:
        """New jobs."""
        return [
            answer(SubmitJobs, self.submit, bytes_max=FRAME_BYTES_MAX),
            answer(ReserveCluster, self.reserve),
        ]

    async def reserve(self, peer: Peer, request: ReserveCluster) -> ReservedCluster:
        """Give out an id; one that is never used is lost, and no harm done."""
        # Oldest first: a tool that reserves an id and never comes back must not keep others from theirs.
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
        with no_garbage(when=len(request.procs) >= MANY_CHUNKS):
            return await self._submit(peer, request)

    async def _submit(self, peer: Peer, request: SubmitJobs) -> Submitted:
        core = self._core
        owner = owner_of(peer)
        self._users.check(owner)
        cluster, ignored = new_cluster(
            request.cluster_ad, owner=owner, user=peer.identity, now=int(core.now()), edits=core.settings.edits
        )
        if is_gang(cluster.ad):
            cluster.ad["Scheduler"] = dedicated_scheduler(core.settings.name)
        sizes = core.settings.ad_limits
        sizes.check(cluster.ad, "the cluster's ad")
        if request.hold_for_spool:
            put_logs_aside([cluster.ad])
        gate = Gate(core, cluster, ignored, self._own_ad)
        if request.factory:
            if is_gang(cluster.ad):
                raise SubmitError("the nodes of a parallel job are made at once", expected="no max_materialize")
            return await self._submit_factory(peer, request, cluster, gate)
        costs = Overruns(DEAR_MOST)
        jobs = await self._make_jobs(request, cluster, gate, costs)
        sizes.check(cluster.ad, "the cluster's ad, as the access point changes it,")
        cluster.id = self._id_for(peer, request.cluster)
        cluster.ad["ClusterId"], cluster.ad["TotalSubmitProcs"] = cluster.id, len(jobs)
        pace, events, new = Pace(), SubmitEvents(core, cluster), NewJobs(cluster)
        step = 1 if events.are_several(jobs) else BREATH
        for at in range(0, len(jobs), step):
            some = jobs[at : at + step]
            with costs:
                events.add([job for job in some if not is_part(cluster.ad, job.proc)], gate.warning)
            new.add(some)
            await pace.breathe()
        check_limits(core, owner, len(jobs))
        fault("schedd.before_submit_commit")
        self._join_set(cluster, request)
        core.queue.enter(new)
        events.write()
        return await self._answer(cluster, jobs, len(jobs), gate.warning, gate.ignored)

    async def _make_jobs(self, request: SubmitJobs, cluster: Cluster, gate: Gate, costs: Overruns) -> list[Job]:
        """The jobs of a submission, in no queue yet; SubmitError when one of them is refused."""
        core, jobs, pace = self._core, list[Job](), Pace()
        own_bytes = size_of(cluster.ad.attrs)
        for chunk in request.procs or [ONE_WITHOUT_ATTRIBUTES]:
            table, before = self._procs(chunk, len(jobs)), len(jobs)
            alike = None
            if isinstance(table, AdTable) and not request.hold_for_spool and gate.lets_through(table):
                alike = new_jobs(cluster, table, len(jobs))
            for own in () if alike is not None else table.ads() if isinstance(table, AdTable) else table:
                with costs:
                    gate.pass_through(own, len(jobs))
                    if request.hold_for_spool:
                        put_logs_aside([own])
                    charging, held = core.settings.charging, request.hold_for_spool
                    jobs.append(new_job(cluster, own, len(jobs), charging, hold_for_spool=held))
                await pace.breathe()
            jobs += alike or ()
            # After each chunk: what is too much costs no more than the chunk that shows it.
            own_bytes += check_new(core, cluster, jobs[before:], own_bytes)
            check_limits(core, cluster.owner, len(jobs))
            await turns.of_loop().give_way()
        return jobs

    def _join_set(self, cluster: Cluster, request: SubmitJobs) -> None:
        if self._core.settings.job_sets:
            job_sets.join(cluster, self._core.queue.clusters.values(), request.jobset)

    async def _submit_factory(self, peer: Peer, request: SubmitJobs, cluster: Cluster, gate: Gate) -> Submitted:
        """Queue a cluster whose jobs are made one after another, and the first of them."""
        core = self._core
        if request.hold_for_spool:
            raise SubmitError("files cannot be spooled for jobs that are made later (max_materialize, max_idle)")
        if not core.settings.late_materialization:
            raise SubmitError("jobs that are made later (max_materialize, max_idle) are not allowed here")
        check_limits(core, cluster.owner, 1)
        cluster.id = self._id_for(peer, request.cluster)
        cluster.ad["ClusterId"] = cluster.id
        self._join_set(cluster, request)
        jobs, total, warning, ignored = self._factories.begin(cluster, request.factory)
        gate.ignore(ignored)
        fault("schedd.before_submit_commit")
        answer = await self._answer(cluster, jobs, total, warning, gate.ignored)
        self._factories.look_at(cluster)
        return answer

    async def _answer(
        self, cluster: Cluster, jobs: Sequence[Job], total: int, warning: str, ignored: Sequence[str]
    ) -> Submitted:
        """Once all is durable and logged."""
        core = self._core
        last_event = core.queue.next_event - 1
        core.stats["JobsSubmitted"] += len(jobs)
        for at in range(0, len(jobs), BREATH):
            # They may be matched meanwhile. None runs before its execution is durable, and with that the job (P2).
            await core.settle_new(jobs[at : at + BREATH])
            await turns.of_loop().give_way()
        await core.writer.after_words()
        fault("schedd.submit_announced")
        await core.writer.durable()
        fault("schedd.after_submit_commit")
        await self._agents.wait(cluster.owner, last_event)
        fault("schedd.before_submit_answer")
        core.log.full(f"Submitted {len(jobs)} jobs of {cluster.user}.", cluster=cluster.id)
        return Submitted(cluster=cluster.id, count=total, warnings=[*ignored, *self._warnings(jobs, warning)])

    @staticmethod
    def _procs(chunk: bytes, made: int) -> AdTable | list[ClassAd]:
        found = unpack_table(chunk, new_text_max=NEW_TEXT_MAX)
        count = found.rows if isinstance(found, AdTable) else len(found)
        if count > PROCS_PER_CHUNK_MAX:
            raise SubmitError(f"{count} jobs in one chunk (after {made} others)", expected=f"{PROCS_PER_CHUNK_MAX}")
        return found

    def _warnings(self, jobs: Sequence[Job], warning: str) -> list[str]:
        """What went wrong with jobs that are nevertheless in the queue: a log that cannot be written, first of all."""
        said = [COMMITTED, warning] if warning else []
        for job in jobs[:1]:
            ad = self._core.queue.ad(job)
            if ad.eval_int("HoldReasonCode", 0) == HoldCode.UNABLE_TO_INIT_USER_LOG:
                said.append(ad.eval_str("HoldReason", ""))
        return said
