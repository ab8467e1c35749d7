"""What a starter is given to run a job with: the job's ad as this slot sees it, and a way to the job's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from daemons.schedd.core.core import Core
from pool.base.errors import PoolError
from pool.classad import ClassAd
from pool.execute.plan import wants_transfer
from pool.execute.remote_io import wants_remote_io
from pool.files.checkpoint import keeps_checkpoints
from pool.files.dataflow import may_be_skipped
from pool.jobs.limit_directories import directories_of
from pool.jobs.match_exprs import with_exprs
from pool.jobs.queue.cluster import Job
from pool.jobs.vocabulary.nodes import for_node
from pool.jobs.vocabulary.own_attributes import without_own
from protocol.messages.agent import OpenTransfer
from protocol.messages.startd import ActivateAnswer, ActivateClaim

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim
    from daemons.schedd.files.agents import Agents


ANSWER_S: Final = 1800.0
"""How long a startd may take to start a job: the claim's starter may still have to clean up after the one before."""
EXPANDED: Final = "MATCH_EXP_"
"""How attributes of a job that runs begin which have what became of `$$(Attr)`."""


class Activation:
    """One execution's; `expanded` is what became of `$$(Attr)`."""

    __slots__ = ("_activation", "_agents", "_claim", "_claims", "_core", "_expanded", "_job", "moves_files")

    def __init__(
        self,
        core: Core,
        claims: Claims,
        agents: Agents,
        claim: Claim,
        job: Job,
        activation: str,
        expanded: Mapping[str, object],
    ) -> None:
        self._core = core
        self._claims = claims
        self._agents = agents
        self._claim = claim
        self._job = job
        self._activation = activation
        self._expanded = expanded
        self.moves_files = False
        """Its starter may move files."""

    async def order(self) -> Callable[[str], ActivateClaim]:
        """What starts the job, its files' way included, of the claim's id."""
        claim, job = self._claim, self._job
        ad = self.job_ad()
        address, ticket = "", ""
        if self._wants_files(ad):
            address, ticket = await self._open_transfer(ad)
        local, concluded = self._claims.startd(claim.startd).is_local, claim.life.is_concluded
        return lambda id: ActivateClaim(
            claim_id=id,
            activation=self._activation,
            job_id=job.id,
            job_ad=ad,
            shadow_address=self._claims.shadow_address(claim),
            ticket=claim.ticket.secret,
            agent_address=self._core.agent_address(address, local=local),
            agent_ticket=ticket,
            concluded=concluded,
        )

    async def ask(self, order: Callable[[str], ActivateClaim]) -> ActivateAnswer:
        """What the startd says to the order, once its starter has finished with the job before."""
        startd = self._claims.startd(self._claim.startd)
        return await startd.call(self._claim, order, timeout=ANSWER_S)

    def job_ad(self) -> ClassAd:
        """The job as its starter and its file agent see it."""
        ad = with_exprs(self._core.queue.ad(self._job).flat(), self._claim.exprs)
        for name, value in without_own(self._expanded).items():
            ad[name] = value
        return ad if self._claim.node is None else for_node(ad, self._claim.node)

    async def _open_transfer(self, ad: ClassAd) -> tuple[str, str]:
        """Let the starter move the job's files."""
        ticket = self._claim.files_ticket
        core = self._core
        request = OpenTransfer(
            activation=self._activation,
            digest=ticket.digest,
            bearer=self._claims.startd(self._claim.startd).starters,
            job_id=self._job.id,
            job_ad=ad,
            claim=self._claim.public,
            spool=core.directories.make(self._job.id, self._job.cluster.owner) if keeps_checkpoints(ad) else "",
            input_max_mb=_limit(ad, "MaxTransferInputMB", core.settings.input_max_mb),
            output_max_mb=_limit(ad, "MaxTransferOutputMB", core.settings.output_max_mb),
            directories=directories_of(core.settings.limit_directories, ad, core.directories.path_of(self._job.id)),
        )
        self.moves_files = True
        return await self._agents.of(self._job.cluster.owner).open_transfer(request), ticket.secret

    async def close_transfer(self) -> None:
        """No files of this execution will move any more."""
        try:
            await self._agents.of(self._job.cluster.owner).close_transfer(self._activation)
        except PoolError as error:
            self._core.log.full(f"Closing the transfer of {self._activation}: {error}")

    async def may_be_skipped(self) -> bool:
        """Whether the job asked to be left out when its output is newer than its input, and it is."""
        ad = self.job_ad()
        if not ad.eval_bool("SkipIfDataflow", False):
            return False
        skipped = may_be_skipped(ad) and await self._agents.of(self._job.cluster.owner).is_up_to_date(ad)
        self._core.queue.change(self._job, {"DataflowJobSkipped": skipped})
        return skipped

    async def take_up(self) -> None:
        """Let the starter of an earlier life of the schedd move files again."""
        ad = self._core.queue.ad(self._job)
        self._expanded = {name[len(EXPANDED) :]: value for name, value in ad.items() if name.startswith(EXPANDED)}
        ad = self.job_ad()
        if not self._wants_files(ad):
            return
        try:
            await self._open_transfer(ad)
        except PoolError as error:
            self._core.log.always(f"The files of job {self._job.id} cannot move: {error}")

    def _wants_files(self, ad: ClassAd) -> bool:
        return wants_files(ad, self._claim.slot_ad)


def wants_files(job: ClassAd, slot: ClassAd) -> bool:
    """Whether a job's starter has to do with its owner's file agent."""
    return wants_transfer(job, slot) or wants_remote_io(job) or job.eval_bool("WantIOProxy", False)


def _limit(job: ClassAd, name: str, general: int) -> int:
    """How many megabytes of a job's files may move: what the job says, else what the access point says."""
    value = job.eval(name) if name in job else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else general
