"""The terminal on standard output: how wide it is, and whether there is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pool.base.ids import is_number

if TYPE_CHECKING:
    from minipool.cli.entry.options import Parsed


def terminal_width() -> int:
    """The width of the terminal on standard output; 0 when it is none, and nothing is to be cut."""
    if not sys.stdout.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns


def line_width(parsed: Parsed) -> int:
    """The width that lines are made for: N of -wide:N, or of the terminal; 0 when nothing is to be cut."""
    chosen = parsed.qualifier("wide")
    if chosen is None:
        return terminal_width()
    return int(chosen) if is_number(chosen) else 0
