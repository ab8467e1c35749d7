"""Whether a user is given another file agent when the last one has failed.

An agent runs as its user, who can stop it or kill it. One that fails is replaced, after a pause that grows; when
agents of a user have failed again and again, with nothing done in between, the user gets none for a while, and what
waits for one is given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAILURES_MIN: Final = 3
PAUSE_FIRST_S: Final = 0.1
PAUSE_MAX_S: Final = 30.0
REFUSED_S: Final = 300.0


@dataclass
class AgentTrust:
    """One user's."""

    _failures: int = 0
    _since: float = 0.0
    _refused_until: float = 0.0

    def failed(self, now: float, patience_s: float) -> bool:
        """An agent could not be started, or ended by itself; whether that was once too often."""
        if self._failures == 0:
            self._since = now
        self._failures += 1
        # Both: a burst of failures may be one moment's full memory, and one failure an hour ago is no pattern.
        if self._failures < FAILURES_MIN or now - self._since < patience_s:
            return False
        self._failures, self._refused_until = 0, now + REFUSED_S
        return True

    def worked(self) -> None:
        """An agent has done what it was asked."""
        self._failures = 0

    def refuses(self, now: float) -> bool:
        """Whether the user is to have none now."""
        return now < self._refused_until

    @property
    def pause_s(self) -> float:
        """How long to wait before the next one is started."""
        return min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** (self._failures - 1)) if self._failures else 0.0
