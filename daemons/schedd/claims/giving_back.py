"""Giving a slot back: a notice, and what the startd says when it has ended the claim is the answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.schedd.claims.startd_link import ClaimGone
from pool.base.errors import PoolError
from pool.jobs.claims.events import NotHeld, ReleaseLost
from pool.jobs.claims.states import Releasing
from protocol.messages.common import StopHow
from protocol.messages.startd import ReleaseClaim

if TYPE_CHECKING:
    from daemons.schedd.claims.claims import Claims
    from daemons.schedd.core.claim import Claim


async def give_back(claims: Claims, claim: Claim) -> None:
    """Tell the startd that the slot is not needed; one that was asked for is not watched over yet."""
    startd, state = claims.startd(claim.startd), claim.life.state
    if isinstance(state, Releasing):
        startd.add(claim)
    how = StopHow.FAST if isinstance(state, Releasing) and state.fast else StopHow.GRACEFUL
    try:
        id = await startd.id_of(claim)
        peer = await startd.peer()
        await peer.notify(ReleaseClaim(claim_id=id, how=how, concluded=claim.life.is_concluded))
    except ClaimGone:
        claims.happens(claim, NotHeld())
    except PoolError as error:
        claims.core.log.full(f"{claim.slot_name} was not given back yet: {error}", claim=claim.public)
        claims.happens(claim, ReleaseLost())
