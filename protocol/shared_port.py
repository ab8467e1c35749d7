"""The preface of a shared port: one line in clear that names the daemon, before TLS begins."""

from __future__ import annotations

import re
from typing import Final

from pool.errors import PeerError

MAGIC: Final = b"MPSP1 "
PREFACE_BYTES_MAX: Final = 80
_NAME: Final = re.compile(rb"[A-Za-z0-9_.-]{1,64}\Z")


def preface(name: str) -> bytes:
    """The line that asks for the daemon `name`."""
    encoded = name.encode("ascii", "replace")
    if not _NAME.match(encoded):
        raise PeerError(
            f"{name[:80]!r} is not the name of a daemon", expected="1 to 64 letters, digits, '_', '.' or '-'"
        )
    return MAGIC + encoded + b"\n"


def read_preface(line: bytes) -> str:
    """The daemon's name from a whole preface; PeerError when it is none."""
    if not line.startswith(MAGIC) or not line.endswith(b"\n"):
        raise PeerError("the connection does not begin with the shared port's preface")
    name = line[len(MAGIC) : -1]
    if not _NAME.match(name):
        raise PeerError("the preface names no daemon")
    return name.decode("ascii")
