"""The schedds that hold claims: the connection on which each spoke last, and what it is told on it."""

from __future__ import annotations

from collections.abc import Callable

from daemons.daemon_core.tasks import Tasks
from daemons.startd.slots.slot import Slot, Slots
from pool.base.errors import PeerError
from pool.classad import ClassAd
from pool.slots.state_machine import Activity, State
from protocol.messages.offers import ClaimChange, ClaimChanged, JobUsed
from protocol.rpc.endpoints import Peer


class ClaimHolders:
    """Their connections. `orphaned` takes a slot whose claim protects nothing and has nobody any more."""

    def __init__(self, tasks: Tasks, slots: Slots, orphaned: Callable[[Slot], None]) -> None:
        self._tasks = tasks
        self._slots = slots
        self._orphaned = orphaned
        self._peers: set[Peer] = set()

    def heard_from(self, slot: Slot, peer: Peer) -> None:
        """The claim's holder has spoken, over this connection."""
        slot.peer = peer
        if peer not in self._peers:
            self._peers.add(peer)
            self._tasks.once(self._until_lost, peer)

    def tell(self, slot: Slot, change: ClaimChange, reason: str, code: int = 0, subcode: int = 0) -> None:
        """Let the schedd know, if it is there; it asks after its claims when it comes back."""
        claim, peer = slot.claim, slot.peer
        if claim is None or peer is None or peer.closed.is_set():
            return
        word = ClaimChanged(
            claim=claim.claim_id.public(),
            change=change,
            reason=reason,
            activation=claim.activation.activation if claim.activation is not None else "",
            hold_code=code,
            hold_subcode=subcode,
        )
        self._tasks.once(_notify, peer, word)

    def tell_used(self, slot: Slot, ad: ClassAd) -> None:
        """Let the schedd know what the job uses, if it is there."""
        claim, peer = slot.claim, slot.peer
        if claim is None or claim.activation is None or peer is None or peer.closed.is_set():
            return
        word = JobUsed(claim=claim.claim_id.public(), activation=claim.activation.activation, ad=ad)
        self._tasks.once(_notify, peer, word)

    def give_up_orphan(self, slot: Slot) -> None:
        """The lease protects a job while its schedd is away. A claim without one protects nothing: a schedd that died
        before it knew of the claim never asks for it, and any other makes a new one."""
        if slot.peer is None or not slot.peer.closed.is_set() or slot.state.where != (State.CLAIMED, Activity.IDLE):
            return
        if slot.claim is not None and slot.claim.activation is None:
            self._orphaned(slot)

    async def _until_lost(self, peer: Peer) -> None:
        await peer.closed.wait()
        self._peers.discard(peer)
        for slot in self._slots:
            if slot.peer is peer:
                slot.freed.fire()
                self.give_up_orphan(slot)


async def _notify(peer: Peer, word: ClaimChanged | JobUsed) -> None:
    try:
        await peer.notify(word)
    except PeerError:
        pass  # it is gone; the lease takes care
