"""Watches the thin pool that sandboxes are made in: while it is full the slots take no more jobs, and say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from daemons.host.volumes.lvm import pool_use
from pool.base.errors import PoolError
from pool.execute.thin_pool import REFUSE_PERCENT

if TYPE_CHECKING:
    from daemons.startd.main import Startd

LOOK_S: Final = 30.0


async def watch_pool(startd: Startd) -> None:
    """Look now and then; where there is no thin pool, there is nothing to do."""
    store, start = startd.disk.store, startd.start
    while store.pool:
        try:
            use = await start.world.threads.run_sync(pool_use, store.group, store.pool)
            trouble = use.trouble(f"{store.group}/{store.pool}", REFUSE_PERCENT)
        except PoolError as error:
            trouble = str(error)
        if trouble != startd.ads.scratch_trouble:
            said = f"No more jobs: {trouble}" if trouble else "Jobs have disk again."
            start.log.always(said)
            startd.ads.scratch_trouble = trouble
            startd.learn({"ScratchOfflineReason": trouble})
        await trio.sleep(LOOK_S)
