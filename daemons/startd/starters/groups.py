"""Whose a slot's control group is.

A group has the name of its slot, so the starter of the slot's next claim has the same one, perhaps while the starter of
the claim before still leaves. The group is the property of the starter that was last given a job there; what is left of
any other goes without it. A starter gets no group that is being swept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Groups:
    """The groups of one startd's slots, by name, with the process ids of the starters that hold them."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._sweeps: dict[str, trio.Event] = {}

    async def give(self, group: str, pid: int) -> None:
        """From now on the group (empty: there are none) is this starter's; a sweep of it that goes on comes first."""
        while (sweep := self._sweeps.get(group)) is not None:
            await sweep.wait()
        if group:
            self._holders[group] = pid

    @contextmanager
    def sweeping(self, group: str, pid: int) -> Iterator[bool]:
        """While this starter, which has ended, is swept: whether its group goes as well."""
        if self._holders.get(group) != pid:
            yield False
            return
        self._sweeps[group] = over = trio.Event()
        try:
            yield True
        finally:
            del self._holders[group], self._sweeps[group]
            over.set()
