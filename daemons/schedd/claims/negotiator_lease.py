"""Which negotiator this schedd listens to: of several, the one that has its lease (`pool.hosts.leading`)."""

from __future__ import annotations

from collections.abc import Callable

import trio

from daemons.base.log import Log
from daemons.base.sync import Signal
from daemons.schedd.core.kept_leases import KeptLeases
from pool.base.errors import UserError
from pool.hosts.leading import Asked
from protocol.messages.offers import AskLease, LeaseAnswer
from protocol.rpc.endpoints import Peer


class NegotiatorLease:
    """The lease, and the connection that it is good on. `changed` fires when another connection may be meant.

    `kept` has, by `name`, what a schedd promised that was killed since.
    """

    def __init__(self, log: Log, moved: Callable[[], None], kept: KeptLeases, name: str) -> None:
        self._log, self._moved, self._kept, self._name = log, moved, kept, name
        self._lease = kept.recall(name)
        self._peer: Peer | None = None
        self._alone = False
        self._others: list[Peer] = []
        """Those that need no lease and come after `_peer`."""
        self.given = 0
        """Grows whenever a negotiator is to hear all that there is to say."""
        self.changed = Signal()

    @property
    def term(self) -> int:
        """The term of the negotiator that has the lease; 0 for one that needs none."""
        return 0 if self._alone else self._lease.term

    @property
    def is_given(self) -> bool:
        """Whether anybody is listened to now."""
        return self._peer is not None and not self._peer.closed.is_set() and self.serves(self._peer)

    def serves(self, peer: Peer) -> bool:
        """Whether what comes on this connection counts now."""
        if peer is not self._peer:
            return False
        return self._alone or self._lease.holder(trio.current_time()) is not None

    def alone(self, peer: Peer) -> None:
        """A negotiator that is not one of several is listened to while its connection lasts, where no other is."""
        if self._peer is None or self._peer.closed.is_set():
            self._peer, self._alone = peer, True
            self._begins()
        else:
            self._others.append(peer)

    def ended(self, peer: Peer) -> None:
        """Nobody speaks on this connection any more; the next one that needs no lease is listened to."""
        if peer in self._others:
            self._others.remove(peer)
        elif peer is self._peer and self._alone:
            self._peer, self._alone = None, False
            if self._others:
                self.alone(self._others.pop(0))

    def require(self, peer: Peer) -> None:
        """UserError where somebody without the lease offers something."""
        if not self.serves(peer):
            raise UserError("another negotiator has this schedd's lease, or nobody")

    async def ask(self, peer: Peer, request: AskLease) -> LeaseAnswer:
        """A negotiator wants the lease, or gives it back."""
        now = trio.current_time()
        if request.gives_back:
            self._give_back(peer, request, now)
            return LeaseAnswer(granted=False, term=self._lease.term)
        before = self._lease
        self._lease, said = before.ask(Asked(request.rank, request.term, request.lease_s, request.leads), now)
        if said.granted:
            await self._kept.keep(self._name, self._lease, request.lease_s)
            if (self._lease.rank, self._lease.term) != (request.rank, request.term):  # meanwhile it is another's
                return LeaseAnswer(granted=False, term=self._lease.term)
            anew = request.anew or peer is not self._peer or before.term != request.term or before.holder(now) is None
            self._peer, self._alone = peer, False
            if anew:
                self._log.always("Leases to a negotiator.", term=request.term, rank=request.rank, address=peer.address)
                self._begins()
        else:
            self._log.full("Refuses its lease.", asked=request.term, rank=request.rank, term=said.term)
        return LeaseAnswer(granted=said.granted, term=said.term, left_s=said.left_s)

    def _give_back(self, peer: Peer, request: AskLease, now: float) -> None:
        if peer is self._peer and self._lease.rank == request.rank:
            self._log.always("Has its lease back.", term=request.term, rank=request.rank)
            self._lease = self._lease.release(request.rank, now)

    def _begins(self) -> None:
        self.given += 1
        self.changed.fire()
        self._moved()  # whoever informed another negotiator sees that it does so no more
