"""What lies under LOCAL_DIR, and who may look into it: one table of modes, in force before a daemon opens anything.

Daemons run with UMASK, so that whatever they make is closed to other accounts. What others need is opened by name: the
directories below, logs, the files that say where daemons are (`publish`), and the sockets, whose servers ask the kernel
who connects.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pool.base.errors import PoolError

if TYPE_CHECKING:
    from pool.config import Config

UMASK: Final = 0o077
PROGRAM_UMASK: Final = 0o022
"""Of the site's own programs that daemons start."""
PUBLIC: Final = 0o644
"""The mode of files that everybody may read: logs, addresses, the CA's certificate."""
PASSAGE: Final = 0o711
"""Of directories through which users reach what is theirs, and see no names."""


class Rule(NamedTuple):
    """The most that other accounts may do with something: `mode` of the directory `knob`, or of what is below it."""

    knob: str
    mode: int
    below: str = ""  # a pattern of names; empty: the directory itself, which is made
    is_directory: bool = True


LAYOUT: Final = (
    Rule("LOCAL_DIR", 0o755),
    Rule("LOG", 0o755),
    Rule("LOG", 0o600, "*history*", is_directory=False),
    Rule("EXECUTE", 0o755),
    Rule("RUN", 0o755),
    Rule("RUN", PASSAGE, "agents"),
    Rule("RUN", 0o700, "starters"),
    Rule("RUN", 0o700, "containers"),
    Rule("RUN", 0o600, "master.pid", is_directory=False),
    Rule("SPOOL", PASSAGE),
    Rule("SPOOL", 0o600, "*", is_directory=False),
    # Users reach their own job's directory, which has a mode of its own, and see nobody else's name.
    Rule("SPOOL", PASSAGE, "[0-9]*"),
    Rule("SPOOL", PASSAGE, "[0-9]*/[0-9]*"),
    Rule("SPOOL", PASSAGE, "checkpoint-cleanup"),
    Rule("SPOOL", 0o700, "checkpoint-cleanup/*"),
    Rule("SPOOL", PASSAGE, "local_univ_execute"),
    Rule("KEYS", 0o700),
    Rule("KEYS", 0o700, "*"),
    Rule("KEYS", 0o600, "*.key", is_directory=False),
    Rule("KEYS", 0o600, "*/*", is_directory=False),
)


def make_directories(config: Config) -> None:
    """Make what is missing under LOCAL_DIR, and take from what is there the rights that others have too many."""
    for rule in LAYOUT:
        path = Path(config.path(rule.knob))
        if rule.below:
            for found in _matching(path, rule):
                _close(found, rule.mode)
        elif path.is_dir():
            _close(path, rule.mode)
        else:
            path.mkdir(parents=True)
            path.chmod(rule.mode)


def _matching(directory: Path, rule: Rule) -> Iterator[Path]:
    wanted = stat.S_ISDIR if rule.is_directory else stat.S_ISREG
    for path in directory.glob(rule.below):
        if wanted(path.lstat().st_mode):
            yield path


def _close(path: Path, mode: int) -> None:
    now = stat.S_IMODE(path.stat().st_mode)
    if now & ~mode:
        try:
            path.chmod(now & mode)
        except OSError as error:
            raise PoolError(f"{path} has mode {now:o} and cannot be closed to others: {error.strerror}") from None


def passage(path: str | os.PathLike[str]) -> None:
    """Make a directory, and those above it, through which other accounts reach what is theirs."""
    missing = []
    here = Path(path)
    while not here.exists():
        missing.append(here)
        here = here.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        directory.chmod(PASSAGE)


def publish(path: Path, text: str) -> None:
    """Write a small file that everybody may read; nobody sees half of it."""
    # In the same directory, or the rename would not be atomic.
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(PUBLIC)
    fresh.replace(path)


def open_public(path: str, flags: int) -> int:
    """An opener for files that everybody may read, such as logs: their directory decides otherwise."""
    try:
        return os.open(path, flags & ~os.O_CREAT | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = os.open(path, flags | os.O_CLOEXEC, PUBLIC)
        os.fchmod(fd, PUBLIC)  # whatever the umask
        return fd
