"""Who may do what: HTCondor's access levels, what one implies, and the ALLOW_* and DENY_* lists.

A level is had by a peer when a list of the administrator's allows it, or when the way it proved itself grants it (the
pool's own daemons, root and the pool's owner); unless a DENY_* list names it, which always wins. The scopes of a token
can only take away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from pool.base.errors import PeerError
from protocol.wire.message import Record


class Level(StrEnum):
    """An access level; the manual's names."""

    READ = "READ"
    WRITE = "WRITE"
    ADVERTISE_STARTD = "ADVERTISE_STARTD"
    ADVERTISE_SCHEDD = "ADVERTISE_SCHEDD"
    ADVERTISE_MASTER = "ADVERTISE_MASTER"
    DAEMON = "DAEMON"
    NEGOTIATOR = "NEGOTIATOR"
    ADMINISTRATOR = "ADMINISTRATOR"
    CONFIG = "CONFIG"
    OWNER = "OWNER"


_L = Level
ALL_LEVELS: Final = frozenset(Level)

IMPLIES: Final[Mapping[Level, frozenset[Level]]] = {
    _L.READ: frozenset(),
    _L.WRITE: frozenset({_L.READ}),
    _L.ADVERTISE_STARTD: frozenset({_L.READ}),
    _L.ADVERTISE_SCHEDD: frozenset({_L.READ}),
    _L.ADVERTISE_MASTER: frozenset({_L.READ}),
    _L.DAEMON: frozenset({_L.READ}),
    _L.NEGOTIATOR: frozenset({_L.READ}),
    _L.ADMINISTRATOR: frozenset({_L.READ, _L.WRITE}),
    _L.CONFIG: frozenset({_L.READ}),
    _L.OWNER: frozenset({_L.READ, _L.WRITE}),
}
"""What each level brings with it. DAEMON brings no WRITE: a daemon of the pool is nobody whose jobs a queue takes."""

HOST_PREFIX: Final = "host/"
"""How the identity of a host begins, `host/NAME@TRUST_DOMAIN`; no user's name has a slash."""

# A list that is not set is the list of this level instead.
FALLS_BACK: Final = {
    _L.ADVERTISE_STARTD: _L.DAEMON,
    _L.ADVERTISE_SCHEDD: _L.DAEMON,
    _L.ADVERTISE_MASTER: _L.DAEMON,
}


class Denied(PeerError):
    """A peer asked for what it has no level for."""


def implied(levels: Iterable[Level]) -> frozenset[Level]:
    """The levels and all that they bring with them."""
    found = set(levels)
    for level in tuple(found):
        found |= IMPLIES[level]
    return _shared(frozenset(found))


_sets: Final[dict[frozenset[Level], frozenset[Level]]] = {}


def _shared(levels: frozenset[Level]) -> frozenset[Level]:
    """The same set, one for all peers that have these levels: there are few different ones."""
    return _sets.setdefault(levels, levels)


class Caller(Record):
    """A peer as the lists see it: its mapped name, its address, and the names that its certificate proves."""

    user: str
    hosts: tuple[str, ...] = ()

    @property
    def is_host(self) -> bool:
        """Whether it is a host by its certificate, and no user."""
        return self.user.startswith(HOST_PREFIX)


class AccessEntry(Record):
    """One entry of a list: `user@domain/host`, either half alone, with `*` anywhere, or a network (10.0.0.0/8).

    `host/NAME@DOMAIN` is a host's identity, and may be followed by `/host`, as every identity may.
    """

    user: str
    host: str

    @classmethod
    def parse(cls, text: str) -> AccessEntry:
        """Read an entry as HTCondor does: without a slash, one with `@` is a user and any other a host."""
        if text.casefold().startswith(HOST_PREFIX):
            name, _, host = text[len(HOST_PREFIX) :].partition("/")
            return cls(user=HOST_PREFIX + name, host=host or "*")
        user, slash, host = text.partition("/")
        if slash and ("@" in user or user == "*"):
            return cls(user=user, host=host or "*")
        if not slash and ("@" in text or text == "*"):
            return cls(user=text, host="*")
        return cls(user="*", host=text)

    def matches(self, caller: Caller) -> bool:
        """Whether this entry speaks of the caller."""
        return _matches(caller.user, self.user) and (
            self.host == "*" or any(_host_matches(host, self.host) for host in caller.hosts)
        )

    def allows(self, caller: Caller) -> bool:
        """Whether this entry gives the caller a level: a host is only given one by an entry for hosts' identities.

        `*@pool` means the users of a pool. What its hosts may do follows from their duties.
        """
        return (self.user.startswith(HOST_PREFIX) or not caller.is_host) and self.matches(caller)


class AccessLists(Record):
    """The ALLOW_* and DENY_* lists of one daemon; a level without ALLOW list is granted by proof alone."""

    allow: Mapping[Level, tuple[AccessEntry, ...]] = {}
    deny: Mapping[Level, tuple[AccessEntry, ...]] = {}

    def levels(self, caller: Caller, granted: frozenset[Level] = frozenset()) -> frozenset[Level]:
        """All levels that the caller has; `granted` are those that the way it authenticated brings."""
        allowed = {level for level in Level if any(entry.allows(caller) for entry in _entries(self.allow, level))}
        had = implied(granted | allowed)
        denied = {level for level in had if any(entry.matches(caller) for entry in _entries(self.deny, level))}
        return _shared(had - denied)


def _entries(lists: Mapping[Level, tuple[AccessEntry, ...]], level: Level) -> tuple[AccessEntry, ...]:
    entries = lists.get(level)
    if entries is None and level in FALLS_BACK:
        entries = lists.get(FALLS_BACK[level])
    return entries or ()


def access_lists(allow: Mapping[str, Iterable[str]], deny: Mapping[str, Iterable[str]]) -> AccessLists:
    """The lists from their words, keyed by the name of the level."""
    return AccessLists(
        allow={Level(name): tuple(map(AccessEntry.parse, entries)) for name, entries in allow.items()},
        deny={Level(name): tuple(map(AccessEntry.parse, entries)) for name, entries in deny.items()},
    )


def _matches(text: str, pattern: str) -> bool:
    """`*` stands for anything; no other character is special."""
    if pattern == "*":
        return True
    first, *others = pattern.casefold().split("*")
    rest = text.casefold()
    if not others:
        return rest == first
    if not rest.startswith(first):
        return False
    rest = rest[len(first) :]
    # Each part at the first place where it fits: an earlier one leaves most room for those behind it.
    *between, last = others
    for part in between:
        at = rest.find(part)
        if at < 0:
            return False
        rest = rest[at + len(part) :]
    return rest.endswith(last)


def _is_network(text: str) -> bool:
    address, _, bits = text.partition("/")
    return bool(bits) and (bits.isdigit() or bits.count(".") == 3) and ("." in address or ":" in address)


def _host_matches(host: str, pattern: str) -> bool:
    if not _is_network(pattern):
        return _matches(host, pattern)
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(pattern, strict=False)
    except ValueError:  # a name, or a pattern that is no network after all
        return False
