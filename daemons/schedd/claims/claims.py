"""The slots that this schedd holds: how it gets them, puts them to work, hears of them, and gives them back.

A claim runs one job after another: when one ends, the next that fits (`next_job`) takes its place
in the same transaction; when there is none the slot goes back.

HTCondor's manual: admin-manual/ep-policy-configuration ("Claimed"), users-manual/special-environment-considerations
("Job Leases"), admin-manual/configuration/schedd (ALIVE_INTERVAL, MAX_JOBS_RUNNING).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from daemons.base.faults import fault
from daemons.daemon_core.locate import nearest
from daemons.schedd.claims.early import early_order, still_right
from daemons.schedd.claims.gangs import Gangs
from daemons.schedd.claims.giving_back import give_back
from daemons.schedd.claims.making import of_match, of_row
from daemons.schedd.claims.next_job import begin, keep_idle, next_job
from daemons.schedd.claims.pass_on import pass_on, said
from daemons.schedd.claims.run_now import coalesce
from daemons.schedd.claims.startd_link import StartdLink
from daemons.schedd.core.claim import NODE_OF_CLAIM, Claim, Pass
from daemons.schedd.core.core import Core, whole
from daemons.schedd.execution.gang import Gang
from daemons.schedd.execution.shadow import Shadow
from pool.base.errors import PoolError
from pool.base.ids import ClaimId
from pool.classad import ClassAd
from pool.jobs.claims.events import (
    Event,
    GivenUp,
    Granted,
    Held,
    NotHeld,
    Refused,
    Renewed,
    Unneeded,
)
from pool.jobs.claims.states import ClaimLife
from pool.jobs.claims.step import step
from pool.jobs.claims.table import Effect
from pool.jobs.match_exprs import with_exprs
from pool.jobs.queue.cluster import Job
from pool.jobs.queue.store import ClaimRow
from pool.jobs.vocabulary.hold_codes import VacateCode
from pool.jobs.vocabulary.nodes import is_gang
from pool.slots.lease import ALIVE_MIN_S, alive_interval
from protocol.messages.offers import ClaimChanged, JobUsed, OfferedMatch
from protocol.messages.startd import ClaimAnswer, Coalesced, EarlyOrder, ReconnectAnswer, RequestClaim
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, Service, answer
from protocol.security import needs
from protocol.security.authorize import Level
from protocol.wire.address import Address
from protocol.wire.message import Record, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from daemons.schedd.files.agents import Agents


class Claims:
    """All claims, by their public ids."""

    def __init__(self, core: Core, agents: Agents) -> None:
        self.core = core
        self._agents = agents
        self._claims: dict[str, Claim] = {}
        self._startds: dict[str, StartdLink] = {}
        self._alive_s = core.settings.alive_interval_s
        self._refused: dict[Job, int] = {}
        self._asking: set[Job] = set()
        """Jobs for which a slot has been asked and not granted yet."""
        self.gangs = Gangs(self)
        self.service = Service("schedd", needs.SCHEDD_TO_STARTD)
        self.stopping = False
        self.idle: set[trio.Event] = set()
        """Set when there is work: slots that are kept idle for it (keep_claim_idle) wait for these."""

    def answers(self) -> list[Answer]:
        """What startds say of our claims, on connections that the schedd makes."""
        return [answer(ClaimChanged, self.changed), answer(JobUsed, self.used)]

    def __len__(self) -> int:
        return len(self._claims)

    def work_changed(self, more: bool) -> None:
        """Slots that are kept idle may have something to do."""
        if more:
            for news in self.idle:
                news.set()

    def new_shadow(self, claim: Claim, job: Job, activation: str, expanded: dict[str, object]) -> Shadow:
        """An execution of the job under the claim."""
        return Shadow(self.core, self, self._agents, claim, job, activation, expanded)

    def new_gang(self, job: Job) -> Gang:
        """The executions of a parallel job's nodes, of which there are none yet."""
        return Gang(self.core, self, self._agents, whole(job))

    def all(self) -> Iterable[Claim]:
        """Every claim."""
        return list(self._claims.values())

    def has(self, claim_id: str) -> bool:
        """Whether this is the id of a claim that is held, or is being asked for."""
        return ClaimId(claim_id).public() in self._claims

    def startd(self, address: str) -> StartdLink:
        """The startd at an address."""
        found = self._startds.get(address)
        if found is None:
            found = self._startds[address] = StartdLink(address, self)
        return found

    def reach(self, address: str) -> Address:
        """The way to a startd: through its unix socket when it is on this host."""
        return nearest(self.core.start.config, address)

    # ---- getting claims

    def take(self, match: OfferedMatch, pool: str = "", slice: str = "") -> bool:
        """Use a match for the job that is next in its autocluster; False when none waits or no more may run."""
        core = self.core
        if self.is_full:
            return False
        id = ClaimId(match.claim_id)
        job = core.waiting.next(match.submitter, match.autocluster)
        if job is None or id.public() in self._claims:
            return False
        if is_gang(job.cluster.ad):
            return self.gangs.take(match, job, pool, slice)
        claim = self.reserve(match, job, pool, slice)
        job.busy = True  # reserved; `work` makes an execution of it, or lets it go
        core.waiting.discard(job)
        self._asking.add(job)
        fault("schedd.match_taken")
        core.tasks.start(self._guarded, claim, job, partial(self._request, claim, job))
        return True

    def reserve(self, match: OfferedMatch, job: Job, pool: str, slice: str) -> Claim:
        """The claim that a match becomes; it is still to be asked for."""
        core = self.core
        self._alive_s = alive_interval(self._alive_s, core.queue.ad(job).eval_float("JobLeaseDuration", 0.0))
        claim = of_match(core, match, job, self._alive_s, pool, slice)
        self._claims[claim.public] = claim
        core.holdings_in(claim.pool).reserve(claim)
        return claim

    def lease_for(self, claim: Claim, job: ClassAd) -> float:
        """The lease of a job that the claim is to run (0: it has none), which is renewed in time from now on."""
        lease_s = job.eval_float("JobLeaseDuration", 0.0)
        self._alive_s = alive_interval(self._alive_s, lease_s)
        if lease_s > 0 and (alive_s := alive_interval(claim.alive_s, lease_s)) < claim.alive_s:
            claim.alive_s = alive_s
            self.startd(claim.startd).renew_within(alive_s)
        return lease_s

    @property
    def is_full(self) -> bool:
        """Whether no more jobs may run than do, or shall as soon as their slots are granted."""
        return self.room <= 0

    @property
    def room(self) -> int:
        """How many more jobs may run."""
        running = len(self.core.executions.shadow_of) + len(self._asking)
        return 0 if self.stopping else self.core.settings.jobs_running_max - running

    async def _guarded(self, claim: Claim, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        """An error that nobody foresaw costs the claim and puts its job on hold; the schedd goes on."""
        try:
            await work()
        except Exception as error:
            core = self.core
            core.log.always(f"Claim {claim.public} is given up, for job {job.id} cannot be run under it")
            shadow, claim.shadow = claim.shadow, None
            if shadow is not None:
                job = shadow.job
                core.executions.shadow_of.pop(job, None)
                core.executions.shadows.pop(shadow.activation, None)
                shadow.acknowledge()
            core.queue.set_busy(job, False)
            self._asking.discard(job)
            core.give_up(job, error)
            self.happens(claim, GivenUp())

    async def _request(self, claim: Claim, job: Job) -> None:
        """Claim the slot and put it to work."""
        core = self.core
        core.requested[job] = lambda: self.happens(claim, Unneeded())
        shadow, early = None, early_order(self, self._agents, claim, job)
        with core.executions.expecting(early.activation, claim.public) if early is not None else nullcontext():
            refused = await self.ask_for(claim, job, early)
            core.requested.pop(job, None)
            self._asking.discard(job)
            job.busy = False
            if not refused:
                shadow = self._first(claim, job, early)
        if refused:
            self.refused(claim, job, refused)
        else:
            await self.work(claim, shadow)

    async def ask_for(self, claim: Claim, job: Job, early: EarlyOrder | None = None) -> str:
        """Ask for the slot; why its startd does not grant it, or nothing."""
        assert claim.id is not None
        try:
            startd = self.startd(claim.startd)
            self._let_in(claim)
            answer = await startd.ask_for(self._claim_request(claim, claim.id, job, early))
            fault("schedd.claim_requested")
            refused = "" if answer.granted else answer.reason or "no reason given"
            if not refused and not self._granted(claim, answer):
                refused = "the startd has ended the claim already"
        except PoolError as error:
            refused = str(error)
        if not refused:
            self._refused.pop(job, None)
            self.core.log.full(f"Claimed {claim.slot_name}.", claim=claim.public, job=job.id)
        return refused

    def refused(self, claim: Claim, job: Job, reason: str) -> None:
        """A slot that was asked for was not granted: its job waits a while for another."""
        core = self.core
        core.log.always(f"No claim on {claim.public} for job {job.id}: {reason}")
        self.happens(claim, Refused())
        self._refused[job] = failures = self._refused.get(job, 0) + 1
        self._tell_of_refusal(job, f"{claim.slot_name or 'a slot'} refused the job: {reason}")
        core.cool_down(job, failures)

    def passed(self, job: Job, reason: str) -> None:
        """Nothing suits the job: it waits a while, each time a longer one, and others have their turn."""
        self._refused[job] = failures = self._refused.get(job, 0) + 1
        self.core.log.full(f"Job {job.id}: {reason}", times=failures)
        self._tell_of_refusal(job, reason)
        self.core.cool_down(job, failures)

    def _tell_of_refusal(self, job: Job, reason: str) -> None:
        """Whoever asks why the job waits learns what the slot has said."""
        if job.cluster.jobs.get(job.proc) is job:
            told = {"LastRejMatchReason": reason, "LastRejMatchTime": int(self.core.now())}
            self.core.queue.change(job, told)

    def _granted(self, claim: Claim, answer: ClaimAnswer) -> bool:
        """The slot is ours, unless its startd has thought better of it since."""
        if answer.slot_ad is not None:
            claim.describe(answer.slot_ad)
        if answer.alive_interval_s:
            claim.alive_s = max(ALIVE_MIN_S, answer.alive_interval_s)
        self.happens(claim, Granted(answer.lease_s))
        return claim.life.is_held

    def _keep(self, claim: Claim) -> None:
        """Write the claim down, and keep it alive."""
        self.core.holdings_in(claim.pool).grant(claim, claim.slot_ad)
        self.core.queue.put_claim(claim.row())
        self.startd(claim.startd).add(claim)

    def _let_in(self, claim: Claim) -> None:
        """Let the claim's starter connect."""
        self.core.start.security.tickets.add(
            claim.ticket.digest,
            identity=f"starter@{self.core.settings.uid_domain}",
            levels={Level.READ},
            bearer=self.startd(claim.startd).starters,
            label=claim.public,
        )

    def renew_tickets(self, claim: Claim) -> None:
        """The tickets of an earlier life served the job that ran; the next one's starter gets others."""
        if not claim.ticket.secret:
            self.core.start.security.tickets.revoke(claim.ticket.digest)
            claim.ticket, claim.files_ticket = Pass.new(), Pass.new()
            self._let_in(claim)
            self.core.queue.put_claim(claim.row())

    def serve_node(self, claim: Claim, node: int | None) -> None:
        """The claim is for this node of a parallel job from now on, or for jobs of one slot."""
        slot = claim.slot_ad
        if NODE_OF_CLAIM in slot:
            del slot[NODE_OF_CLAIM]
        claim.node = node
        claim.describe(slot)
        self.core.queue.put_claim(claim.row())

    def shadow_address(self, claim: Claim) -> str:
        """Where the claim's starter finds this schedd."""
        start = self.core.start
        return str(start.socket_path) if self.startd(claim.startd).is_local else start.address

    def begin_coalesced(self, like: Claim, job: Job, made: Coalesced) -> None:
        """A startd has made one slot out of several, among them that of the claim `like`: run the job there."""
        core = self.core
        id = ClaimId(made.claim_id)
        claim = replace(
            like,
            public=id.public(),
            digest=id.digest(),
            id=id,
            ticket=Pass.new(),
            files_ticket=Pass.new(),
            life=ClaimLife(like.life.lease_s, core.now()),
            room=(),
        )
        self._claims[claim.public] = claim
        core.holdings_in(claim.pool).reserve(claim)
        job.busy = False
        self._let_in(claim)
        self._granted(claim, made.answer)
        core.tasks.start(self._guarded, claim, job, partial(self.work, claim, self._first(claim, job)))

    def _claim_request(self, claim: Claim, id: ClaimId, job: Job, early: EarlyOrder | None) -> RequestClaim:
        return RequestClaim(
            claim_id=id,
            job_ad=with_exprs(self.core.queue.ad(job).flat(), claim.exprs),
            schedd_name=self.core.settings.name,
            submitter=claim.submitter,
            lease_s=claim.life.lease_s,
            alive_interval_s=claim.alive_s,
            shadow_address=self.shadow_address(claim),
            ticket=claim.ticket.secret,
            room=list(claim.room),
            early=early,
        )

    def _first(self, claim: Claim, job: Job, early: EarlyOrder | None = None) -> Shadow | None:
        """Begin the job that the slot was claimed for, if it still wants to run, or one like it."""
        core = self.core
        core.settle(job, tell=False)  # it waits no longer than this function takes
        wants = job.group is not None
        core.waiting.discard(job)
        core.work_changed(False)
        if wants:
            is_right = early is not None and still_right(self, claim, job, early)
            shadow = begin(self, claim, job, early.activation if early is not None and is_right else "")
            if shadow is not None:
                return shadow
        return self.next(claim)

    # ---- working under a claim

    def next(self, claim: Claim) -> Shadow | None:
        """Begin what the claim runs next, if there is anything."""
        return next_job(self, claim)

    async def work(self, claim: Claim, shadow: Shadow | None) -> None:
        """Begin this execution, or, where there is none, give the slot to a job that gathers, or back."""
        if shadow is not None:
            await shadow.begin()
        elif claim.wish is None and self.gangs.takes(claim):
            return
        elif claim.wish is None or not await coalesce(self, claim, claim.wish):
            self.happens(claim, Unneeded())

    def carry_on(self, claim: Claim, job: Job, shadow: Shadow | None) -> None:
        """The same, for a claim that has run `job`, in a task of its own."""
        self.core.tasks.start(self._guarded, claim, job, partial(self.work, claim, shadow))

    def goes_on(self, shadow: Shadow) -> None:
        """It is known what came of an execution: conclude it, and see what its claim does next."""
        self.core.tasks.start(self._guarded, shadow.claim, shadow.job, partial(self._conclude, shadow))

    async def _conclude(self, shadow: Shadow) -> None:
        keep_s = self.core.queue.ad(shadow.job).eval_float("KeepClaimIdle", 0.0)
        following = await shadow.conclude()
        if following is None and keep_s > 0 and self.gangs.holder_of(shadow.claim) is None:
            following = await keep_idle(self, shadow.claim, keep_s)
        await self.work(shadow.claim, following)

    def happens(self, claim: Claim, event: Event) -> None:
        """Something has happened to a claim: do what it wants done because of it."""
        was = claim.life
        claim.life, effects = step(was, event, now=self.core.now())
        if claim.life.asks_after and not was.asks_after:
            self.startd(claim.startd).wake()
        for effect in effects:
            match effect:
                case Effect.KEEP:
                    self._keep(claim)
                case Effect.WITHDRAW | Effect.RELEASE:
                    self.core.tasks.start(give_back, self, claim)
                case Effect.PASS_ON if claim.shadow is not None:
                    pass_on(self.core, claim.shadow, event)
                case Effect.FORGET:
                    self._forget(claim)

    async def tell(self, claim: Claim, request: Callable[[str], Request[Record]]) -> str:
        """Ask something of the claim's startd, which `request` makes of the claim's id; what went wrong, or nothing."""
        try:
            await self.startd(claim.startd).call(claim, request)
        except PoolError as error:
            return str(error) or type(error).__name__
        return ""

    def _forget(self, claim: Claim) -> None:
        core = self.core
        self.gangs.lost(claim)
        del self._claims[claim.public]
        self.startd(claim.startd).discard(claim)
        core.holdings_in(claim.pool).discard(claim)
        core.start.security.tickets.revoke(claim.ticket.digest)
        core.queue.drop_claim(claim.public)
        core.work_changed(False)

    # ---- hearing of claims

    def changed(self, peer: Peer, message: ClaimChanged) -> None:
        """A startd did something to a claim."""
        claim = self._claims.get(message.claim)
        if claim is None or not self.startd(claim.startd).speaks(peer):
            return
        self.core.log.full(f"{claim.slot_name}: {message.change.value}: {message.reason}", claim=claim.public)
        self.happens(claim, said(message))

    def used(self, peer: Peer, message: JobUsed) -> None:
        """A startd has looked at a job whose starter rests."""
        claim = self._claims.get(message.claim)
        if claim is None or not self.startd(claim.startd).speaks(peer) or claim.shadow is None:
            return
        if claim.shadow.activation == message.activation:
            claim.shadow.update(claim.shadow.reported(message.ad))

    def renewed(self, claim: Claim) -> None:
        """The startd has heard from us."""
        self.happens(claim, Renewed())
        self._write_work(claim)

    def _write_work(self, claim: Claim) -> None:
        if not claim.life.is_over:
            self.core.queue.claim_works(claim.work())

    def moved(self, claim: Claim, address: str) -> None:
        """The claim's startd has another address."""
        self.startd(claim.startd).discard(claim)
        claim.startd = address
        self._let_in(claim)
        self.core.queue.put_claim(claim.row())
        self.core.queue.claim_works(claim.work())
        self.startd(address).add(claim)

    def came_back(self, claim: Claim, asked: Held, answer: ReconnectAnswer) -> None:
        """The startd can be reached again, and says what it knows of a claim; `asked`: as it was when it was asked."""
        self.happens(claim, replace(asked, activation=answer.activation) if answer.held else NotHeld())
        self._write_work(claim)

    def leave_no_more_than(self, most: int) -> None:
        """MAX_JOBS_RUNNING is lower than it was: the jobs that started last leave."""
        core = self.core
        began = {job: core.queue.ad(job).eval_float("ShadowBday", 0.0) for job in core.executions.shadow_of}
        for job in sorted(began, key=lambda job: began[job])[max(0, most) :]:
            core.vacate(job, "More jobs run than MAX_JOBS_RUNNING allows", VacateCode.SCHEDD_VACATE)

    # ---- at a start

    def recover(self, row: ClaimRow, slot_ad: ClassAd, job: Job | None) -> None:
        """Take up a claim that an earlier life of this schedd held."""
        core = self.core
        claim = of_row(core, row, slot_ad, job)
        self._claims[claim.public] = claim
        core.holdings_in(claim.pool).reserve(claim)
        core.holdings_in(claim.pool).grant(claim, slot_ad)
        self.startd(claim.startd).add(claim)
        if job is None:
            return
        core.queue.set_busy(job, True)
        if claim.node is not None:
            gang = core.executions.gangs.get(job) or self.new_gang(job)
            claim.shadow = gang.add(claim, row.activation, {})
            claim.shadow.recovered()
            self._let_in(claim)
            return
        shadow = self.new_shadow(claim, job, row.activation, {})
        claim.shadow = shadow
        core.executions.begins(job, shadow)
        shadow.recovered()
        self._let_in(claim)
        core.tasks.start(self._guarded, claim, job, partial(self.work, claim, shadow))
