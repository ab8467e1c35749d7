"""One of several negotiators: hears from the others, and serves schedds only while they lease to it.

`pool.hosts.leading` decides; here is said and done what it asks for. A negotiator without HAD_LIST is alone: it leads
from the first moment on, and needs no lease.

Source: HTCondor's manual, "High Availability Configuration Options" (HAD_LIST and its kin).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from daemons.base.sync import Signal, first_of
from daemons.daemon_core.locate import candidates, collector_addresses
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.negotiator.replica import Replica
from daemons.negotiator.settings import own_name
from pool.base.errors import PoolError, UserError
from pool.classad import quote
from pool.hosts.daemon_names import names_host
from pool.hosts.leading import Agreed, Candidate, Effect, Event, Heard, Look, Refused, Role, step
from protocol.messages.collector import InvalidateAds
from protocol.messages.negotiator import MeetNegotiator, Met, Standing, Stands
from protocol.messages.offers import AskLease
from protocol.rpc import endpoints
from protocol.rpc.endpoints import Peer
from protocol.rpc.service import Answer, answer
from protocol.security.authorize import Denied

SILENCES: Final = 2
"""After so many times HAD_CONNECTION_TIMEOUT without a word another negotiator is taken to be gone."""
LEASES: Final = 3
"""For so many times HAD_CONNECTION_TIMEOUT a schedd's lease is good."""
BEATS: Final = 5
"""How often within HAD_CONNECTION_TIMEOUT a negotiator speaks, and looks."""


