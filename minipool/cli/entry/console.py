"""The terminal on standard output: how wide it is, and whether there is one."""

from __future__ import annotations

import sys


def terminal_width() -> int:
    """The width of the terminal on standard output; 0 when it is none, and nothing is to be cut."""
    if not sys.stdout.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns
