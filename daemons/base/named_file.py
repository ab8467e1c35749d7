"""Files of SQLite that a daemon keeps: what goes wrong with one says which it is, and what was expected there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pool.base.errors import PeerError, PoolError


@contextmanager
def named_file(path: Path | str, holds: str, expected: str) -> Iterator[None]:
    """PoolError with the file's name where what is done within fails over what the file has."""
    try:
        yield
    except (sqlite3.Error, PeerError) as error:
        raise PoolError(f"{holds} in {path} cannot be read: {error}", expected=expected) from None
