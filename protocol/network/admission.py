"""Which connections a process lets in, and which one goes when there is no room: one book for all of its listeners.

A connection is a stranger until it has authenticated: of strangers, each account (by the kernel's word) or address has
so many. Then it is a user's, and counted as one of theirs, wherever it came from; hundreds of hosts behind one address
are no crowd. The pool's own (root, its owner, its hosts) are counted against the total alone, of which some places are
kept for them.

Where there is no place left, whoever has most gives one up: of all strangers the oldest of the largest crowd goes, and
when there are none, the user's with the most connections that has been idle for the longest time. So nobody's flood
costs anybody else a connection.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import trio

from protocol.network.refusals import Refusals

OWN_FILES_MAX: Final = 256
"""How many descriptors a process keeps for its files and for those whom it connects to itself."""
NOBODY: Final = ""
LONG_BYTES_MAX: Final = 64 * 1024 * 1024
"""What one user's long messages may have together, from their first byte to their answer."""


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """How many connections of whom, and how long they may take. `files_max`: the descriptors the process may have."""

    files_max: int = field(default_factory=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    strangers_max: int = 1000  # of one account or address
    user_max: int = 5000
    calls_max: int = 2000  # of one user, on all connections
    first_byte_s: float = 2.0
    handshake_s: float = 20.0
    idle_s: float = 1200.0

    @property
    def total(self) -> int:
        """All connections."""
        # A quarter at most: a process with few descriptors must still be able to answer somebody.
        return self.files_max - min(OWN_FILES_MAX, self.files_max // 4)

    @property
    def others_max(self) -> int:
        """All connections of others than the pool's own."""
        # An eighth is kept for daemons: a pool whose users fill every place must still match jobs.
        return self.total - self.total // 8

    @property
    def strangers_of_one_max(self) -> int:
        """Those of one account or address that have not authenticated: never so many that others find no room."""
        return min(self.strangers_max, self.others_max // 4)

    @property
    def user_of_one_max(self) -> int:
        """Those of one user."""
        return min(self.user_max, self.others_max // 2)


@dataclass(eq=False, slots=True)
class UserShare:
    """What one user has of a process: connections, the oldest first, calls under way, and bytes of long messages."""

    name: str
    places: dict[ConnectionPlace, None] = field(default_factory=dict)
    calls: int = 0
    long_bytes: int = 0
    _given: trio.Event = field(default_factory=trio.Event)

    async def take(self, size: int) -> None:
        """Wait until there is room for a long message; for one there always is, when it is the only one."""
        while self.long_bytes and self.long_bytes + size > LONG_BYTES_MAX:
            await self._given.wait()
        self.long_bytes += size

    def give(self, size: int) -> None:
        """It has been dealt with."""
        if size:
            self.long_bytes -= size
            given, self._given = self._given, trio.Event()
            given.set()


@dataclass(eq=False, slots=True)
class ConnectionPlace:
    """One connection. `drop(reason)` ends it; `is_idle()` tells whether nothing is asked on it now."""

    share: UserShare
    drop: Callable[[str], None]
    is_ours: bool = False
    is_known: bool = False
    is_idle: Callable[[], bool] = lambda: True


class Admission:
    """The book."""

    def __init__(self, bounds: ConnectionBounds | None = None) -> None:
        self.bounds = bounds or ConnectionBounds()
        self.refusals = Refusals()
        self._strangers: dict[str, UserShare] = {}
        self._users: dict[str, UserShare] = {}
        self._ours = UserShare("")
        self._others = 0

    def enter(self, origin: str, drop: Callable[[str], None], *, is_ours: bool = False) -> ConnectionPlace | None:
        """A place for what has just been accepted; None when there is none. `origin` is its account or address."""
        if is_ours:
            return self._put(ConnectionPlace(self._ours, drop, is_ours=True)) if self._has_room(origin, True) else None
        crowd = self._strangers.get(origin)
        if crowd is not None and len(crowd.places) >= self.bounds.strangers_of_one_max:
            self._drop(next(iter(crowd.places)), f"too many of {origin} have not authenticated")
        if not self._has_room(origin, False):
            return None
        return self._put(ConnectionPlace(self._strangers.setdefault(origin, UserShare(origin)), drop))

    def know(self, place: ConnectionPlace, user: str, *, is_ours: bool) -> bool:
        """Whose connection it is: whether it may stay."""
        self.leave(place)
        place.is_known, place.is_ours = True, is_ours
        if is_ours:
            place.share = self._ours
        else:
            place.share = self._users.setdefault(user, UserShare(user))
            if len(place.share.places) >= self.bounds.user_of_one_max:
                idle = next(self._idle(place.share), None)
                if idle is None:
                    return False
                self._drop(idle, f"{user} has too many connections")
                place.share = self._users.setdefault(user, UserShare(user))
        self._put(place)
        return True

    def leave(self, place: ConnectionPlace) -> None:
        """It is closed; again is fine."""
        share = place.share
        if place not in share.places:
            return
        del share.places[place]
        if share is self._ours:
            return
        self._others -= 1
        if not share.places and not share.calls:
            (self._users if place.is_known else self._strangers).pop(share.name, None)

    def begin_call(self, place: ConnectionPlace) -> bool:
        """One more call of the place's user: whether there may be."""
        share = place.share
        if not place.is_ours and share.calls >= self.bounds.calls_max:
            return False
        share.calls += 1
        return True

    def end_call(self, place: ConnectionPlace) -> None:
        """It is answered."""
        share = place.share
        share.calls -= 1
        if not share.places and not share.calls and not place.is_ours:
            self._users.pop(share.name, None)

    def make_room(self, origin: str = NOBODY) -> bool:
        """Have the largest crowd give up a connection, where it has more than `origin`; whether one did."""
        crowd = max(self._strangers.values(), key=_size, default=None)
        mine = len(self._strangers[origin].places) if origin in self._strangers else 0
        if crowd is not None and (crowd.name == origin or len(crowd.places) > mine + 1):
            self._drop(next(iter(crowd.places)), "room is needed, and it has not authenticated")
            return True
        return self._make_users_room(origin)

    def _make_users_room(self, origin: str) -> bool:
        crowd = max(self._users.values(), key=_size, default=None)
        if crowd is None or not crowd.places:
            return False
        mine = self._users.get(origin)
        if mine is not None and len(mine.places) >= len(crowd.places):
            crowd = mine
        victim = next(self._idle(crowd), None)
        if victim is None and crowd is not mine:
            victim = next(iter(crowd.places))
        if victim is None:
            return False
        self._drop(victim, f"room is needed, and {crowd.name} has most connections")
        return True

    def _has_room(self, origin: str, is_ours: bool) -> bool:
        """Whether one more finds a place, when need be that of another."""
        bounds = self.bounds
        if self._others + len(self._ours.places) < bounds.total and (is_ours or self._others < bounds.others_max):
            return True
        return self.make_room(origin)

    @staticmethod
    def _idle(share: UserShare) -> Iterator[ConnectionPlace]:
        return (place for place in share.places if place.is_idle())

    def _put(self, place: ConnectionPlace) -> ConnectionPlace:
        place.share.places[place] = None
        if not place.is_ours:
            self._others += 1
        return place

    def _drop(self, place: ConnectionPlace, reason: str) -> None:
        self.leave(place)
        self.refusals.say(place.share.name, f"a connection of {place.share.name} is dropped: {reason}")
        place.drop(reason)


def _size(share: UserShare) -> int:
    return len(share.places)
