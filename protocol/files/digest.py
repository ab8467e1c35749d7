"""What a file is known by: its SHA-256."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Final

PIECE: Final = 1024 * 1024
TEXT_MAX: Final = 64 * 1024 * 1024


def digest_of(path: str) -> str:
    """The digest of a file's bytes; of a link, that of where it leads."""
    if os.path.islink(path):
        return hashlib.sha256(os.readlink(path).encode("utf-8", "surrogateescape")).hexdigest()
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def read_text(path: str) -> str:
    """The text of a regular file, never of a link or a pipe in its place."""
    # To open a pipe would wait for whoever writes to it.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(TEXT_MAX) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
