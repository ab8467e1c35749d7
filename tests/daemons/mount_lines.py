"""What is mounted where this process is, without what tests that run meanwhile mount in directories of theirs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def mount_lines(own: Path) -> list[str]:
    """The kernel's lines; of the directories for temporary files, those below `own` alone."""
    places = {"/tmp", tempfile.gettempdir()}
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if _is_below(line, {str(own)}) or not _is_below(line, places)]


def _is_below(line: str, places: set[str]) -> bool:
    point = line.split()[4]
    return any(point.startswith(os.path.join(place, "")) for place in places)
