"""Databases that only their owner may read, from their first byte on, whatever umask is in force and was before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
_BESIDE: Final = ("-wal", "-shm", "-journal")


def keep_private(path: str | Path) -> None:
    """Make the file, or take others' rights on it away, and on what SQLite keeps beside it with the same mode."""
    # Before SQLite, which would make it with the umask's mode; and never through a link that somebody laid.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
    for name in (str(path), *(f"{path}{end}" for end in _BESIDE)):
        try:
            if os.stat(name).st_mode & 0o077:
                os.chmod(name, PRIVATE)
        except FileNotFoundError:
            continue
