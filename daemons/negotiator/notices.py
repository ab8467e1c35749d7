"""Tells startds of matches (NEGOTIATOR_INFORM_STARTD), beside the cycle: no schedd waits for it.

A notice that is lost costs nothing: the schedd's claim is what counts, and a slot that waits in vain does so no longer
than MATCH_TIMEOUT. Pieces of partitionable slots have no state to change, so nothing is said of those.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

import trio

from daemons.daemon_core.locate import nearest
from daemons.daemon_core.run import DaemonStart
from daemons.daemon_core.tasks import Tasks
from pool.base.errors import PoolError
from pool.matching import Matched
from protocol.messages.startd import MatchMade
from protocol.rpc import endpoints

AT_ONCE_MAX: Final = 16
"""Most startds that are being told at a time."""
REMEMBERED_MAX: Final = 10_000
WAITING_MAX: Final = 10_000
"""Most notices that wait; while startds are that slow, further ones are not sent at all."""


class Notices:
    """What startds have to hear. `told` remembers where a claim id came from, for when it is returned."""

    def __init__(self, start: DaemonStart, timeout_s: float) -> None:
        self._start = start
        self.timeout_s = timeout_s
        self._told: OrderedDict[str, str] = OrderedDict()
        self._give, self._take = trio.open_memory_channel[tuple[str, MatchMade]](WAITING_MAX)

    def made(self, matches: Iterable[Matched]) -> None:
        """These slots have been given away."""
        by_startd: dict[str, list[str]] = {}
        for matched in matches:
            if matched.taken is None:
                by_startd.setdefault(matched.address, []).append(matched.claim_id)
        for address, ids in by_startd.items():
            for one in ids:
                self._told[one] = address
            self._put(address, MatchMade(claim_ids=ids))
        while len(self._told) > REMEMBERED_MAX:
            self._told.popitem(last=False)

    def returned(self, claim_ids: Sequence[str]) -> None:
        """A schedd does not want these after all."""
        for one in claim_ids:
            if (address := self._told.pop(one, None)) is not None:
                self._put(address, MatchMade(claim_ids=[one], over=True))

    def _put(self, address: str, notice: MatchMade) -> None:
        try:
            self._give.send_nowait((address, notice))
        except trio.WouldBlock:
            self._start.log.full(f"Startd {address} is not told of its match: {WAITING_MAX} notices wait already")

    async def run(self) -> None:
        """Tell, for ever."""
        limit = trio.Semaphore(AT_ONCE_MAX)
        async with trio.open_nursery() as nursery:
            async for address, notice in self._take:
                await limit.acquire()
                Tasks(nursery, self._start.log).once(self._tell, address, notice, limit)

    async def _tell(self, address: str, notice: MatchMade, limit: trio.Semaphore) -> None:
        start = self._start
        try:
            where = nearest(start.config, address)
            async with endpoints.connected(where, security=start.security, network=start.world.network) as peer:
                await peer.call(notice, timeout=self.timeout_s)
        except PoolError as error:
            start.log.full(f"Startd {address} was not told of its match: {error}")
        finally:
            limit.release()
