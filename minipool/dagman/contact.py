"""Whether the schedd is there, as condor_dagman's log tells it: at once when it is lost, and when it is there again.

Nodes' jobs run on meanwhile, and nothing new begins: so the log says why a graph stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

SAY_AGAIN_S: Final = 300.0
"""How often the log says that it is still gone."""


class Contact:
    """The connection to the schedd, as it is made and lost; `say` writes a line of the log."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since: float | None = None
        self._said_at = 0.0
        self._was_there = False

    def made(self) -> None:
        """There is a connection."""
        self._was_there = True
        if self._since is not None:
            self._say(f"The schedd is there again, after {trio.current_time() - self._since:.1f} s")
            self._since = None

    def lost(self, why: str) -> None:
        """The connection is lost, or there is none yet: each failed attempt to make one says so again."""
        now = trio.current_time()
        if self._since is None:
            self._since = self._said_at = now
            self._say(f"{'Lost the schedd' if self._was_there else 'No schedd yet'} ({why}); trying until it is there")
        elif now - self._said_at >= SAY_AGAIN_S:
            self._said_at = now
            self._say(f"Still no schedd after {now - self._since:.0f} s ({why})")
