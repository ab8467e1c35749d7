"""Watches the thin pool that sandboxes are made in: while it is full the slots take no more jobs, and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from daemons.daemon_core.run import DaemonStart
from daemons.host.volumes.lvm import pool_use
from daemons.startd.machine.findings import Findings
from pool.base.errors import PoolError
from pool.execute.scratch import Store
from pool.execute.thin_pool import REFUSE_PERCENT

if TYPE_CHECKING:
    from daemons.startd.slots.ads import Ads

LOOK_S: Final = 30.0


async def watch_pool(start: DaemonStart, store: Store, ads: Ads, found: Findings) -> None:
    """Look now and then; where there is no thin pool, there is nothing to do."""
    while store.pool:
        try:
            use = await start.world.threads.run_sync(pool_use, store.group, store.pool)
            trouble = use.trouble(f"{store.group}/{store.pool}", REFUSE_PERCENT)
        except PoolError as error:
            # A pool that cannot be looked at may be full: no job is risked.
            trouble = str(error)
        if trouble != ads.scratch_trouble:
            said = f"No more jobs: {trouble}" if trouble else "Jobs have disk again."
            start.log.always(said)
            ads.scratch_trouble = trouble
            found.learn({"ScratchOfflineReason": trouble})
        await trio.sleep(LOOK_S)
