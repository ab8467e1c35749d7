"""The further pools that this schedd's jobs may run in: a negotiation and ads for each (`pool.jobs.waiting.flocking`).

A pool hears of a submitter as soon as the pools before it have left jobs without a slot. What it offers is claimed and
run as at home; such a claim knows its pool, and takes jobs only that may run there.

HTCondor's manual: grid-computing/connecting-pools-with-flocking.
"""

from __future__ import annotations

import trio

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


class Flocking:
    """All further pools, as the schedd found them configured when it started."""

    def __init__(self, core: Core, claims: Claims, turns: TransferTurns, home: Place) -> None:
        self._core, self._claims = core, claims
        self.levels: FlockLevels = home.levels
        self.pools = core.settings.flock.pools
        start = core.start
        self._negotiations = [
            Negotiation(core, claims, turns, self._place(number, pool)) for number, pool in enumerate(self.pools, 1)
        ]
        self.adverts = [
            Adverts(start, (replace(collector_at(start.config, pool.name), pool=ANY),)) for pool in self.pools
        ]
        for negotiation in self._negotiations:
            negotiation.service.offer(negotiation.answers())
        home.level_changed = self.level_changed

    def _place(self, number: int, pool: FlockPool) -> Place:
        core = self._core

        def wanted(group: WaitingGroup) -> bool:
            job = group.first()
            if job is None or self.levels.level(group.submitter) < number:
                return False
            return core.settings.flock.may_flock(core.queue.ad(job), pool.name)

        def addresses(config: Config) -> list[Address]:
            return [replace(negotiator_at(config, pool.negotiator), pool=ANY)]

        place = Place(self.levels, core.holdings_in(pool.name), addresses, wants=wanted, pool=pool.name, level=number)
        place.level_changed = self.level_changed
        return place

    def work_changed(self, more: bool) -> None:
        """What waits has changed."""
        for negotiation in self._negotiations:
            negotiation.work_changed(more)

    def reconfigured(self) -> None:
        """Other jobs than before may flock, or sooner; to other pools only after a restart."""
        self.levels.reconfigured(self._core.settings.flock)
        for claim in self._claims.all():
            claim.fits.clear()
        self.work_changed(True)

    def level_changed(self, submitter: str) -> None:
        """A submitter is known to more pools, or to fewer."""
        self._core.log.always(f"The flock level of {submitter} is {self.levels.level(submitter)} now.")
        self.work_changed(True)

    def begin(self, kept: Tasks) -> None:
        """Negotiate with the pools, and look after those of whose jobs no negotiator says anything."""
        if not self.pools:
            return
        for negotiation in self._negotiations:
            kept.keep(negotiation.run)
        for adverts in self.adverts:
            kept.keep(adverts.run)
        kept.keep(self._watch)

    async def _watch(self) -> None:
        core = self._core
        while True:
            interval_s = core.start.config.seconds("SCHEDD_INTERVAL")
            await trio.sleep(interval_s / 4)
            waiting = {group.submitter for group in core.waiting.groups()}
            for name in self.levels.quiet(waiting, trio.current_time(), QUIET_INTERVALS * interval_s):
                self.level_changed(name)
