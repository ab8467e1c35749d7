"""One negotiation: snapshot in, plan out. Nothing is sent from here.

Shares are inverse to effective priority. The next match always goes to the submitter who is furthest below his share,
counting what he holds already; so equal submitters end with equal numbers of slots (by weight), whoever wants less than
his share leaves the rest to the others, and no slot stays empty that somebody could use. A submitter's own jobs come in
order of their priority; one that finds no slot does not hold up the next.

A partitionable slot serves as many jobs as it has room for; preemption and rooms are tried for what found no free slot.
A submitter whose expressions cost too much processor time waits for the next cycle, and a slot whose do is left out.

Source: HTCondor manual, "Configuration for Central Managers" (user priorities, negotiation), and
"Configuration Macros" (NEGOTIATOR_PRE_JOB_RANK, PREEMPTION_REQUIREMENTS ...).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd, rank
from pool.classad.eval.budget import Overruns, TooDear
from pool.matching.accounting import PRIORITY_MIN, weight_of
from pool.matching.candidates import Candidates, Evaluate, RankOrder, Working, evaluate_each
from pool.matching.costs import dear_slots, jobs_fault
from pool.matching.offers import Offer, Pieces, free_of, less, piece, pieces_of_match, together
from pool.matching.preempt import Asker, Preempts
from pool.matching.room import Family, Room, families, find_room, is_dynamic
from pool.slots.provision.carve import Rounding, fit_request
from pool.slots.provision.consumption import has_policy
from pool.slots.provision.resources import Amounts

NO_MATCH: Final = "no match found"
NO_SLOT: Final = ClassAd()
DEAR_MOST: Final = 8
"""Evaluations for one request that may cost much; one that ends for its cost counts twice."""
DEAR_REQUESTS_MAX: Final = 3
"""Requests of a submitter that may cost too much before the others of his wait for the next cycle."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Jobs of one submitter at one schedd that look alike."""

    schedd: str
    submitter: str
    autocluster: int
    ad: ClassAd
    count: int
    prio: int = 0


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """How slots are ordered, and how a startd will round requests."""

    order: RankOrder = field(default_factory=RankOrder)
    rounding: Rounding = field(default_factory=Rounding)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a cycle decides from: of each submitter the weight of what he holds (`use`), how many slots that is, and the
    effective priority."""

    slots: Sequence[Offer]
    requests: Sequence[JobRequest]
    priority: Mapping[str, float] = field(default_factory=dict)
    use: Mapping[str, float] = field(default_factory=dict)
    slots_of: Mapping[str, int] = field(default_factory=dict)
    settings: CycleSettings = field(default_factory=CycleSettings)
    now: float = 0.0
    parents: Sequence[Offer] = ()
    """All partitionable slots, where dynamic slots may be preempted together."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A slot for one job of a request; `taken` is what is carved for it from a partitionable slot."""

    request: JobRequest
    slot: str
    claim_id: str
    address: str
    slot_ad: ClassAd
    weight: float
    taken: Amounts | None = None
    pieces: Pieces = field(default_factory=dict)
    room: tuple[Offer, ...] = ()
    """The dynamic slots that have to end for it."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Jobs that got no slot, or not enough of them."""

    request: JobRequest
    unmatched: int
    reason: str
    dear: str = ""
    """The job's attribute that costs too much processor time, if that is why."""


@dataclass(slots=True)
class CyclePlan:
    """What a cycle came to. `charges` is the weight that each submitter was given."""

    matches: list[Matched] = field(default_factory=list)
    rejections: list[Rejected] = field(default_factory=list)
    charges: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """The startds, by address, of which a slot's expressions cost too much, and which one."""


class _Submitter:
    """One submitter in the course of a cycle."""

    def __init__(self, name: str, requests: Sequence[JobRequest], priority: float, use: float) -> None:
        self.name = name
        # Shares are inverse to it, and a table from elsewhere may have a zero.
        self.priority = max(priority, 1e-9)
        self.use = use
        # Stable: of equal priority, schedds' own order stays.
        self.requests = sorted(requests, key=lambda request: -request.prio)
        self.left = self.requests[0].count if self.requests else 0
        self.candidates: Candidates | None = None
        self.overruns = Overruns(DEAR_MOST)

    def __lt__(self, other: _Submitter) -> bool:
        return self._place() < other._place()

    def _place(self) -> tuple[float, float, str]:
        return self.use * self.priority, self.priority, self.name

    def next_request(self) -> None:
        """Go on to jobs of lower priority."""
        self.requests.pop(0)
        self.left = self.requests[0].count if self.requests else 0
        self.candidates = None
        self.overruns = Overruns(DEAR_MOST)


