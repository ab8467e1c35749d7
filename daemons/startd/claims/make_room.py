"""Room for a claim that no slot has room for: dynamic slots of a partitionable one end, and the claim gets a new one.

The partitionable slot is kept for the claim until they are gone: it offers nothing to others meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daemons.base.sync import first_of
from daemons.startd.slots.ads import Ads
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Pending, Slot, Slots
from pool.classad import ClassAd
from pool.slots.ad import number
from pool.slots.state_machine import EvictionCause, State
from protocol.messages.startd import ClaimAnswer, RequestClaim
from protocol.rpc.endpoints import Peer

if TYPE_CHECKING:
    from daemons.startd.claims.claims import Claims


class MakeRoom:
    """What a RequestClaim with `room` asks for."""

    def __init__(self, slots: Slots, ads: Ads, moves: Moves, claims: Claims) -> None:
        self._slots = slots
        self._ads = ads
        self._moves = moves
        self._claims = claims

    async def claim(self, peer: Peer, asked: RequestClaim) -> ClaimAnswer:
        """End the dynamic slots, wait until they are gone, and carve another for the claim."""
        ends = [slot for one in asked.room if (slot := self._slots.offering(one)) is not None]
        parent = ends[0].parent if ends else None
        if parent is None or len(ends) < len(asked.room) or any(slot.parent is not parent for slot in ends):
            return _refused("the claim ids of the slots that were to end are not good (any more)")
        claim = self._claims.claim_of(parent, peer, asked)
        if reason := self._objection(parent, ends, claim.rank, asked):
            return _refused(reason)
        parent.pending = pending = Pending(claim, peer, waiting=1)
        self._changed(parent)
        answer = _refused("the schedd that wanted the room waits no more")
        try:
            for slot in ends:
                self._moves.end_for_better(slot, ranked=slot.claim is not None and claim.rank > slot.claim.rank)
            # In a loop, as each claim that ends anywhere wakes it, and most are others'.
            while self._there(ends) and not pending.settled.is_set() and not peer.closed.is_set():
                await first_of(self._slots.claim_ended, pending.settled, peer.closed)
            parent.pending = None
            if not self._there(ends):
                # Asked anew: the owner, and the machine, may have changed while jobs were leaving.
                reason = self._claims.objection(parent, asked)
                answer = _refused(reason) if reason else self._claims.grant(parent, peer, asked)
        finally:
            parent.pending = None
            self._changed(parent)
            pending.settle(answer.granted, answer.reason)
        return answer

    def _objection(self, parent: Slot, ends: Sequence[Slot], rank: float, asked: RequestClaim) -> str:
        """Why the slots are not to end for this claim; empty when they are."""
        if self._moves.stopping or parent.pending is not None or parent.state.state is State.DRAINED:
            return f"{parent.name} cannot be claimed now"
        for slot in ends:
            if slot.claim is None or slot.pending is not None or slot.state.leaving is not EvictionCause.NO:
                return f"{slot.name} is being given up"
            if slot.claim.rank > rank:
                return f"{slot.name} ranks its present job higher"
            if self._ads.retirement_left(slot) > 0:
                return f"the job in {slot.name} has retirement left"
        # As it will be: the slot's own ad does not show yet what is to come back.
        have = sum((slot.free.amounts for slot in ends), start=parent.free.amounts)
        amounts = {name: number(amount) for name, amount in have.items()}
        roomy = ClassAd(amounts, parent=self._ads.matching(parent))
        if not roomy.eval_bool("Requirements", False, asked.job_ad):
            return f"{parent.name} does not take this job"
        return ""

    def _there(self, ends: Sequence[Slot]) -> bool:
        return any(self._slots.get(slot.name) is slot for slot in ends)

    def _changed(self, parent: Slot) -> None:
        parent.changed()
        self._moves.note(parent)


def _refused(reason: str) -> ClaimAnswer:
    return ClaimAnswer(granted=False, reason=reason)
