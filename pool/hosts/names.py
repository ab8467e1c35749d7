"""What a host of the pool may be called: never by an address, and never so that it can be taken for another host."""

from __future__ import annotations

import re
from typing import Final

from pool.base.errors import UserError

_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\Z")
_NUMBER: Final = re.compile(r"([0-9]+|0[xX][0-9A-Fa-f]*)\Z")
"""A last label that makes resolvers read the whole as an IPv4 address: 127.1, 2130706433, 0x7f000001."""
_LENGTH_MAX: Final = 64
"""What the common name of a certificate has room for."""


def check_name(name: str) -> None:
    """UserError when this can be no host's name in a pool."""
    last = name.rpartition(".")[2]
    # RFC 1123, 2.1 for labels; what a resolver would take for an address could stand for any host.
    if len(name) > _LENGTH_MAX or not _NAME.match(name) or _NUMBER.match(last) or _is_loopback(name):
        raise UserError(
            f"{name[:80]!r} is not a name that a host can have",
            expected="a host name of its own, like node7.lab.example",
        )


def _is_loopback(name: str) -> bool:
    """Whether resolvers take it for whatever host they run on."""
    labels = name.casefold().split(".")
    return "localhost" in (labels[0], labels[-1])


def collide(one: str, other: str) -> bool:
    """Whether one name could be taken for the other: they are the same, or one is short for the other."""
    one, other = one.casefold(), other.casefold()
    return one == other or _is_short_for(one, other) or _is_short_for(other, one)


def _is_short_for(short: str, name: str) -> bool:
    # With a search domain in resolv.conf(5) a short name becomes the long one.
    return "." not in short and name.partition(".")[0] == short