class _Cycle:
    def __init__(self, snapshot: Snapshot, evaluate: Evaluate) -> None:
        self._snapshot, self._evaluate = snapshot, evaluate
        together = snapshot.settings.order.preemption.together
        single = [offer for offer in snapshot.slots if not (together and is_dynamic(offer))]
        self._slots = [Working(offer, offer.ad, list(offer.claim_ids)) for offer in single]
        self._families = families(snapshot.parents, snapshot.slots) if together else []
        self._changes: list[int] = []
        self._priority_of = dict(snapshot.priority)
        self._dear: dict[str, int] = {}
        self._rejected: Rejected | None = None
        self._due: dict[str, float] | None = None
        self.plan = CyclePlan()

    def run(self) -> CyclePlan:
        queue = self._submitters()
        heapq.heapify(queue)
        while queue:
            submitter = queue[0]
            if not submitter.requests:
                heapq.heappop(queue)
            elif submitter.left <= 0:
                submitter.next_request()
            elif (dear := self._dear.get(submitter.name, 0)) >= DEAR_REQUESTS_MAX:
                why = f"{dear} other requests of {submitter.name} cost too much processor time"
                self.plan.rejections.append(Rejected(submitter.requests[0], submitter.left, why))
                submitter.next_request()
            elif (matched := self._match_within_bounds(submitter)) is not None:
                self.plan.matches.append(matched)
                charged = self.plan.charges.get(submitter.name, 0.0) + matched.weight
                self.plan.charges[submitter.name] = charged
                submitter.use += matched.weight
                submitter.left -= 1
                # It is the head: only its own use has grown, so one sift puts the heap right.
                heapq.heapreplace(queue, submitter)
            else:
                self.plan.rejections.append(self._rejected or Rejected(submitter.requests[0], submitter.left, NO_MATCH))
                submitter.next_request()
        return self.plan

    def _submitters(self) -> list[_Submitter]:
        by_name: dict[str, list[JobRequest]] = {}
        for request in self._snapshot.requests:
            if request.count > 0:
                by_name.setdefault(request.submitter, []).append(request)
        return [
            _Submitter(
                name,
                requests,
                self._snapshot.priority.get(name, PRIORITY_MIN),
                self._snapshot.use.get(name, 0.0),
            )
            for name, requests in by_name.items()
        ]

    def _match_within_bounds(self, submitter: _Submitter) -> Matched | None:
        """The same, until too many slots have cost too much; by what one costs, so that many slots are no fault."""
        self._rejected = None
        with submitter.overruns:
            try:
                matched = self._match(submitter)
            except TooDear:
                matched = None
        if matched is not None or submitter.overruns.count < 2:
            return matched
        request = submitter.requests[0]
        dear = jobs_fault(request.ad)
        if not dear and self._leave_out_dear_slots(submitter):
            submitter.candidates, submitter.overruns = None, Overruns(DEAR_MOST)
            return self._match_within_bounds(submitter)
        why = f"the expressions of a match cost too much processor time: {submitter.overruns.reason}"
        self._dear[submitter.name] = self._dear.get(submitter.name, 0) + 1
        self._rejected = Rejected(request, submitter.left, why, dear=dear)
        return None

    def _leave_out_dear_slots(self, submitter: _Submitter) -> bool:
        """Whether startds are left out from now on, because of what their slots' expressions cost."""
        dear = dear_slots(self._asker(submitter), self._slots, self._snapshot.settings.order)
        for slot in self._slots:
            if slot.offer.address in dear:
                slot.version, slot.ad = -1, NO_SLOT
        self.plan.left_out |= dear
        return bool(dear)

    def _asker(self, submitter: _Submitter) -> Asker:
        snapshot = self._snapshot
        return Asker(
            submitter.requests[0].ad,
            submitter.name,
            submitter.priority,
            self._priority_of,
            snapshot.now,
            snapshot.slots_of,
        )

    def _match(self, submitter: _Submitter) -> Matched | None:
        """Take the best slot for the submitter's next job."""
        request = submitter.requests[0]
        if submitter.candidates is None:
            order = self._snapshot.settings.order
            submitter.candidates = Candidates(self._asker(submitter), self._slots, self._changes, order, self._evaluate)
        while (index := submitter.candidates.best()) is not None:
            slot = self._slots[index]
            if submitter.candidates.moves_aside() is Preempts.BY_PRIORITY and not self._is_due(submitter, slot.ad):
                submitter.candidates.refuse()
                continue
            if not slot.offer.partitionable:
                return self._take_whole(request, slot)
            try:
                return self._take_piece(request, index)
            except TooDear:
                raise
            except UserError:  # the slot's expressions promised more than there is
                submitter.candidates.refuse()
        return self._make_room(submitter) if self._families else None

    def _make_room(self, submitter: _Submitter) -> Matched | None:
        """Dynamic slots that end together for the submitter's next job; as the job's owner would say, by RANK first."""
        asker, settings = self._asker(submitter), self._snapshot.settings
        working = {slot.offer.name: slot for slot in self._slots if slot.offer.partitionable}
        found: list[tuple[Room, Family]] = []
        for family in self._families:
            slot = working.get(family.parent.name)
            ad = slot.ad if slot is not None else family.parent.ad
            room = find_room(asker, ad, family.children, settings.order.preemption)
            if room is not None:
                found.append((room, family))
        for room, family in sorted(found, key=lambda one: (-one[0].why, -rank(asker.job, one[0].ad), len(one[0].ends))):
            try:
                taken = fit_request(asker.job, room.ad, free_of(room.ad), settings.rounding)
                pieces = pieces_of_match(asker.job, room.ad, taken)
            except TooDear:
                raise
            except UserError:
                continue
            ad = piece(room.ad, taken, pieces)
            if room.why is Preempts.BY_PRIORITY and not self._is_due(submitter, ad):
                continue
            self._families.remove(family)
            if (slot := working.get(family.parent.name)) is not None:
                slot.version = -1
            (claim_id, *_), parent = room.ends[0].claim_ids, family.parent
            request = submitter.requests[0]
            return Matched(request, parent.name, claim_id, parent.address, ad, weight_of(ad), taken, pieces, room.ends)
        return None

    def _is_due(self, submitter: _Submitter, slot: ClassAd) -> bool:
        """Whether the slot is within the submitter's share of the pool, beyond which priority moves nobody aside.

        Whoever has nothing yet may have one slot.
        """
        if submitter.use <= 0:
            return True
        if self._due is None:
            self._due = self._shares_by_weight()
        return submitter.use + weight_of(slot) <= self._due.get(submitter.name, 0.0)

    def _shares_by_weight(self) -> dict[str, float]:
        """What each submitter who wants slots or has some is due of the pool, by weight."""
        snapshot = self._snapshot
        total = sum(snapshot.use.values()) + sum(weight_of(one.ad) for one in snapshot.slots if not one.claimed)
        names = {
            *(name for name, use in snapshot.use.items() if use > 0),
            *(one.submitter for one in snapshot.requests),
        }
        parts = shares({name: snapshot.priority.get(name, PRIORITY_MIN) for name in names})
        return {name: part * total for name, part in parts.items()}

    def _take_whole(self, request: JobRequest, slot: Working) -> Matched:
        slot.version = -1
        return self._matched(request, slot, slot.ad, None)

    def _take_piece(self, request: JobRequest, index: int) -> Matched:
        slot = self._slots[index]
        free = slot.free if slot.free is not None else free_of(slot.ad)
        taken = fit_request(request.ad, slot.ad, free, self._snapshot.settings.rounding)
        pieces = pieces_of_match(request.ad, slot.ad, taken)
        if pieces:
            slot.gone = together((slot.gone, pieces))
        left = less(slot.offer.ad, taken, free, slot.gone)
        matched = self._matched(request, slot, piece(slot.offer.ad, taken, pieces), taken, pieces)
        if has_policy(slot.ad):  # what the match costs is by how much less the slot weighs
            matched = replace(matched, weight=max(0.0, weight_of(slot.ad) - weight_of(left)))
        slot.ad, slot.free = left, free - taken
        # Others have evaluated this slot; they look again at what changed, not at all slots.
        if slot.claim_ids:
            slot.version += 1
            self._changes.append(index)
        else:
            slot.version = -1
        return matched

    @staticmethod
    def _matched(
        request: JobRequest, slot: Working, ad: ClassAd, taken: Amounts | None, pieces: Pieces | None = None
    ) -> Matched:
        claim_id = slot.claim_ids.pop(0)
        name, address = slot.offer.name, slot.offer.address
        return Matched(request, name, claim_id, address, ad, weight_of(ad), taken, pieces or {})


def negotiate(snapshot: Snapshot, evaluate: Evaluate = evaluate_each) -> CyclePlan:
    """Match the requests with the slots; `evaluate` may be a faster way to the same answers."""
    return _Cycle(snapshot, evaluate).run()


def shares(submitters: Mapping[str, float]) -> dict[str, float]:
    """The part of the pool that each submitter (by effective priority) is due: fractions that add up to 1."""
    inverse = {name: 1.0 / max(priority, 1e-9) for name, priority in submitters.items()}
    total = sum(inverse.values())
    return {name: part / total for name, part in inverse.items()} if total else {}
