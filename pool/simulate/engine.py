"""The run of a workload through a pool, on a clock that jumps from what happens to what happens next.

Jobs come when they came. A cycle of the real negotiator follows whatever may let a job start, and no sooner than the
policy's pause after the last; whoever gets a slot holds it until his job ends, and is charged for it. A claim then
takes the submitter's next job that fits its slot, as a schedd does. Nobody is moved aside while his job runs.

Most cycles match nothing or one job. So a cycle is only held where some slot suits somebody who waits, and goes match
by match where no quota or limit lets one request depend on another: with just the request that is next and the slot
that it wants most. `quick=False` does without that, and comes to the same, as long as no job wants a slot just because
another has a part of it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pool.accounting.limits import Limits
from pool.classad import ClassAd, is_match
from pool.matching import JobRequest, Matched, Snapshot, Standing, negotiate
from pool.matching.candidates import evaluate_each
from pool.matching.submitters import Submitter
from pool.simulate.accounts import Accounts
from pool.simulate.machines import Machine
from pool.simulate.policy import Policy
from pool.simulate.suiting import Suiting
from pool.simulate.waiting import Group, Waiting
from pool.simulate.workload import RecordedJob, Workload
from pool.slots.provision.carve import Holding
from pool.slots.provision.resources import exact


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
    while he had nothing. `never_ran` and `elsewhere` are the workload's."""

    runs: Sequence[Run]
    left: Sequence[RecordedJob]
    size: float
    starved: dict[str, float]
    cycles: int
    never_ran: int
    elsewhere: int


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
    quick: bool
    waiting: Waiting = field(default_factory=Waiting)
    limits: Counter[str] = field(default_factory=Counter)
    ends: list[tuple[float, int, _Claim]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    since: dict[str, float] = field(default_factory=dict)
    starved: dict[str, float] = field(default_factory=dict)
    bereft: set[str] = field(default_factory=set)
    """Who has given back all that he held since the last cycle."""
    cycles: int = 0
    wanted: bool = False

    def __post_init__(self) -> None:
        policy, machines, kinds = self.policy, list(self.machines.values()), self.workload.kinds
        self.accounts = Accounts(policy.halflife_s, policy.factors, equal=policy.ignores_priorities)
        self.suiting = Suiting(kinds, machines, policy.cycle.order)
        self.evaluate = self.suiting.evaluate if self.quick else evaluate_each
        # Groups' quotas look at all that is wanted, limits bind one request to another.
        divided = any(machine.base.eval("ClaimPartitionableLeftovers") is False for machine in machines)
        bound = divided or bool(policy.cycle.groups) or any("ConcurrencyLimits" in kind for kind in kinds)
        self.stepwise = self.quick and not bound and not policy.cycle.order.depth_first
        self.size = float(sum(policy.cycle.weight(machine.base) for machine in machines))

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
            self.waiting.take(who, group) for who, group, count in list(self.waiting.requests()) for _ in range(count)
        ]
        never_ran, elsewhere = self.workload.never_ran, self.workload.elsewhere
        return Outcome(self.runs, left, self.size, self.starved, self.cycles, never_ran, elsewhere)

    def _comes(self, job: RecordedJob, now: float) -> None:
        self.waiting.add(job)
        self.wanted = True
        # Whoever holds something already is not starved, however long this job waits.
        if job.submitter not in self.accounts.held:
            self.since.setdefault(job.submitter, now)

    def _ends(self, claim: _Claim, now: float) -> None:
        job = claim.run.job
        # As in a schedd: a claim within its life goes on without a new negotiation.
        if not 0 <= self.policy.worklife_s <= now - claim.began_at:
            following = self.waiting.first(job.submitter, lambda kind: self._fits(claim, job.kind, kind))
            if following is not None:
                self._start(claim, following, now)
                return
        self.accounts.charge(job.submitter, -1, -claim.weight, now)
        if job.submitter not in self.accounts.held:
            self.bereft.add(job.submitter)
        self.limits.subtract(claim.limits)
        claim.machine.free(claim.held)
        self.suiting.changed(claim.machine.name)
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

    # ---- a cycle

    def _cycle(self, now: float) -> None:
        self.wanted = False
        self.cycles += 1
        got = self._step_by_step(now) if self.stepwise else self._at_once(now)
        for submitter in got:
            self._note(submitter, now)
        for submitter in self.bereft:
            if submitter in self.waiting and submitter not in self.accounts.held:
                self.since.setdefault(submitter, now)
        self.bereft.clear()

    def _at_once(self, now: float) -> set[str]:
        """Negotiate about all that waits; who has got something."""
        if self.quick and not self._wanting():
            return set()
        requests = [self._request(who, group, count) for who, group, count in self.waiting.requests()]
        names = {*self.accounts.held, *self.waiting.submitters()}
        return self._negotiate(
            list(self.machines.values()), requests, {name: self.accounts.standing(name, now) for name in names}, now
        )

    def _step_by_step(self, now: float) -> set[str]:
        """The same, match by match, each with what the negotiator would come to next."""
        wanting = self._wanting()
        if not wanting:
            return set()
        # As a negotiator is told them when the cycle begins: who is served moves nobody to another place.
        orders = {name: self.waiting.order(name) for name in self.waiting.submitters()}
        standings: dict[str, Standing] = {}
        got: set[str] = set()
        while wanting:
            name, group = self._next(wanting, orders, standings, now)
            machine, request = wanting[group.kind], self._request(name, group, 1)
            new = self._negotiate([machine], [request], {name: standings.pop(name)}, now)
            if not new:  # the slot promised more than there is: somebody else may have it
                return got | self._at_once(now)
            got |= new
            wanting = self._wanting()
        return got

    def _request(self, submitter: str, group: Group, count: int) -> JobRequest:
        return JobRequest("simulated", submitter, group.kind, self.workload.kinds[group.kind], count, group.prio)

    def _wanting(self) -> dict[int, Machine]:
        """The kinds of waiting jobs that some slot suits, with the slot that they want most."""
        best = ((kind, self.suiting.best(kind)) for kind in self.waiting.kinds())
        return {kind: machine for kind, machine in best if machine is not None}

    def _next(
        self, wanting: dict[int, Machine], orders: dict[str, list[Group]], standings: dict[str, Standing], now: float
    ) -> tuple[str, Group]:
        """Whose turn it is, and with which of his jobs."""
        found: list[tuple[Submitter, Group]] = []
        for name, order in orders.items():
            group = next((one for one in order if one.kind in wanting and self.waiting.count(name, one)), None)
            if group is not None:
                if name not in standings:
                    standings[name] = self.accounts.standing(name, now)
                # The negotiator's own, which knows who comes before whom.
                found.append((Submitter(name, standings[name], self.policy.cycle.groups.of(name)), group))
        submitter, group = min(found, key=lambda one: one[0])
        return submitter.name, group

    def _negotiate(
        self, machines: Sequence[Machine], requests: list[JobRequest], standings: dict[str, Standing], now: float
    ) -> set[str]:
        offers = [machine.offer() for machine in machines if machine.state() is not None]
        limits = {name: float(amount) for name, amount in self.limits.items() if amount}
        snapshot = Snapshot(offers, requests, standings, self.policy.cycle, now, (), self.size, limits)
        plan = negotiate(snapshot, self.evaluate)
        for matched in plan.matches:
            self._carry_out(matched, now)
        return {matched.request.submitter for matched in plan.matches}

    def _note(self, submitter: str, now: float) -> None:
        if (since := self.since.pop(submitter, None)) is not None:
            self.starved[submitter] = max(self.starved.get(submitter, 0.0), now - since)

    def _carry_out(self, matched: Matched, now: float) -> None:
        request = matched.request
        job = self.waiting.take(request.submitter, Group(request.autocluster, request.prio))
        machine = self.machines[matched.slot]
        held = machine.take(matched.taken, request.ad)
        self.suiting.changed(machine.name)
        # To further jobs it is no longer the machine's rest, but a slot of its own.
        slot = ClassAd({"PartitionableSlot": False, "DynamicSlot": held is not None}, parent=matched.slot_ad)
        self.accounts.charge(job.submitter, 1, matched.weight, now)
        self.limits.update(matched.limits)
        run = Run(job, now, now, matched.weight)
        self._start(_Claim(machine, held, slot, matched.weight, matched.limits, now, run), job, now)


def simulate(workload: Workload, machines: Sequence[Machine], policy: Policy, *, quick: bool = True) -> Outcome:
    """Run the workload through the machines, which stay as they are; `quick` leaves out what cannot change anything."""
    return _Course(workload, policy, {machine.name: replace(machine) for machine in machines}, quick).go()
