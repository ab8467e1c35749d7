"""Waiting for one of several things."""

from __future__ import annotations

import trio


async def either(*events: trio.Event) -> None:
    """Return when the first of the events is set."""
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait, event)
