"""One startd, as its schedd sees it: the connection, and the leases of the claims there.

While the connection is lost the claims live on until their leases run out, and whoever comes back first is taken up
where it was.

HTCondor's manual: users-manual/special-environment-considerations ("Job Leases"), ALIVE_INTERVAL.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from daemons.schedd.claims.whereabouts import is_same_host, startd_of
from daemons.schedd.core.claim import Claim
from pool.base.errors import PeerError, PoolError
from pool.base.ids import ClaimId
from pool.jobs.claims.events import Held, LinkLost, NotHeld, Spoken, Unreached
from protocol.messages.startd import ClaimAnswer, KeepAlive, ReconnectAnswer, ReconnectClaim, RequestClaim
from protocol.rpc import endpoints
from protocol.rpc.deadlines import LongWait
from protocol.rpc.endpoints import Peer
from protocol.rpc.peer import CALL_TIMEOUT_S
from protocol.security.needs import EXECUTE
from protocol.security.ticket import Bearer
from protocol.wire.address import Address, of_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemons.schedd.claims.claims import Claims
    from protocol.wire.message import Request

R = TypeVar("R")

REQUEST_CLAIM_S: Final = 1800.0
"""How long a job in the slot may take to make room for a better one."""
LINGER_S: Final = 300.0
"""How long the connection to a startd is kept when no claim is left there."""
RETRY_FIRST_S: Final = 0.2
RETRY_MAX_S: Final = 20.0


class ClaimGone(PeerError):
    """The startd says that it does not hold the claim any more."""


class StartdLink:
    """One startd: our connection to it, and the claims we hold there."""

    def __init__(self, address: str, claims: Claims) -> None:
        self.address = address
        self.claims: set[Claim] = set()
        self.asked_for = 0
        """Claims that were asked for and not answered yet."""
        self._all = claims
        self._core = claims.core
        self._peer: Peer | None = None
        self._connecting = trio.Lock()
        self._changed = trio.Event()
        self._renew_at = math.inf
        """When all claims are to be renewed next: those that come and go meanwhile do not put that off."""
        self._running = False
        self.is_local = claims.reach(address).is_unix

    async def peer(self) -> Peer:
        """The connection; PeerError when there can be none now."""
        if self._peer is not None and not self._peer.is_closed:
            return self._peer  # without the lock, which takes a turn of the loop
        async with self._connecting:
            if self._peer is None or self._peer.is_closed:
                start = self._core.start
                self._peer = await endpoints.open_peer(
                    self._core.tasks.nursery,
                    self._all.reach(self.address),
                    security=start.security,
                    network=start.world.network,
                    service=self._all.service,
                )
                self._peer.on_close(self._lost)
            return self._peer

    def speaks(self, peer: Peer) -> bool:
        """Whether this connection is the one to this startd."""
        return self._peer is peer

    @cached_property
    def starters(self) -> Bearer:
        """Who may show the ticket of a claim here: starters of this host, root's or the pool's; or that host."""
        if self.is_local:
            return Bearer(uids=[0, self._core.start.security.owner_uid])
        where = Address.parse(self.address)
        return Bearer(duty=EXECUTE, host=where.server_name, pool=where.pool)

    async def ask_for(self, request: RequestClaim) -> ClaimAnswer:
        """Ask for a claim; the connection is kept meanwhile."""
        self.asked_for += 1
        try:
            peer = await self.peer()
            return await peer.call(request, timeout=REQUEST_CLAIM_S)
        finally:
            self.asked_for -= 1

    def add(self, claim: Claim) -> None:
        """Keep this claim alive from now on."""
        self.claims.add(claim)
        self.renew_within(claim.alive_s)
        if not self._running:
            self._running = True
            self._core.tasks.start(self._keep)

    def renew_within(self, seconds: float) -> None:
        """Say within that time that the schedd lives, and not only when it was to be said anyway."""
        self._renew_at = min(self._renew_at, trio.current_time() + seconds)
        self._changed.set()

    def wake(self) -> None:
        """A claim may have to be asked after."""
        self._changed.set()

    def discard(self, claim: Claim) -> None:
        """The claim is no concern of ours any more."""
        self.claims.discard(claim)
        self._changed.set()

    def _lost(self, peer: Peer) -> None:
        self._changed.set()
        for claim in list(self.claims):
            self._all.happens(claim, LinkLost(f"The connection to {claim.slot_name or self.address} is lost"))

    async def _keep(self) -> None:
        """Renew leases while connected, reconnect while not, until no claim is left, nor any asked for of late."""
        retry_s = RETRY_FIRST_S
        while self.claims or await self._may_have_claims_soon():
            self._changed = trio.Event()
            if not self.claims:
                self._renew_at = math.inf
                continue
            if any(claim.life.asks_after for claim in self.claims):
                if await self._reconnect():
                    retry_s = RETRY_FIRST_S
                    continue
                self._expire()
                with LongWait(retry_s):
                    await self._changed.wait()
                retry_s = min(RETRY_MAX_S, 2 * retry_s)
                continue
            with LongWait(max(0.0, self._renew_at - trio.current_time())) as quiet:
                await self._changed.wait()
            if quiet.cancelled_caught and self.claims:
                await self._renew()
        self._running, self._renew_at = False, math.inf
        await self.rest()

    async def _may_have_claims_soon(self) -> bool:
        """Keep the connection for a while, so that the next claim need not make one."""
        self._changed = trio.Event()
        with LongWait(LINGER_S) as quiet:
            await self._changed.wait()
        connected = self._peer is not None and not self._peer.is_closed
        return bool(self.claims) or (connected and (self.asked_for > 0 or not quiet.cancelled_caught))

    async def _renew(self) -> None:
        self._renew_at = trio.current_time() + min(claim.alive_s for claim in self.claims)
        claims = [claim for claim in self.claims if claim.id is not None and claim.life.is_alive]
        try:
            peer = await self.peer()
            for claim in claims:
                self._all.happens(claim, Spoken())
            answer = await peer.call(KeepAlive(claim_ids=[str(claim.id) for claim in claims]))
        except PoolError as error:
            self._core.log.full(f"Keep-alive to {self.address} failed: {error}")
            return
        for claim, held in zip(claims, answer.held, strict=False):
            if held:
                self._all.renewed(claim)
            elif claim in self.claims:
                self._all.happens(claim, NotHeld())

    async def _reconnect(self) -> bool:
        """Ask after all claims that it is to be asked after; False when the startd cannot be reached."""
        try:
            await self.peer()
        except PoolError as error:
            self._core.log.full(f"No way back to {self.address} yet: {error}")
            await self._follow()
            return False
        try:
            for claim in list(self.claims):
                if claim.life.asks_after:
                    ran = what_runs(claim)
                    self._all.happens(claim, Spoken())
                    self._all.came_back(claim, ran, await self.ask_after(claim))
        except PoolError as error:
            self._core.log.full(f"No way back to {self.address} yet: {error}")
            return False
        return True

    async def ask_after(self, claim: Claim) -> ReconnectAnswer:
        """Whether the startd holds this claim, and what runs under it; the claim has its id again then."""
        peer = await self.peer()
        async with claim.asking:
            answer = await peer.call(
                ReconnectClaim(
                    digest=claim.digest,
                    needs_id=claim.id is None,
                    lease_s=claim.life.lease_s,
                    alive_interval_s=claim.alive_s,
                )
            )
            if answer.held and answer.claim_id:
                claim.id = ClaimId(answer.claim_id)
        return answer

    async def id_of(self, claim: Claim) -> str:
        """The claim's id, which the startd is asked for when only an earlier life of this schedd has known it."""
        if claim.id is None:
            self._all.happens(claim, Spoken())
            await self.ask_after(claim)
        if claim.id is None:
            raise ClaimGone(f"{self.address} does not hold the claim {claim.public} any more")
        return claim.id

    async def call(self, claim: Claim, request: Callable[[str], Request[R]], timeout: float = CALL_TIMEOUT_S) -> R:
        """What the startd answers to what `request` makes of the claim's id."""
        id = await self.id_of(claim)
        peer = await self.peer()
        self._all.happens(claim, Spoken())
        return await peer.call(request(id), timeout=timeout)

    async def _follow(self) -> None:
        """Nobody is here: the startd may have another address by now, and what it says there counts.

        On another host it counts only if the claim is known there: hosts may be mistaken for each other, and a job must
        not run twice.
        """
        first = next(iter(self.claims), None)
        address = ""
        if first is not None:
            address = await startd_of(self._core.start, first.slot_ad, first.pool)
            address = of_pool(address, Address.parse(self.address).pool)
        if not address or address == self.address:
            return
        there = self._all.startd(address)
        for claim in list(self.claims):
            ran = what_runs(claim)
            try:
                answer = await there.ask_after(claim)
            except PoolError as error:
                self._core.log.full(f"No way to {address}, where {self.address} may be now: {error}")
                break
            if claim in self.claims and (answer.held or is_same_host(address, self.address)):
                self._core.log.always(f"{claim.slot_name} is at {address} now.", claim=claim.public)
                self._all.moved(claim, address)
                self._all.came_back(claim, ran, answer)
        await there.rest()

    async def rest(self) -> None:
        """Close a connection that nobody needs."""
        if not self._running and not self.asked_for:
            peer, self._peer = self._peer, None
            if peer is not None:
                await peer.aclose()

    def _expire(self) -> None:
        for claim in list(self.claims):
            self._all.happens(claim, Unreached())


def what_runs(claim: Claim) -> Held:
    """What the claim runs now, for the startd's answer to be held against."""
    shadow = claim.shadow
    return Held() if shadow is None else Held(ran=shadow.activation, known=shadow.execution.known)
