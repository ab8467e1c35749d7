"""One slot out of several: a schedd gives up idle dynamic slots of a partitionable one for a larger one.

The slots are given up and the new one is taken between two awaits, so that nobody else can take what was freed.
"""

from __future__ import annotations

from daemons.startd.claims.claims import Claims
from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots
from pool.base.errors import UserError
from pool.slots.state_machine import Activity, State
from protocol.messages.common import StopHow
from protocol.messages.startd import CoalesceClaims, Coalesced, RequestClaim
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer


class Coalesce:
    """The handler of CoalesceClaims."""

    def __init__(self, slots: Slots, moves: Moves, claims: Claims) -> None:
        self._slots = slots
        self._moves = moves
        self._claims = claims

    def answers(self) -> list[Answer]:
        """What a schedd asks."""
        return [answer(CoalesceClaims, self.coalesce)]

    async def coalesce(self, peer: Peer, asked: CoalesceClaims) -> Coalesced:
        """End the claims, and claim as much as the job asks for of what they had."""
        for claim_id in asked.claim_ids:  # their jobs have reported their end; their starters may still clean up
            if (busy := self._claims.held_by(peer, claim_id)) is not None:
                await self._claims.activations.until_free(peer, busy, claim_id)
        found = [self._idle(peer, claim_id) for claim_id in asked.claim_ids]
        parents = {slot.parent for slot in found}
        holders = {slot.claim.holder.schedd_name for slot in found if slot.claim is not None}
        parent = found[0].parent if found else None
        if parent is None or len(parents) > 1 or len(holders) != 1:
            raise UserError("the claims are not dynamic slots of one partitionable slot")
        holder = found[0].claim.holder if found[0].claim is not None else None
        assert holder is not None
        for slot in found:
            self._moves.give_up(slot, f"the slot became part of another of {holder.schedd_name}", StopHow.FAST)
        offers = self._slots.offers_of(parent)
        if not offers:
            raise UserError(f"{parent.name} offers nothing")
        answer = await self._claims.request(
            peer,
            RequestClaim(
                claim_id=offers[0],
                job_ad=asked.job_ad,
                schedd_name=holder.schedd_name,
                submitter=holder.submitter,
                lease_s=asked.lease_s,
                alive_interval_s=asked.alive_interval_s,
            ),
        )
        return Coalesced(claim_id=offers[0] if answer.granted else "", answer=answer)

    def _idle(self, peer: Peer, claim_id: str) -> Slot:
        slot = self._claims.held_by(peer, claim_id)
        if slot is None:
            raise UserError("a claim is not good any more")
        if slot.state.where != (State.CLAIMED, Activity.IDLE):
            raise UserError(f"{slot.name} is {slot.state.state.value}/{slot.state.activity.value}")
        return slot
