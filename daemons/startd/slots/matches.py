"""What the negotiator tells of matches, where it does (NEGOTIATOR_INFORM_STARTD).

A slot that is free goes Matched, so that the pool sees for whom it waits; one with a job in it only takes no other
match. Either waits for MATCH_TIMEOUT and not longer. A partitionable slot stays as it is: the match is about a piece
that does not exist yet, and the rest of the slot is free for others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from daemons.startd.slots.moves import Moves
from daemons.startd.slots.slot import Slot, Slots
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import Event, State, can
from protocol.messages.startd import MatchMade
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.wire.message import DONE, Done


class Matches:
    """The handler of the negotiator's notices; `clear` gets a slot out of the backfill client's hands."""

    def __init__(self, slots: Slots, moves: Moves, clear: Callable[[Slot], Awaitable[None]]) -> None:
        self._slots = slots
        self._moves = moves
        self._clear = clear

    def answers(self) -> list[Answer]:
        """What the negotiator tells."""
        return [answer(MatchMade, self.match_made)]

    async def match_made(self, peer: Peer, told: MatchMade) -> Done:
        """Slots are given to schedds; or a schedd does not want them after all."""
        for claim_id in told.claim_ids:
            if told.over:
                self._moves.match_over(claim_id)
            elif (slot := self._expecting(claim_id)) is not None:
                await self._promise(slot, claim_id)
        return DONE

    async def _promise(self, slot: Slot, claim_id: str) -> None:
        if slot.state.state is State.BACKFILL:
            await self._clear(slot)
        if self._expecting(claim_id) is slot:  # it may have been claimed while the backfill client left
            self._moves.matched(slot, claim_id)

    def _expecting(self, claim_id: str) -> Slot | None:
        """The slot that can wait for a claim with this id; None where the claim has come before the notice."""
        slot = self._slots.offering(claim_id)
        if slot is None or slot.promised == claim_id or slot.kind is SlotKind.PARTITIONABLE or self._moves.stopping:
            return None
        free = slot.state.state is State.BACKFILL or can(slot.state, Event.MATCH)
        return slot if free or slot.state.state is State.CLAIMED else None
