"""The terminal on standard output: how wide it is, whether there is one, and what it is never shown.

An ad may hold any text, and who writes one is not who reads it. What reaches a terminal through sys.stdout or
sys.stderr is therefore text alone: characters that move the cursor, change colours or order stand as `?`, as ls has
them. Files and pipes get every byte as it is, since programs read those. HTCondor's tools write all of it everywhere.
"""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, TextIO

from pool.base.ids import is_number

if TYPE_CHECKING:
    from minipool.cli.entry.options import Parsed

# Control characters of ASCII and of Latin-1 but for tab and line feed, those that turn the direction of writing
# (Unicode Standard Annex 9), and bytes that were no UTF-8.
_UNSHOWN: Final = dict.fromkeys(
    (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A),
     *range(0xDC80, 0xDD00)),
    "?",
)  # fmt: skip


def plain(text: str) -> str:
    """The text without what a terminal would obey."""
    return text.translate(_UNSHOWN)


class PlainTerminal(TextIOWrapper):
    """A terminal that is shown plain text; its `buffer` takes what a tool itself does to the screen."""

    def write(self, text: str, /) -> int:
        """Show this text."""
        return super().write(plain(text))


def prepare_output() -> None:
    """Make terminals plain, and let bytes that are not UTF-8 through to files and pipes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, TextIOWrapper):
            continue  # closed by whoever has started this
        if stream.errors == "strict":
            stream.reconfigure(errors="surrogateescape")
        if stream.isatty():
            shown = PlainTerminal(
                stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=stream.line_buffering
            )
            setattr(sys, name, shown)


def clear_screen() -> None:
    """Put the cursor to the top of an empty screen."""
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\x1b[H\x1b[2J")


def screen() -> TextIO:
    """Standard output for what draws on the screen itself, and has made its texts `plain`."""
    sys.stdout.flush()
    return sys.__stdout__ if isinstance(sys.stdout, PlainTerminal) and sys.__stdout__ is not None else sys.stdout


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
