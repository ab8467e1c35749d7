"""Hands out what a cycle has decided: each schedd is sent its matches and rejections on the connection that it made."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from daemons.negotiator.schedds import ScheddConnection, portions
from pool.base.errors import PeerError
from pool.matching import CyclePlan, HandedOut, Matched, Offers, Rejected
from protocol.messages.offers import MatchesTaken, NegotiatorReads, OfferedMatch, OfferMatches, RejectRequests
from protocol.rpc.endpoints import RemoteError


class HandingOut:
    """Notes who gets what, and says so. `timeout_s` is how long a schedd may take to answer."""

    def __init__(self, start: DaemonStart, offers: Offers, timeout_s: float) -> None:
        self._start, self._offers = start, offers
        self.timeout_s = timeout_s
        self.schedd_s = inf
        """NEGOTIATOR_MAX_TIME_PER_SCHEDD."""
        self.exprs: dict[str, str] = {}
        """What is put into the ads of matched jobs."""

    async def carry_out(self, plan: CyclePlan, schedds: list[ScheddConnection]) -> set[str]:
        """Send each schedd what is its; all schedds at once, and one that fails costs the others nothing.

        Answers the submitters of those that failed.
        """
        failed: set[str] = set()
        matches: dict[str, list[Matched]] = {}
        rejections: dict[str, list[Rejected]] = {}
        for matched in plan.matches:
            matches.setdefault(matched.request.schedd, []).append(matched)
        for rejected in plan.rejections:
            rejections.setdefault(rejected.request.schedd, []).append(rejected)
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self._start.log)
            for schedd in schedds:
                mine = matches.get(schedd.name, [])
                self._note(schedd, mine)
                numbered = [(schedd.offer(portion), portion) for portion in portions(mine)]
                tasks.once(self._tell, schedd, numbered, rejections.get(schedd.name, []), failed, plan)
        return failed

    async def agree(self, reads: frozenset[str], schedds: Iterable[ScheddConnection]) -> None:
        """Let schedds know what of jobs the negotiator reads: those in which that differs are not alike."""
        async with trio.open_nursery() as nursery:
            tasks = Tasks(nursery, self._start.log)
            for schedd in schedds:
                if not reads <= schedd.reads:
                    tasks.once(self._agree, schedd, reads)

    async def _agree(self, schedd: ScheddConnection, reads: frozenset[str]) -> None:
        wanted = schedd.requests
        try:
            request = NegotiatorReads(attributes=sorted(reads))
            noted = await schedd.peer.call(request, timeout=self.timeout_s)
        except RemoteError as error:  # an older schedd: it goes on as it is
            self._start.log.always(f"Schedd {schedd.name} does not know which attributes count: {error}")
            schedd.reads = reads
            return
        except PeerError as error:
            self._start.log.always(f"Schedd {schedd.name} is not told which attributes count: {error}")
            schedd.peer.abort("it does not answer the negotiator")
            return
        schedd.reads = reads
        if noted.anew and schedd.requests is wanted:  # it may have said already what it wants now
            schedd.requests = []

    def _note(self, schedd: ScheddConnection, matches: list[Matched]) -> None:
        """Before anything is sent: whatever becomes of the message, nobody else gets these slots for now."""
        schedd.handed(matches)
        now = trio.current_time()
        for m in matches:
            room = tuple(one.claim_ids[0] for one in m.room)
            slot = m.room[0].name if m.room else m.slot
            self._offers.hand_out(HandedOut(m.claim_id, slot, schedd.name, m.taken, now, m.pieces, room[1:]))
            for one in m.room[1:]:
                self._offers.hand_out(HandedOut(one.claim_ids[0], one.name, schedd.name, None, now))

    async def _tell(
        self,
        schedd: ScheddConnection,
        numbered: list[tuple[int, list[Matched]]],
        rejected: list[Rejected],
        failed: set[str],
        plan: CyclePlan,
    ) -> None:
        log, over_at = self._start.log, trio.current_time() + self.schedd_s
        try:
            for number, portion in numbered:
                if trio.current_time() >= over_at:
                    plan.schedds_out_of_time.add(schedd.name)
                    self._withdraw(schedd, number, portion)
                    continue
                taken = await self._offer(schedd, number, portion)
                log.say("D_MATCH", "Matches offered.", schedd=schedd.name, offered=len(portion), taken=taken.taken)
            if news := schedd.rejections(rejected):
                await schedd.peer.notify(RejectRequests(rejections=news))
        except PeerError as error:
            log.always(f"Schedd {schedd.name} does not take its matches: {error}")
            failed.update(matched.request.submitter for _, portion in numbered for matched in portion)
            # Its matches come free with the connection; it connects anew and says what it has.
            schedd.peer.abort("it does not answer the negotiator")

    def _withdraw(self, schedd: ScheddConnection, number: int, portion: list[Matched]) -> None:
        """There is no time to offer these to a schedd that takes so long: others may have the slots."""
        del schedd.offered[number]
        self._offers.give_back([matched.claim_id for matched in portion], schedd.name)

    async def _offer(self, schedd: ScheddConnection, number: int, portion: list[Matched]) -> MatchesTaken:
        matches = [OfferedMatch.of(matched, self.exprs) for matched in portion]
        return await schedd.peer.call(OfferMatches(matches=matches, number=number), timeout=self.timeout_s)
