"""Processes that are a job's whatever they did to hide it: by an account or a group id that nobody else has.

Neither can be got rid of without root's rights. The starter finds its descendants without them; these find what is no
descendant of anybody's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from daemons.base.linux import all_pids, status_fields


@dataclass(frozen=True)
class Tracking:
    """Marks of a job's processes; 0: none."""

    uid: int = 0
    gid: int = 0

    def members(self) -> set[int]:
        """Who has the marks and still lives."""
        if not self.uid and not self.gid:
            return set()
        return {pid for pid in all_pids() if pid != os.getpid() and self._has(pid)}

    def _has(self, pid: int) -> bool:
        fields = status_fields(pid)
        if fields.get("State", ["X"])[0] in ("Z", "X"):
            return False
        return bool(
            (self.uid and str(self.uid) in fields.get("Uid", []))
            or (self.gid and str(self.gid) in fields.get("Groups", []))
        )


NOBODY_ELSE: Final = Tracking()