class _Schedd:
    """One that has come to this negotiator; `until` says how long its lease is good, by this host's clock."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.until, self.is_asked = peer, -inf, False


class Leading:
    """Whether this negotiator leads. `lost` hears of a schedd that it may not serve any more."""

    def __init__(self, start: DaemonStart, replica: Replica, lost: Callable[[str], None]) -> None:
        self._start, self._replica, self._lost = start, replica, lost
        self.changed = Signal()
        self._addresses = candidates(start.config, start.sock)
        self._timeout_s = max(0.1, start.config.seconds("HAD_CONNECTION_TIMEOUT"))
        self._schedds: dict[str, _Schedd] = {}
        self._tasks: Tasks | None = None
        self._me: Candidate | None = None
        if self._addresses:
            self._me = Candidate(
                self._addresses.index(None),
                len(self._addresses),
                SILENCES * self._timeout_s,
                trio.current_time(),
                yields=start.config.bool("HAD_USE_PRIMARY"),
            )
        self._met: set[Peer] = set()
        self._slice = self._slice_now()

    @property
    def leads(self) -> bool:
        """Whether this negotiator negotiates now."""
        return self._me is None or self._me.leads

    @property
    def candidate(self) -> Candidate | None:
        """How it stands among others; None where it is alone."""
        return self._me

    def leader(self) -> str:
        """Where the negotiator is that leads, for those who should ask it."""
        rank = self._me.leader(trio.current_time()) if self._me is not None else None
        return "nobody at present" if rank is None else str(self._addresses[rank] or self._start.address)

    def answers(self) -> list[Answer]:
        """What schedds and other negotiators say."""
        return [answer(MeetNegotiator, self.meet), answer(Standing, self.standing)]

    def meet(self, peer: Peer, request: MeetNegotiator) -> Met:
        """A schedd is there, for the time of its connection."""
        if peer.method == "SSL" and not names_host(request.schedd, peer.host_name):
            raise Denied(f"the schedd {request.schedd} does not belong to {peer.host_name}")
        self._met.add(peer)
        peer.on_close(self._met.discard)
        if self._me is not None:
            known = self._schedds[request.schedd] = _Schedd(peer)
            peer.on_close(lambda _peer: self._gone(request.schedd, known))
            if self._me.leads and self._tasks is not None:
                self._tasks.once(self._ask, request.schedd, known)
        return Met(leased=self._me is not None, slice=self._slice, name=self._start.address)

    def _slice_now(self) -> str:
        """Which slots it hands out, in words; where the central managers decide who leads, by its name alone."""
        start = self._start
        constraint = start.config["NEGOTIATOR_SLOT_CONSTRAINT"] or "" if self._me is None else ""
        return " ".join(filter(None, (start.local_name, constraint and f"({constraint})")))

    def reconfigured(self) -> None:
        """Where it is another slice now, schedds shall meet it anew."""
        before, self._slice = self._slice, self._slice_now()
        if self._slice != before and self._tasks is not None:
            for peer in list(self._met):
                self._tasks.once(peer.aclose, "this negotiator hands out other slots now")

    def standing(self, peer: Peer, request: Standing) -> Stands:
        """Another candidate says how it stands, and hears how this one does."""
        self._hear(request.mine)
        return self._stands()

    def check(self, peer: Peer, schedd: str) -> None:
        """UserError where this negotiator has not the schedd's lease on this connection."""
        known = self._schedds.get(schedd)
        if self._me is None:
            return
        mine = known is not None and known.peer is peer
        # It may announce work before this negotiator has read that it grants its lease.
        if known is None or not mine or not (known.is_asked or known.until > trio.current_time()):
            raise UserError(
                f"this negotiator has no lease of {schedd}; {self.leader()} leads",
                expected="a COLLECTOR_HOST that names all central managers, on the schedd's host",
            )

    async def run(self) -> None:
        """Take part, for ever; a negotiator that is alone leads."""
        async with trio.open_nursery() as nursery:
            self._tasks = Tasks(nursery, self._start.log)
            if self._me is None:
                await trio.sleep_forever()
            for rank in range(len(self._addresses)):
                if rank != self._me.rank:
                    self._tasks.keep(self._listen, rank)
            self._tasks.keep(self._renew)
            while True:
                self._happens(Look(len(self._schedds)))
                self._drop_over()
                await trio.sleep(self._timeout_s / BEATS)

    async def give_up(self) -> None:
        """Give leases back: this negotiator ends."""
        if self._me is not None and self._me.leads:
            with trio.move_on_after(self._timeout_s, shield=True):
                await self._release()

    # ---- what happens

    def _happens(self, event: Event) -> None:
        assert self._me is not None
        before = self._me
        self._me, effects = step(before, event, trio.current_time())
        for effect in effects:
            if self._tasks is not None:
                self._do(effect)
        if before.leads != self._me.leads:
            self.changed.fire()

    def _do(self, effect: Effect) -> None:
        assert self._me is not None
        assert self._tasks is not None
        match effect:
            case Effect.ASK:
                self._start.log.full("Asks schedds for their leases.", term=self._me.term)
                self._tasks.once(self._ask_all)
            case Effect.LEAD:
                self._start.log.always("Leads.", term=self._me.term, schedds=len(self._schedds))
                self._tasks.once(self._take_back_others)
            case Effect.RELEASE:
                self._start.log.always("Stands by.", term=self._me.term, leader=self.leader())
                for name in self._schedds:
                    self._lost(name)
                self._tasks.once(self._release)

    def _hear(self, said: Stands) -> None:
        if self._me is not None and 0 <= said.rank < self._me.ranks and said.rank != self._me.rank:
            self._happens(Heard(said.rank, said.leads, said.term, said.ready, said.seen))

    def _stands(self) -> Stands:
        if self._me is None:
            raise UserError("this negotiator has no HAD_LIST", expected="the same HAD_LIST on each central manager")
        me = self._me
        return Stands(rank=me.rank, term=me.term, leads=me.leads, ready=self._replica.ready, seen=me.highest)

    def _gone(self, name: str, known: _Schedd) -> None:
        if self._schedds.get(name) is known:
            del self._schedds[name]

    def _drop_over(self) -> None:
        """Schedds whose leases are over are served no more."""
        now = trio.current_time()
        for name, known in self._schedds.items():
            if -inf < known.until <= now:
                known.until = -inf
                self._start.log.always("A schedd's lease is over.", schedd=name)
                self._lost(name)

    # ---- schedds

    async def _ask_all(self) -> None:
        """Lead, when every schedd that answers grants its lease, and one does."""
        assert self._me is not None
        term = self._me.term
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self._start.log)
            for name, known in list(self._schedds.items()):
                tasks.once(self._ask, name, known)
        now = trio.current_time()
        self._happens(Agreed(term, sum(known.until > now for known in self._schedds.values())))

    async def _ask(self, name: str, known: _Schedd) -> None:
        assert self._me is not None
        me, sent_at, lease_s = self._me, trio.current_time(), LEASES * self._timeout_s
        anew = known.until == -inf and not known.is_asked
        request = AskLease(rank=me.rank, term=me.term, lease_s=lease_s, leads=me.leads, anew=anew)
        known.is_asked = True
        try:
            said = await known.peer.call(request, timeout=self._timeout_s)
        except PoolError as error:
            self._start.log.full(f"Schedd {name} does not say whether it leases: {error}")
            return
        finally:
            known.is_asked = False
        if said.granted and (self._me.term != me.term or self._me.role is Role.STANDBY):  # it is too late
            await self._give_back(known, AskLease(rank=me.rank, term=me.term, lease_s=0.0, gives_back=True))
        elif said.granted:
            known.until = sent_at + lease_s  # counted from before it was asked: never longer than the schedd's own
        else:
            self._start.log.full(f"Schedd {name} does not lease.", term=me.term, known=said.term, left_s=said.left_s)
            self._happens(Refused(me.term, said.term, said.left_s))

    async def _renew(self) -> None:
        while True:
            if self._me is not None and self._me.leads:
                async with trio.open_nursery() as nursery:
                    tasks = Tasks(nursery, self._start.log)
                    for name, known in list(self._schedds.items()):
                        tasks.once(self._ask, name, known)
            await first_of(self.changed, timeout_s=self._timeout_s)

    async def _release(self) -> None:
        assert self._me is not None
        request = AskLease(rank=self._me.rank, term=self._me.term, lease_s=0.0, gives_back=True)
        leased = [known for known in self._schedds.values() if known.until > -inf]
        for known in leased:
            known.until = -inf
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self._start.log)
            for known in leased:
                tasks.once(self._give_back, known, request)

    async def _give_back(self, known: _Schedd, request: AskLease) -> None:
        try:
            await known.peer.call(request, timeout=self._timeout_s)
        except PoolError:
            pass  # then the lease runs out

    # ---- other candidates

    async def _take_back_others(self) -> None:
        """Whoever has led before may have had no time to take his ad back, and tools would ask him."""
        start = self._start
        others = (
            f"Name != {quote(own_name(start.config))} && (HadControllee ?: {quote(start.name)}) == {quote(start.sock)}"
        )
        request = InvalidateAds(ad_type="Negotiator", constraint=f"HadIsActive =?= true && {others}")
        for address in collector_addresses(start.config):
            try:
                async with endpoints.connected(
                    address, security=start.security, network=start.world.network, timeout=self._timeout_s
                ) as peer:
                    await peer.call(request, timeout=self._timeout_s)
            except PoolError as error:
                start.log.full(f"The ad of the last leader stays at {address} until it expires: {error}")

    async def _listen(self, rank: int) -> None:
        """Hear how another stands, at short intervals, for ever."""
        start, address, said = self._start, self._addresses[rank], ""
        assert address is not None
        while True:
            try:
                async with endpoints.connected(
                    address, security=start.security, network=start.world.network, timeout=self._timeout_s
                ) as peer:
                    said = ""
                    await self._exchange(peer)
            except PoolError as error:
                if str(error) != said:
                    said = str(error)
                    start.log.always(f"No word of the negotiator at {address}: {error}")
            await trio.sleep(self._timeout_s / BEATS)

    async def _exchange(self, peer: Peer) -> None:
        async with trio.open_nursery() as nursery:
            following: trio.CancelScope | None = None
            while not peer.closed.is_set():
                try:
                    other = await peer.call(Standing(mine=self._stands()), timeout=self._timeout_s)
                except PoolError as error:
                    self._start.log.full(f"Another negotiator does not say how it stands: {error}")
                    break
                self._hear(other)
                follows = other.leads and not self.leads
                if follows and following is None:
                    following = trio.CancelScope()
                    nursery.start_soon(self._replica.follow, peer, following)
                elif not follows and following is not None:
                    following.cancel()
                    following = None
                await trio.sleep(self._timeout_s / BEATS)
            nursery.cancel_scope.cancel()
