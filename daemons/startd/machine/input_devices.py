"""Whether a keyboard or a mouse of this machine was used, where the startd may open them, as root may.

What was typed is never read: a device is closed and opened anew as soon as there is something to read from it.
"""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Final

BY_PATH: Final = Path("/dev/input/by-path")
KINDS: Final = ("-event-kbd", "-event-mouse")
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class InputDevices:
    """Those that are plugged in now."""

    def __init__(self, directory: Path = BY_PATH) -> None:
        self._directory = directory
        self._open: dict[str, int] = {}

    def were_used(self) -> bool:
        """Whether there was a key press or a movement since the last look."""
        self._find()
        poll = select.poll()
        for fd in self._open.values():
            poll.register(fd, select.POLLIN)
        seen = dict(poll.poll(0))
        for name in [name for name, fd in self._open.items() if fd in seen]:  # used, or pulled out
            os.close(self._open.pop(name))
        self._find()
        return any(events & select.POLLIN for events in seen.values())

    def close(self) -> None:
        """Look no more."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    def _find(self) -> None:
        try:
            names = [name for name in os.listdir(self._directory) if name.endswith(KINDS)]
        except OSError:  # a machine without any
            names = []
        for name in names:
            if name not in self._open:
                try:
                    self._open[name] = os.open(self._directory / name, _FLAGS)
                except OSError:  # not ours to open, or gone
                    continue
