"""Files of SQLite that a daemon keeps: what goes wrong with one says which it is, and what was expected there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pool.base.errors import PeerError, PoolError

_SAYS_WHAT_IT_HOLDS: Final = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Errors of SQLite that say that the file holds something else; others say that it cannot be used now."""


class Foreign(PoolError):
    """The file can be read, and holds something else."""


@contextmanager
def named_file(path: Path | str, holds: str, expected: str) -> Iterator[None]:
    """PoolError with the file's name where what is done within fails; Foreign where that is for what the file has."""
    try:
        yield
    except (sqlite3.Error, PeerError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        kind = Foreign if isinstance(error, PeerError) or code in _SAYS_WHAT_IT_HOLDS else PoolError
        raise kind(f"{holds} in {path} cannot be read: {error}", expected=expected) from None
