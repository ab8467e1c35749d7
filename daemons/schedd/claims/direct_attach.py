"""Slots that a startd gives to this schedd alone (STARTD_DIRECT_ATTACH_SCHEDD_NAME): they are matched here.

The decision is the negotiator's own, `pool.matching`, with one schedd's jobs and one startd's slots; what each
submitter is due follows from what he holds at this schedd. What is matched takes the way of every match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from daemons.base.pace import Pace
from daemons.daemon_core.senders import may_give
from daemons.schedd.claims.claims import Claims
from daemons.schedd.claims.negotiate import Negotiation
from daemons.schedd.core.core import Core
from pool.ads.limits import daemon_limits
from pool.base.errors import UserError
from pool.matching.rounding import rounding
from protocol.messages.collector import AdUpdate
from protocol.messages.offers import ATTACHED_SLOTS_MAX, AttachSlots, MatchesTaken, OfferedMatch
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.authorize import Denied

if TYPE_CHECKING:
    from pool.matching import CyclePlan, Offer

PAIRS_IN_PLACE_MAX: Final = 64
"""So few pairs of a request and a slot are matched sooner than a thread would be found."""


class DirectAttach:
    """The handler of startds' offers."""

    def __init__(self, core: Core, claims: Claims, negotiation: Negotiation) -> None:
        self._core = core
        self._claims = claims
        self._negotiation = negotiation
        self._turn = trio.Lock()

    def answers(self) -> list[Answer]:
        """Offers of slots."""
        return [answer(AttachSlots, self.offered)]

    async def offered(self, peer: Peer, request: AttachSlots) -> MatchesTaken:
        """Put the slots to work, as far as jobs want them."""
        if len(request.slots) > ATTACHED_SLOTS_MAX:
            raise UserError(f"{len(request.slots)} slots are offered at once", expected=f"at most {ATTACHED_SLOTS_MAX}")
        slots, pace = [], Pace()
        for update in request.slots:
            slots.append(self._own_slot(peer, update))
            await pace.breathe()
        async with self._turn:  # each offer sees what the one before has left
            plan = await self._plan(slots, request.submitter)
            taken = sum(self._claims.take(OfferedMatch.of(matched, {})) for matched in plan.matches)
        said = f"{peer} offers {len(slots)} slots to this schedd alone; {taken} jobs take them."
        self._core.log.say("D_ALWAYS" if taken else "D_FULLDEBUG", said)
        return MatchesTaken(taken=taken)

    def _own_slot(self, peer: Peer, update: AdUpdate) -> AdUpdate:
        """The same; Denied when the slot is not the peer's own."""
        ad = update.ad.copy()
        name = ad.eval_str("Name", "")
        if ad.eval_str("MyType") != "Machine" or not may_give(peer, ad):
            self._core.log.always(f"{peer} offers a slot that is not its own: {name}.")
            raise Denied(f"the slot {name} does not belong to {peer.host_name or peer.identity}")
        daemon_limits(self._core.start.config).check(ad, f"the ad of the slot {name:.80}")
        ad["AuthenticatedIdentity"] = peer.identity
        return AdUpdate(ad=ad, private=update.private)

    async def _plan(self, slots: Sequence[AdUpdate], submitter: str) -> CyclePlan:
        """Which slots are for which jobs."""
        from pool.matching import CycleSettings, Snapshot, Standing, negotiate  # most schedds never need it

        core = self._core
        generation, pace = core.autoclusters.generation, Pace()
        for slot in slots:
            core.autoclusters.learn_slot(slot.ad)
            await pace.breathe()
        if core.autoclusters.generation != generation:
            core.sort_waiting()
            core.work_changed(True)
        requests = [
            one.at(core.settings.name)
            for one in self._negotiation.requests()
            if not submitter or one.submitter == submitter
        ]
        settings = CycleSettings(rounding=rounding(core.start.config))
        offers = self._offers(slots)
        held = core.holdings.by_submitter
        standings = {name: Standing(use=one.weight, slots=one.slots) for name, one in held.items()}
        snapshot = Snapshot(offers, requests, standings, settings, core.now())
        if len(offers) * len(requests) <= PAIRS_IN_PLACE_MAX:
            return negotiate(snapshot)
        return await core.start.world.threads.run_sync(negotiate, snapshot)

    def _offers(self, slots: Sequence[AdUpdate]) -> list[Offer]:
        """The slots that may be matched. One of which a claim is being asked already may not: its ad is older."""
        from pool.matching import Offers

        found = Offers()
        for slot in slots:
            found.put(slot.ad, slot.private)
        return [one for one in found.current() if not any(map(self._claims.has, one.claim_ids))]
