"""What one user's connection may use of a process at a time: turns of the loop, calls, and room for long messages.

The pool's own connections have no stint: nothing is counted of them.
"""

from __future__ import annotations

from protocol.network import turns
from protocol.network.admission import Admission, ConnectionPlace


class Stint:
    """One connection's part of its user's share."""

    def __init__(self, admission: Admission, place: ConnectionPlace) -> None:
        self._admission, self._place = admission, place
        self._held = 0

    @property
    def user(self) -> str:
        """Whose share it is."""
        return self._place.share.name

    async def turn(self) -> None:
        """Wait until it is this user's turn."""
        await turns.of_loop().enter(self.user)

    def begin_call(self) -> bool:
        """One more call is answered; False when there are too many of the user's."""
        return self._admission.begin_call(self._place)

    def end_call(self, held: int) -> None:
        """It is; the `held` bytes of its message are free again."""
        self._place.share.give(held)
        self._admission.end_call(self._place)

    @property
    def holds(self) -> bool:
        """Whether it has room for the message under way."""
        return bool(self._held)

    async def hold(self, size: int) -> None:
        """Have room for a message of this size before it is read."""
        await self._place.share.take(size)
        self._held = size

    def hand_on(self) -> int:
        """What is held for the message that has just come: it is the caller's to give back."""
        held, self._held = self._held, 0
        return held

    def let_go(self) -> None:
        """Give back what is held."""
        self._place.share.give(self.hand_on())
