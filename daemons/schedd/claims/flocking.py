"""The further pools that this schedd's jobs may run in: a negotiation and ads for each (`pool.jobs.waiting.flocking`).

A pool hears of a submitter as soon as the pools before it have left jobs without a slot. What it offers is claimed and
run as at home; such a claim knows its pool, and takes jobs only that may run there.

HTCondor's manual: grid-computing/connecting-pools-with-flocking.
"""

from __future__ import annotations

import trio

from daemons.base.sync import first_of
from daemons.daemon_core.adverts import Adverts
from daemons.daemon_core.locate import collector_at, negotiator_at
from daemons.daemon_core.tasks import Tasks
from daemons.schedd.claims.claims import Claims
from daemons.schedd.claims.negotiate import Negotiation, Place
from daemons.schedd.core.core import Core
from daemons.schedd.files.transfer_turns import TransferTurns
from pool.config import Config
from pool.jobs.waiting.flocking import QUIET_INTERVALS, FlockLevels, FlockPool
from pool.jobs.waiting.groups import WaitingGroup
from protocol.security.other_pools import ANY
from protocol.wire.address import Address
from protocol.wire.message import replace


class _Further:
    """One pool: where it stands in the order (0: jobs do not flock there any more), and what is kept with it."""

    def __init__(self, place: Place, negotiation: Negotiation, adverts: Adverts) -> None:
        self.place, self.negotiation, self.adverts = place, negotiation, adverts
        self.left = trio.Event()
        """It is to be told no more of submitters."""
        self.over = trio.Event()
        """Nothing is held there any more either."""

    def leave(self) -> None:
        """Jobs that run there go on; others do not go there."""
        self.place.level = 0
        self.left.set()
        self.look()

    def look(self) -> None:
        """Whether anything is left to be said to its negotiator."""
        if self.left.is_set() and not self.place.holdings:
            self.over.set()


class Flocking:
    """All further pools, as FLOCK_TO names them now, and those that it named while something is still held there."""

    def __init__(self, core: Core, claims: Claims, turns: TransferTurns, home: Place) -> None:
        self._core, self._claims, self._turns = core, claims, turns
        self.levels: FlockLevels = home.levels
        self._kept: Tasks | None = None
        self._pools: dict[FlockPool, _Further] = {}
        self._left: list[_Further] = []
        home.level_changed = self.level_changed
        self._look_again()

    def adverts(self) -> dict[FlockPool, Adverts]:
        """What each pool is told of submitters, in the pools' order."""
        return {pool: one.adverts for pool, one in self._pools.items()}

    def _look_again(self) -> None:
        """Have what is kept with each pool that is named, and with no other."""
        before, named = self._pools, self._core.settings.flock.pools
        self._pools = {pool: before.get(pool) or self._begun(pool) for pool in named}
        for number, one in enumerate(self._pools.values(), 1):
            one.place.level = number
        for pool in before.keys() - self._pools.keys():
            self._core.log.always(f"Jobs flock to {pool.name} no more.")
            before[pool].leave()
            self._left.append(before[pool])

    def _begun(self, pool: FlockPool) -> _Further:
        start, place = self._core.start, self._place(pool)
        for one in self._left:  # it is back: this one says all that the other would
            if one.place.pool == pool.name:
                one.over.set()
        negotiation = Negotiation(self._core, self._claims, self._turns, place)
        negotiation.service.offer(negotiation.answers())
        one = _Further(place, negotiation, Adverts(start, (replace(collector_at(start.config, pool.name), pool=ANY),)))
        if self._kept is not None:
            self._keep(one, self._kept)
        return one

    def _place(self, pool: FlockPool) -> Place:
        core = self._core

        def wanted(group: WaitingGroup) -> bool:
            job = group.first()
            if job is None or not 0 < place.level <= self.levels.level(group.submitter):
                return False
            return core.settings.flock.may_flock(core.queue.ad(job), pool.name)

        def addresses(config: Config) -> list[Address]:
            return [replace(negotiator_at(config, pool.negotiator), pool=ANY)]

        place = Place(self.levels, core.holdings_in(pool.name), addresses, wants=wanted, pool=pool.name)
        place.level_changed = self.level_changed
        return place

    def work_changed(self, more: bool) -> None:
        """What waits has changed."""
        for one in (*self._pools.values(), *self._left):
            one.negotiation.work_changed(more)
            one.look()

    def reconfigured(self) -> None:
        """Other jobs than before may flock, or sooner, or to other pools."""
        self.levels.rules = self._core.settings.flock
        self._look_again()
        for claim in self._claims.all():
            claim.fits.clear()
        self.work_changed(True)

    def level_changed(self, submitter: str) -> None:
        """A submitter is known to more pools, or to fewer."""
        self._core.log.always(f"The flock level of {submitter} is {self.levels.level(submitter)} now.")
        self.work_changed(True)

    def begin(self, kept: Tasks) -> None:
        """Negotiate with the pools, and look after those of whose jobs no negotiator says anything."""
        self._kept = kept
        for one in self._pools.values():
            self._keep(one, kept)
        kept.keep(self._watch)

    def _keep(self, one: _Further, kept: Tasks) -> None:
        kept.keep(self._negotiate, one)
        kept.keep(first_of, one.adverts.run, one.left)

    async def _negotiate(self, one: _Further) -> None:
        await first_of(one.negotiation.run, one.over)
        if one in self._left:
            self._left.remove(one)

    async def _watch(self) -> None:
        core = self._core
        while True:
            interval_s = core.start.config.seconds("SCHEDD_INTERVAL")
            await trio.sleep(interval_s / 4)
            if not self._pools:
                continue
            waiting = {group.submitter for group in core.waiting.groups()}
            for name in self.levels.quiet(waiting, trio.current_time(), QUIET_INTERVALS * interval_s):
                self.level_changed(name)
