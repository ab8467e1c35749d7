"""One negotiation: snapshot in, plan out. Nothing is sent from here.

Shares are inverse to effective priority. The next match always goes to the submitter who is furthest below his share,
counting what he holds already; so equal submitters end with equal numbers of slots (by weight), whoever wants less than
his share leaves the rest to the others, and no slot stays empty that somebody could use. Those below their floor come
before all others, and nobody gets more than his ceiling. A submitter's own jobs come in the order that his schedd
says, which is that of their priority, or with USE_GLOBAL_JOB_PRIOS by JobPrio across his schedds; one that finds no
slot does not hold up the next. Where there are accounting groups, each has its turns (`group_turns`),
which end with its quota.

A partitionable slot serves as many jobs as it has room for, or one, where its startd or the job's schedd want no
leftovers; preemption and rooms are tried for what found no free slot.
A submitter whose expressions cost too much processor time waits for the next cycle, and a slot whose do is left out.

Source: HTCondor manual, "Configuration for Central Managers" (user priorities, negotiation), and
"Configuration Macros" (NEGOTIATOR_PRE_JOB_RANK, PREEMPTION_REQUIREMENTS, CLAIM_PARTITIONABLE_LEFTOVERS ...).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pool.accounting.account_ads import CycleFigures, SubmitterFigures
from pool.base.errors import UserError
from pool.classad import ClassAd, rank
from pool.classad.eval.budget import TooDear
from pool.matching.bounds import Bounds, Refusal, beyond_ceiling
from pool.matching.candidates import Candidates, Evaluate, Slots, Working, evaluate_each
from pool.matching.costs import dear_slots, jobs_fault
from pool.matching.group_turns import GroupTurns
from pool.matching.offers import next_holder_of
from pool.matching.preempt import Asker, Preempts
from pool.matching.room import Family, Room, families, find_room, is_dynamic
from pool.matching.snapshot import CyclePlan, Rejected, Snapshot
from pool.matching.submitters import Submitter, Submitters
from pool.matching.taking import Taking, carved, is_left, whole, with_room
from pool.matching.times import Spent
from pool.matching.turn import TOLERANCE, Turn

NO_SLOT: Final = ClassAd()
DEAR_REQUESTS_MAX: Final = 3
"""Requests of a submitter that may cost too much before the others of his wait for the next cycle."""


class _Cycle:
    def __init__(self, snapshot: Snapshot, evaluate: Evaluate) -> None:
        self._snapshot, self._evaluate = snapshot, evaluate
        together = snapshot.settings.order.preemption.together
        single = [offer for offer in snapshot.slots if not (together and is_dynamic(offer))]
        self._slots = Slots(Working(offer, offer.ad, list(offer.claim_ids)) for offer in single)
        self._families = families(snapshot.parents, snapshot.slots) if together else []
        self._preempts = any(offer.claimed for offer in snapshot.slots)
        self._submitters = Submitters(snapshot)
        self._bounds = Bounds(snapshot)
        self._spent = Spent(snapshot.settings.times)
        self._dear: dict[str, int] = {}
        self._figures: dict[str, SubmitterFigures] = {}
        self.plan = CyclePlan()

    def run(self) -> CyclePlan:
        turns = self._turns()
        for turn in turns:
            self._serve(turn)
        for submitter in self._submitters:
            if isinstance(turns, GroupTurns):
                submitter.defer_all(turns.never_served(submitter))
            self.plan.rejections += [Rejected(one.request, one.request.count, one.why) for one in submitter.deferred]
            if submitter.deferred and submitter.name not in self.plan.out_of_time:
                self.plan.at_limit.add(submitter.name)
        self.plan.rounds = turns.rounds if isinstance(turns, GroupTurns) else 0
        self.plan.figures = CycleFigures(self._figures, self._submitters.figures)
        return self.plan

    def _turns(self) -> Iterable[Turn]:
        settings = self._snapshot.settings
        if settings.groups:
            return GroupTurns(self._submitters, settings, self._snapshot.pool_weight, self.plan.out_of_time)
        return [Turn(self._submitters.waiting())]

    def _serve(self, turn: Turn) -> None:
        """Give the turn's submitters slots: first those below their floor, then all."""
        self.plan.turns += 1
        self._spent.new_turn()
        self._note_shares(turn)
        for submitter in turn.members:
            submitter.resume(turn.group)
        below = [one for one in turn.members if one.use < one.standing.floor]
        if below:
            self._fill(turn, below, to_floor=True)
        self._fill(turn, turn.members, to_floor=False)

    def _note_shares(self, turn: Turn) -> None:
        """What each of the turn's submitters is due, as accounts show it; of several turns, by the first."""
        parts = shares({one.name: one.priority for one in turn.members})
        total = min(self._snapshot.pool_weight, turn.size)
        for name, part in parts.items():
            self._figures.setdefault(name, SubmitterFigures(part, part * total))

    def _fill(self, turn: Turn, members: Iterable[Submitter], *, to_floor: bool) -> None:
        queue = [one for one in members if one.requests]
        heapq.heapify(queue)
        while queue:
            submitter = queue[0]
            if not submitter.requests or (to_floor and submitter.use >= submitter.standing.floor):
                heapq.heappop(queue)
            elif submitter.left <= 0:
                submitter.next_request()
            elif self._passed_by(submitter, turn):
                continue
            elif isinstance(found := self._timed(submitter, turn), Taking):
                self._charge(submitter, found, turn)
                # It is the head: only its own use has grown, so one sift puts the heap right.
                heapq.heapreplace(queue, submitter)
            else:
                self._refuse(submitter, found)

    def _passed_by(self, submitter: Submitter, turn: Turn) -> bool:
        """Whether no slot needs to be looked for; then he is on with his next request, or has none any more."""
        ceiling = submitter.standing.ceiling
        if 0 <= ceiling <= submitter.use + TOLERANCE:
            self.plan.at_limit.add(submitter.name)
            while submitter.requests:
                self._refuse(submitter, beyond_ceiling(submitter))
        elif not self._preempts and (why := turn.over()):
            submitter.defer_all(why)
        elif (dear := self._dear.get(submitter.name, 0)) >= DEAR_REQUESTS_MAX:
            self._refuse(submitter, Refusal(f"{dear} other requests of {submitter.name} cost too much processor time"))
        elif (refusal := self._bounds.before(submitter)) is not None:
            self._refuse(submitter, refusal)
        elif (late := self._spent.over(submitter.requests[0], self.plan)) is not None:
            self._refuse(submitter, late)
        else:
            return False
        return True

    def _refuse(self, submitter: Submitter, refusal: Refusal) -> None:
        """The present request gets nothing more, in this turn at least."""
        if refusal.later or (self._preempts and not refusal.dear and self._may_preempt_later(submitter)):
            submitter.defer(refusal.why)
            return
        self.plan.rejections.append(Rejected(submitter.requests[0], submitter.left, refusal.why, dear=refusal.dear))
        submitter.next_request()

    def _may_preempt_later(self, submitter: Submitter) -> bool:
        """Whether he has a turn to come in which PREEMPTION_REQUIREMENTS see him in another group."""
        settings = self._snapshot.settings
        return settings.order.preemption.by_priority and submitter.group.regroups and submitter.under is submitter.group

    def _charge(self, submitter: Submitter, taking: Taking, turn: Turn) -> None:
        matched = taking.matched
        if turn.group is not None:
            regrouped = turn.group is not submitter.group
            matched = replace(matched, group=turn.group.name, regrouped=regrouped)
        self.plan.matches.append(matched)
        self.plan.charges[submitter.name] = self.plan.charges.get(submitter.name, 0.0) + matched.weight
        self._bounds.charge(matched)
        submitter.use += matched.weight
        submitter.left -= 1
        self._note_evictions(submitter, taking)
        turn.given += matched.weight - self._given_back(taking, turn)

    def _note_evictions(self, submitter: Submitter, taking: Taking) -> None:
        for slot in taking.holders:
            self._submitters.evicted(next_holder_of(slot), self._snapshot.settings.weight(slot))
        if taking.holders and not self._snapshot.settings.order.preemption.stable:
            submitter.candidates = None

    def _given_back(self, taking: Taking, turn: Turn) -> float:
        if not taking.holders:
            return 0.0
        groups = self._snapshot.settings.groups
        return taking.given_back(self._snapshot.settings.weight, lambda name: groups.of(name) is turn.group)

    def _timed(self, submitter: Submitter, turn: Turn) -> Taking | Refusal:
        request = submitter.requests[0]
        found = self._match_within_bounds(submitter, turn)
        self._spent.spend(request)
        return found

    def _match_within_bounds(self, submitter: Submitter, turn: Turn) -> Taking | Refusal:
        """The same, until too many slots have cost too much; by what one costs, so that many slots are no fault."""
        found: Taking | Refusal = Refusal()
        with submitter.overruns:
            try:
                found = self._match(submitter, turn)
            except TooDear:
                found = Refusal()
        if isinstance(found, Taking) or submitter.overruns.count < 2:
            return found
        dear = jobs_fault(submitter.requests[0].ad)
        if not dear and self._leave_out_dear_slots(submitter):
            submitter.look_again()
            return self._match_within_bounds(submitter, turn)
        why = f"the expressions of a match cost too much processor time: {submitter.overruns.reason}"
        self._dear[submitter.name] = self._dear.get(submitter.name, 0) + 1
        return Refusal(why, dear=dear)

    def _leave_out_dear_slots(self, submitter: Submitter) -> bool:
        """Whether startds are left out from now on, because of what their slots' expressions cost."""
        dear = dear_slots(self._asker(submitter), self._slots, self._snapshot.settings.order)
        for index, slot in enumerate(self._slots):
            if slot.offer.address in dear:
                slot.ad = NO_SLOT
                self._slots.change(index)
                self._slots.drop(index)
        self.plan.left_out |= dear
        return bool(dear)

    def _asker(self, submitter: Submitter) -> Asker:
        return Asker(submitter.requests[0].ad, submitter.name, self._submitters, self._snapshot.now)

    def _match(self, submitter: Submitter, turn: Turn) -> Taking | Refusal:
        """Take the best slot for the submitter's next job."""
        if submitter.candidates is None:
            order = self._snapshot.settings.order
            submitter.candidates = Candidates(self._asker(submitter), self._slots, order, self._evaluate)
        refused: Refusal | None = None
        while (index := submitter.candidates.best()) is not None:
            taking = self._propose(submitter, index)
            why = Refusal() if taking is None else self._bounded(submitter, turn, taking)
            if taking is not None and why is None:
                self._take(index, taking)
                return taking
            # That there is no more for anybody in a turn is a better reason than what one slot lacks.
            refused = why if refused is None or (why is not None and why.later) else refused
            submitter.candidates.refuse()
        if self._families and (taking := self._make_room(submitter, turn)) is not None:
            return taking
        if (refused is None or refused == Refusal()) and (used_up := turn.over()):
            # Running jobs might have been moved aside although nothing is left to give, and none can be.
            return Refusal(used_up, later=True)
        return refused or Refusal()

    def _propose(self, submitter: Submitter, index: int) -> Taking | None:
        slot, request, settings = self._slots[index], submitter.requests[0], self._snapshot.settings
        if not slot.offer.partitionable:
            assert submitter.candidates is not None
            return whole(request, slot, settings.weight, submitter.candidates.moves_aside())
        try:
            return carved(request, slot, settings.weight, settings.rounding)
        except TooDear:
            raise
        except UserError:  # the slot's expressions promised more than there is
            return None

    def _bounded(self, submitter: Submitter, turn: Turn, taking: Taking) -> Refusal | None:
        if taking.why is Preempts.BY_PRIORITY and not self._is_due(submitter, turn, taking.matched.weight):
            return Refusal()
        return self._bounds.of(submitter, turn, taking.matched, self._given_back(taking, turn))

    def _take(self, index: int, taking: Taking) -> None:
        slot = self._slots[index]
        slot.claim_ids.pop(0)
        if taking.left is None or not slot.claim_ids or not is_left(slot.ad, taking.matched.request):
            self._slots.drop(index)
            return
        slot.ad, slot.free, slot.gone = taking.left, taking.free, taking.gone
        # Others have evaluated this slot; they look again at what changed, not at all slots.
        self._slots.change(index)

    def _make_room(self, submitter: Submitter, turn: Turn) -> Taking | None:
        """Dynamic slots that end together for the submitter's next job; as the job's owner would say, by RANK first."""
        asker, settings = self._asker(submitter), self._snapshot.settings
        working = {slot.offer.name: index for index, slot in enumerate(self._slots) if slot.offer.partitionable}
        found: list[tuple[Room, Family]] = []
        for family in self._families:
            index = working.get(family.parent.name)
            ad = self._slots[index].ad if index is not None else family.parent.ad
            room = find_room(asker, ad, family.children, settings.order.preemption)
            if room is not None:
                found.append((room, family))
        for room, family in sorted(found, key=lambda one: (-one[0].why, -rank(asker.job, one[0].ad), len(one[0].ends))):
            try:
                taking = with_room(submitter.requests[0], family, room, settings.weight, settings.rounding)
            except TooDear:
                raise
            except UserError:
                continue
            if self._bounded(submitter, turn, taking) is not None:
                continue
            self._families.remove(family)
            if (index := working.get(family.parent.name)) is not None:
                self._slots.drop(index)
            return taking
        return None

    def _is_due(self, submitter: Submitter, turn: Turn, weight: float) -> bool:
        """Whether the slot is within the submitter's share of the pool, beyond which priority moves nobody aside.

        Whoever has nothing yet may have one slot.
        """
        if submitter.use <= 0:
            return True
        if turn.due is None:
            turn.due = self._shares_by_weight(turn)
        return submitter.use + weight <= turn.due.get(submitter.name, 0.0)

    def _shares_by_weight(self, turn: Turn) -> dict[str, float]:
        """What each of the turn's submitters, and of those of its group who have slots, is due by weight."""
        snapshot = self._snapshot
        sharing = {one.name: one for one in turn.members}
        total = sum(one.standing.use for one in self._submitters)
        total += sum(snapshot.settings.weight(one.ad) for one in snapshot.slots if not one.claimed)
        for one in self._submitters:
            if one.standing.use > 0 and (turn.group is None or one.group is turn.group):
                sharing[one.name] = one
        parts = shares({name: one.priority for name, one in sharing.items()})
        return {name: part * min(total, turn.size) for name, part in parts.items()}


def negotiate(snapshot: Snapshot, evaluate: Evaluate = evaluate_each) -> CyclePlan:
    """Match the requests with the slots; `evaluate` may be a faster way to the same answers."""
    return _Cycle(snapshot, evaluate).run()


def shares(submitters: Mapping[str, float]) -> dict[str, float]:
    """The part of the pool that each submitter (by effective priority) is due: fractions that add up to 1."""
    inverse = {name: 1.0 / max(priority, 1e-9) for name, priority in submitters.items()}
    total = sum(inverse.values())
    return {name: part / total for name, part in inverse.items()} if total else {}
