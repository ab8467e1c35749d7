"""How long a client looks for a daemon that has left, and how often; without a clock of its own.

A schedd that restarts is back within seconds, so who waits for jobs tries again, and goes on where it was.
"""

from __future__ import annotations

from typing import Final

from pool.base.errors import PeerError
from protocol.rpc.remote import TimedOut

RECONNECT_S: Final = 300.0
"""How long a daemon may be gone before whoever waits for jobs gives up, unless a timeout ends that earlier."""
CONNECT_S: Final = 20.0
"""How long one attempt to connect may take."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0


class Attempts:
    """The attempts of one call. `deadline` is when it must be over; None: whenever that is."""

    def __init__(self, now: float, timeout: float | None) -> None:
        self.timeout = timeout
        self.deadline = None if timeout is None else now + timeout
        self._given_up: float | None = None
        self._pause = FIRST_PAUSE_S

    def heard(self) -> None:
        """The daemon has said something: if it leaves again, that is another time."""
        self._given_up = None

    def pause(self, now: float, error: PeerError) -> float:
        """How long to wait before the next attempt, after this error; raises it when that has lasted too long."""
        if self._given_up is None:
            self._given_up, self._pause = now + RECONNECT_S, FIRST_PAUSE_S
        if self.deadline is not None and now >= self.deadline:
            raise TimedOut(f"nothing was answered within {self.timeout:g} s: {error}") from error
        if now >= self._given_up:
            raise error
        # Longer each time: a schedd with a long queue takes a while to read it, and many clients look for it at once.
        pause, self._pause = self._pause, min(LONGEST_PAUSE_S, self._pause * 2)
        return pause if self.deadline is None else min(pause, self.deadline - now)

    def left(self, now: float) -> float | None:
        """The seconds that are left; None when there is no timeout."""
        return None if self.deadline is None else max(0.0, self.deadline - now)

    def connecting(self, now: float) -> float:
        """How long one attempt to connect may take."""
        left = self.left(now)
        return CONNECT_S if left is None else min(CONNECT_S, left)

    def rest(self, now: float, seconds: float) -> float:
        """So many seconds, or those that are left; TimedOut when none are."""
        left = self.left(now)
        if left == 0:
            raise TimedOut(f"it was not over within {self.timeout:g} s")
        return seconds if left is None else min(seconds, left)
