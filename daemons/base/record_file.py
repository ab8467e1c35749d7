"""A file of records that only grows, until it is put aside and a new one begins; the oldest that were put aside go."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pool.jobs.queue.history_file import rotated_name, surplus


@dataclass(frozen=True)
class RecordFile:
    """Where records go; `bytes_max` is how long the file may become, `keep` how many earlier parts stay."""

    path: str
    bytes_max: int
    keep: int

    def append(self, text: str, *, now: float) -> None:
        """Write the text at the end, in a new file if this one would become too long. OSError when that fails."""
        self._make_room(len(text), now)
        with open(self.path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    def _make_room(self, more: int, now: float) -> None:
        try:
            if os.path.getsize(self.path) + more <= self.bytes_max:
                return
            # Aside first, then the new file: a reader finds the records under one name or the other.
            os.replace(self.path, rotated_name(self.path, now))
        except FileNotFoundError:
            return
        directory = os.path.dirname(self.path) or "."
        for name in surplus(self.path, os.listdir(directory), self.keep):
            os.unlink(os.path.join(directory, name))
