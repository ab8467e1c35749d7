"""Processes that a subreaper has inherited, and that nobody else waits for."""

from __future__ import annotations

from typing import Final

import trio

from daemons.base.linux import reap, zombie_children

POLL_S: Final = 5.0


async def reap_orphans() -> None:
    """Collect them, for ever. This process's own children have somebody who waits: they are no zombies for a round."""
    seen: set[int] = set()
    while True:
        await trio.sleep(POLL_S)
        zombies = zombie_children()
        for pid in seen & zombies:
            reap(pid)
        seen = zombies - seen
