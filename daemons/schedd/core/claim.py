"""One slot that this schedd holds, or is about to: what is known of it, and what it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from pool.accounting.limits import NONE, Limits
from pool.ads.alike import AlikeAd
from pool.base.ids import ClaimId
from pool.classad import ClassAd, Member
from pool.jobs.claims.states import ClaimLife
from pool.jobs.queue.pack import pack
from pool.jobs.queue.store import ClaimRow, ClaimWork
from protocol.rpc.endpoints import Peer
from protocol.security.ticket import digest_of, new_secret

if TYPE_CHECKING:
    from daemons.schedd.claims.run_now import RunNowWish
    from daemons.schedd.execution.shadow import Shadow


VACATE_DEFAULT_S: Final = 600.0
SLICE: Final = "NegotiatorSlice"
"""Where a claim's slice is kept: in the ad of its slot."""
NODE_OF_CLAIM: Final = "ParallelNode"
"""Where it is kept, in the same ad, which node of a parallel job a claim runs."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A ticket of our making: what is kept of it, and the secret itself, "" when only an earlier life has known it."""

    digest: str
    secret: str = field(default="", repr=False)

    @classmethod
    def new(cls) -> Pass:
        """One that was never used before."""
        secret = new_secret()
        return cls(digest_of(secret), secret)


@dataclass(eq=False, slots=True)
class Claim:
    """One slot that we hold, or are about to."""

    public: str
    """Its name in logs and messages."""
    digest: str
    """What its startd knows it by after a restart of this schedd: of the id that it was granted with."""
    id: ClaimId | None
    """None: an earlier life of this schedd has known it; the startd gives another."""
    startd: str
    submitter: str
    owner: str
    slot: AlikeAd
    ticket: Pass
    """Its starter's, for this schedd."""
    files_ticket: Pass
    """Its starter's, for the owner's file agent."""
    alive_s: float
    life: ClaimLife
    """What has become of it: `Claims.happens` alone changes that."""
    shadow: Shadow | None = None
    starter: Peer | None = None
    weight: float = 1.0
    """What the slot counts for in what its submitter holds."""
    limits: Limits = field(default_factory=lambda: NONE)
    """What its jobs use of concurrency limits."""
    rank: float = 0.0
    """What the slot thinks of the job that it was claimed for: it takes none that it thinks less of."""
    fits: dict[int, bool] = field(default_factory=dict)
    """Whether jobs of an autocluster and the slot want each other, where that never changes."""
    exprs: Mapping[str, Member] = field(default_factory=dict)
    """What the negotiator puts into the ads of the jobs that run here (NEGOTIATOR_MATCH_EXPRS)."""
    room: tuple[str, ...] = ()
    """Ids of dynamic slots that have to end before there is room for it."""
    pool: str = ""
    """The pool that its job flocks to, as FLOCK_COLLECTOR_HOSTS names it; "" at home."""
    slice: str = ""
    """Of which slice of the pool's slots it is, where several negotiators divide them."""
    wish: RunNowWish | None = None
    """A job that shall have the slot next (condor_now)."""
    node: int | None = None
    """Which node of a parallel job it runs."""
    _asking: trio.Lock | None = field(default=None, init=False)

    @property
    def asking(self) -> trio.Lock:
        """Held by who asks its startd after it."""
        if self._asking is None:
            self._asking = trio.Lock()
        return self._asking

    @property
    def slot_ad(self) -> ClassAd:
        """The slot as its startd has described it."""
        return self.slot.ad()

    def describe(self, slot: ClassAd) -> None:
        """The slot as its startd describes it now; what the negotiator has said with the match is kept with it."""
        said = {**self.exprs, **({"RemotePool": self.pool} if self.pool else {})}
        if self.slice:
            said[SLICE] = self.slice
        if self.node is not None:
            said[NODE_OF_CLAIM] = self.node
        self.slot = AlikeAd(ClassAd(said, parent=slot) if said else slot)

    @property
    def slot_name(self) -> str:
        """The slot's name."""
        return self.slot_ad.eval_str("Name", "")

    def vacate_s(self, job: ClassAd) -> float:
        """How long a job may take to leave the slot, by its own word and the machine's."""
        asked = job.eval_float("JobMaxVacateTime", VACATE_DEFAULT_S)
        return max(0.0, min(asked, self.slot_ad.eval_float("MachineMaxVacateTime", VACATE_DEFAULT_S)))

    def meet(self, starter: Peer) -> None:
        """The claim's starter is on this connection, for one job after another."""
        if self.starter is not starter:
            self.starter = starter
            starter.on_close(self._starter_gone)

    def _starter_gone(self, starter: Peer) -> None:
        if self.starter is starter:
            self.starter = None
        if self.shadow is not None:
            self.shadow.starter_gone(starter)

    def work(self) -> ClaimWork:
        """What it does now, as the store keeps it."""
        shadow, life = self.shadow, self.life
        if shadow is None:
            return ClaimWork(None, None, life.unreported, life.renewed_at, life.lease_s, self.public)
        job = shadow.job
        return ClaimWork(job.cluster.id, job.proc, shadow.activation, life.renewed_at, life.lease_s, self.public)

    def row(self) -> ClaimRow:
        """As the store keeps it when it is new."""
        return ClaimRow(
            claim=self.public,
            digest=self.digest,
            startd=self.startd,
            submitter=self.submitter,
            owner=self.owner,
            slot_ad=pack(self.slot_ad).text,
            ticket=self.ticket.digest,
            files_ticket=self.files_ticket.digest,
            lease_s=self.life.lease_s,
            alive_s=self.alive_s,
            renewed_at=self.life.renewed_at,
            cluster=None,
            proc=None,
            activation="",
        )
