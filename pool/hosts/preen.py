"""What does not belong into LOG, SPOOL and EXECUTE: files that no daemon looks after any more."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pool.config import Config

KNOWN_IN_SPOOL: Final = (
    "[0-9]*",  # the schedd's, which removes directories of jobs that are gone
    "job_queue.*",
    "users.json*",
    "negotiator_leases.*",
    "checkpoint-cleanup",
    "history*",
    "*history*",
    "accountant.*",
    "offline*",
    ".config*",
    "lost+found",
)
"""What daemons keep there, whatever the configuration calls it."""
_SANDBOX: Final = re.compile(r"dir_(\d+)")


@dataclass(frozen=True)
class Rules:
    """What stays in SPOOL, and what goes from LOG; patterns with `*`."""

    spool: tuple[str, ...]
    log: tuple[str, ...]

    def in_log(self, names: Iterable[str]) -> list[str]:
        """Those that are listed as not belonging there."""
        return [name for name in names if _matches(name, self.log)]

    def in_spool(self, names: Iterable[str]) -> list[str]:
        """Those that nobody has said to belong there."""
        return [name for name in names if not _matches(name, self.spool)]


def rules(config: Config) -> Rules:
    """By VALID_SPOOL_FILES and INVALID_LOG_FILES, and by every knob that is the path of something in SPOOL."""
    spool = f"{config.path('SPOOL').rstrip('/')}/"
    paths = (config.raw(name) for name in config.names() if "<" not in name)
    named = (config.expand(path) for path in paths if path and "SPOOL" in path)
    # Of a path below SPOOL the first part is what is seen there.
    first = {path[len(spool) :].partition("/")[0] for path in named if path.startswith(spool)}
    # With what is kept beside a file: -wal, -shm, .old, a number.
    known = (f"{name}*" for name in first if name)
    return Rules(
        spool=(*KNOWN_IN_SPOOL, *known, *config.list("SYSTEM_VALID_SPOOL_FILES"), *config.list("VALID_SPOOL_FILES")),
        log=tuple(config.list("INVALID_LOG_FILES")),
    )


def in_execute(names: Iterable[str], is_alive: Callable[[int], bool], busy: Collection[str] = ()) -> list[str]:
    """Sandboxes whose starters are gone, but for those in which something is mounted still."""
    found = ((name, _SANDBOX.fullmatch(name)) for name in names)
    # A process may have the number by now of one that is gone: then the sandbox stays until the next time.
    return [name for name, match in found if match and name not in busy and not is_alive(int(match[1]))]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
