"""When the keyboard and the console were last used: what KeyboardIdle and ConsoleIdle are made of.

Linux keeps the time of the last key press as the access time of a terminal. The terminals that count are those of
people who are logged in, by utmp or logind; all of them where neither is kept, or STARTD_HAS_BAD_UTMP says so. What
nobody has ever used is idle since the epoch, as with HTCondor: a host without a keyboard never waits for its owner.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import psutil

DEV: Final = Path("/dev")
UTMP: Final = Path("/run/utmp")
LOGIND: Final = Path("/run/systemd/sessions")


class LastUse:
    """What was seen so far: a person who has logged out has used the keyboard all the same. Wall times; 0: never."""

    def __init__(self, dev: Path = DEV, utmp: Path = UTMP, logind: Path = LOGIND) -> None:
        self._dev, self._utmp, self._logind = dev, utmp, logind
        self._keyboard = self._console = 0.0

    def used(self, at: float) -> None:
        """Somebody has touched a keyboard or mouse of the machine itself."""
        self._keyboard = max(self._keyboard, at)
        self._console = max(self._console, at)

    def look(self, now: float, consoles: Iterable[str], *, every_terminal: bool) -> tuple[int, int | None]:
        """Seconds since anybody typed anywhere, and since a console was used; None: there is none to look at."""
        devices = list(consoles)
        for name in devices:
            self.used(self._accessed(name))
        for name in self._terminals(every_terminal):
            self._keyboard = max(self._keyboard, self._accessed(name))
        # None is not zero: a machine without a console has no ConsoleIdle at all, and START may ask for it with =?=.
        console = _since(self._console, now) if devices or self._console else None
        return _since(self._keyboard, now), console

    def _terminals(self, every_terminal: bool) -> Iterable[str]:
        if every_terminal or not (self._utmp.exists() or self._logind.is_dir()):
            return self._all()
        return {*_of_utmp(), *self._of_logind()}

    def _all(self) -> Iterator[str]:
        for name in _names(self._dev):
            if name.startswith(("tty", "pty")) and name != "tty":
                yield name
        for name in _names(self._dev / "pts"):
            if name.isdigit():
                yield f"pts/{name}"

    def _of_logind(self) -> Iterator[str]:
        for name in _names(self._logind):
            try:
                lines = (self._logind / name).read_text().splitlines()
            except OSError:
                continue
            yield from (line[len("TTY=") :] for line in lines if line.startswith("TTY="))

    def _accessed(self, name: str) -> float:
        """The access time of a device, but for those like /dev/null, which say nothing."""
        try:
            seen = (self._dev / name).stat()
            if os.major(seen.st_rdev) == os.major((self._dev / "null").stat().st_rdev) != 0:
                return 0.0
        except OSError:
            return 0.0
        return seen.st_atime


def _of_utmp() -> list[str]:
    return [user.terminal for user in psutil.users() if user.terminal and not user.terminal.startswith((":", "unix:"))]


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _since(at: float, now: float) -> int:
    return max(0, int(now - at))
