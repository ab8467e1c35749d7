"""The run of a workload through a pool, on a clock that jumps from what happens to what happens next.

Jobs come when they came. A cycle of the real negotiator follows whatever may let a job start, and no sooner than the
policy's pause after the last; whoever gets a slot holds it until his job ends, and is charged for it. A claim then
takes the submitter's next job that fits its slot, as a schedd does. Nobody is moved aside while his job runs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pool.accounting import Accountant, SubmitterUse
from pool.accounting.limits import Limits
from pool.classad import ClassAd, is_match
from pool.matching import JobRequest, Matched, Offers, Snapshot, Standing, negotiate
from pool.simulate.machines import Machine
from pool.simulate.policy import Policy
from pool.simulate.remembered import RememberingEvaluator
from pool.simulate.waiting import Waiting
from pool.simulate.workload import RecordedJob, Workload
from pool.slots.provision.carve import Holding
from pool.slots.provision.resources import exact

NOTHING = SubmitterUse()


@dataclass(frozen=True, slots=True)
class Run:
    """A job that ran."""

    job: RecordedJob
    started_at: float
    ended_at: float
    weight: float

    @property
    def wait_s(self) -> float:
        """How long it waited for a slot."""
        return self.started_at - self.job.submitted_at


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a workload. `left` never found a slot; `starved` is how long each submitter had to wait at most
    while he had nothing."""

    runs: Sequence[Run]
    left: Sequence[RecordedJob]
    size: float
    starved: dict[str, float]
    cycles: int


@dataclass(slots=True)
class _Claim:
    machine: Machine
    held: Holding | None
    slot: ClassAd
    """The slot as it matches further jobs."""
    weight: float
    limits: Limits
    began_at: float
    run: Run


