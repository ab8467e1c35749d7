"""How the kernel writes the places of mounts: in /proc/self/mounts and /proc/self/mountinfo (proc_pid_mountinfo(5))."""

from __future__ import annotations

import re
from typing import Final

# What would end the field or the line: a blank, a tab, a line end, a backslash, a # (seq_path() in the kernel's
# fs/proc_namespace.c).
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def as_path(field: str) -> str:
    """The path that a field stands for."""
    return _OCTAL.sub(lambda code: chr(int(code[1], 8)), field)
