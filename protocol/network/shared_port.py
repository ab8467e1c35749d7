"""The preface of a shared port: a few bytes in clear that name the daemon, before TLS begins.

Its length is fixed, so that whoever reads it takes nothing of what follows. A connection that begins with TLS at once
is for the default daemon.
"""

from __future__ import annotations

import os
from typing import Final

from pool.base.errors import PeerError

MAGIC: Final = b"MPSP1 "
NAME_BYTES: Final = 64
PREFACE_BYTES: Final = len(MAGIC) + NAME_BYTES + 1
TLS_FIRST_BYTE: Final = 0x16
DEFAULT_DAEMON: Final = "collector"
_LETTERS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@-")


def preface(name: str) -> bytes:
    """The bytes that ask for the daemon `name`."""
    encoded = name.encode("ascii", "replace")
    if not _is_name(encoded):
        raise PeerError(f"{name[:80]!r} is not the name of a daemon", expected="1 to 64 of A-Z a-z 0-9 _ . @ -")
    return MAGIC + encoded.ljust(NAME_BYTES) + b"\n"


def _is_name(name: bytes) -> bool:
    return 1 <= len(name) <= NAME_BYTES and _LETTERS.issuperset(name)


def begins_well(data: bytes) -> bool:
    """Whether these first bytes can still become a preface."""
    return data[: len(MAGIC)] == MAGIC[: len(data)]


def read_preface(data: bytes) -> str:
    """The daemon's name from a whole preface; PeerError when it is none."""
    if len(data) != PREFACE_BYTES or not data.startswith(MAGIC) or not data.endswith(b"\n"):
        raise PeerError("the connection does not begin with the shared port's preface")
    name = data[len(MAGIC) : -1].rstrip(b" ")
    if not _is_name(name):
        raise PeerError("the preface names no daemon")
    return name.decode("ascii")


def endpoint(run: str, name: str) -> str:
    """The unix socket at which a daemon takes the connections that the shared port passes on."""
    return os.path.join(run, f"{name}.port")