@dataclass
class _Course:
    """The state of a run."""

    workload: Workload
    policy: Policy
    machines: dict[str, Machine]
    offers: Offers = field(default_factory=Offers)
    waiting: Waiting = field(default_factory=Waiting)
    held: dict[str, SubmitterUse] = field(default_factory=dict)
    limits: Counter[str] = field(default_factory=Counter)
    ends: list[tuple[float, int, _Claim]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    since: dict[str, float] = field(default_factory=dict)
    starved: dict[str, float] = field(default_factory=dict)
    cycles: int = 0
    wanted: bool = False

    def __post_init__(self) -> None:
        self.evaluate = RememberingEvaluator()
        self.accountant = Accountant(self.policy.halflife_s, self.policy.factors)
        self.offers.weigh_by(self.policy.cycle.weight, None)
        for machine in self.machines.values():
            self._show(machine)
        self.size = self.offers.weight()

    def _show(self, machine: Machine) -> None:
        self.offers.put(machine.ad(), ClassAd({"ClaimIds": machine.claim_ids()}))

    # ---- what happens

    def go(self) -> Outcome:
        """All of it."""
        # The next to come is the last of the list, from which it is taken in no time.
        coming = list(reversed(self.workload.jobs))
        cycle_at = now = coming[-1].submitted_at
        while coming or self.ends or self.wanted:
            moments = [coming[-1].submitted_at] if coming else []
            moments += [self.ends[0][0]] if self.ends else []
            moments += [max(now, cycle_at)] if self.wanted else []
            now = min(moments)
            while coming and coming[-1].submitted_at <= now:
                self._comes(coming.pop(), now)
            while self.ends and self.ends[0][0] <= now:
                self._ends(heapq.heappop(self.ends)[2], now)
            if self.wanted and now >= cycle_at:
                self._cycle(now)
                cycle_at = now + self.policy.pause_s
        for submitter in list(self.since):
            self._note(submitter, now)
        left = [
            self.waiting.take(who, kind) for who, kind, count, _ in list(self.waiting.requests()) for _ in range(count)
        ]
        return Outcome(self.runs, left, self.size, self.starved, self.cycles)

    def _comes(self, job: RecordedJob, now: float) -> None:
        self.waiting.add(job)
        self.wanted = True
        # Whoever holds something already is not starved, however long this job waits.
        if job.submitter not in self.held:
            self.since.setdefault(job.submitter, now)

    def _ends(self, claim: _Claim, now: float) -> None:
        job = claim.run.job
        # As in a schedd: a claim within its life goes on without a new negotiation.
        if not 0 <= self.policy.worklife_s <= now - claim.began_at:
            following = self.waiting.first(job.submitter, lambda kind: self._fits(claim, job.kind, kind))
            if following is not None:
                self._start(claim, following, now)
                return
        self._charge(job.submitter, -1, -claim.weight)
        self.limits.subtract(claim.limits)
        claim.machine.free(claim.held)
        self._show(claim.machine)
        self.wanted = bool(self.waiting)

    def _fits(self, claim: _Claim, before: int, kind: int) -> bool:
        """Whether the claim may take a job of this kind: its limits are not asked for anew."""
        ad = self.workload.kinds[kind]
        if kind == before:
            return True
        # What another kind uses of limits was never counted; it has to come through a cycle.
        if "ConcurrencyLimits" in ad or claim.limits:
            return False
        if claim.held is not None:
            # A dynamic slot keeps its size: the next job may want less than that, and not more.
            for name, amount in claim.held.amounts.items():
                asked = ad.eval(f"Request{name}", claim.slot)
                if isinstance(asked, int | float) and exact(asked) > amount:
                    return False
        return is_match(ad, claim.slot)

    def _start(self, claim: _Claim, job: RecordedJob, now: float) -> None:
        claim.run = Run(job, now, now + job.run_s, claim.weight)
        self.runs.append(claim.run)
        heapq.heappush(self.ends, (claim.run.ended_at, len(self.runs), claim))

    def _charge(self, submitter: str, slots: int, weight: float) -> None:
        use = self.held.pop(submitter, NOTHING)
        use = SubmitterUse(use.slots + slots, use.weight + weight)
        if use.slots:
            self.held[submitter] = use

    # ---- a cycle

    def _cycle(self, now: float) -> None:
        self.wanted = False
        self.cycles += 1
        # Up to now for what was held, and below from now on for what is: exact, however far apart cycles are.
        self.accountant.charge(self.held, now=now)
        plan = negotiate(self._snapshot(now), self.evaluate)
        for matched in plan.matches:
            self._carry_out(matched, now)
        for submitter in {request.submitter for request in (one.request for one in plan.matches)}:
            self._note(submitter, now)
        for submitter in {who for who, *_ in self.waiting.requests()} - self.held.keys():
            self.since.setdefault(submitter, now)
        self.accountant.charge(self.held, now=now)

    def _note(self, submitter: str, now: float) -> None:
        if (since := self.since.pop(submitter, None)) is not None:
            self.starved[submitter] = max(self.starved.get(submitter, 0.0), now - since)

    def _snapshot(self, now: float) -> Snapshot:
        requests = [
            JobRequest("simulated", who, kind, self.workload.kinds[kind], count, prio)
            for who, kind, count, prio in self.waiting.requests()
        ]
        standings = {}
        for name in {*self.accountant.accounts, *(request.submitter for request in requests)}:
            account, use = self.accountant.account(name), self.held.get(name, NOTHING)
            if not account.is_group:
                priority = 1.0 if self.policy.ignores_priorities else account.effective
                standings[name] = Standing(priority, use.weight, use.slots, account.ceiling, account.floor)
        return Snapshot(
            self.offers.current(),
            requests,
            standings,
            self.policy.cycle,
            now,
            (),
            self.size,
            {name: float(amount) for name, amount in self.limits.items() if amount},
        )

    def _carry_out(self, matched: Matched, now: float) -> None:
        job = self.waiting.take(matched.request.submitter, matched.request.autocluster)
        machine = self.machines[matched.slot]
        held = machine.take(matched.taken, matched.request.ad)
        self._show(machine)
        # To further jobs it is no longer the machine's rest, but a slot of its own.
        slot = ClassAd({"PartitionableSlot": False, "DynamicSlot": held is not None}, parent=matched.slot_ad)
        self._charge(job.submitter, 1, matched.weight)
        self.limits.update(matched.limits)
        run = Run(job, now, now, matched.weight)
        self._start(_Claim(machine, held, slot, matched.weight, matched.limits, now, run), job, now)


def simulate(workload: Workload, machines: Sequence[Machine], policy: Policy) -> Outcome:
    """Run the workload through the machines, which stay as they are."""
    return _Course(workload, policy, {machine.name: replace(machine) for machine in machines}).go()
