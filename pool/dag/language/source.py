"""A DAG file as commands see it: its lines, continued ones joined, without comments and what is blank.

A line goes on in the next where it ends with a backslash; comments (# and //) between are no part of it.
An inline description goes up to its end mark; it has no comments and blank lines either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_PIECE: Final = 1 << 16


class Line(NamedTuple):
    """A command's line: where it begins, and its text."""

    file: str
    number: int
    text: str


class Source:
    """The lines of one file, one after another."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._lines = enumerate(_physical(text), 1)

    def lines(self) -> Iterator[Line]:
        """The lines that hold commands."""
        file = self.file
        for number, text in self._lines:
            text = text.strip()
            if not text or (text[0] in "#/" and _is_nothing(text)):
                continue
            # The number is where it begins: HTCondor tells where a continued line ends.
            yield Line(file, number, self._joined(text) if text[-1] == "\\" else text)

    def description(self, end: str) -> tuple[str, str] | None:
        """An inline description up to the line with its end mark, and what follows the mark; None if there is none."""
        lines: list[str] = []
        for _, text in self._lines:
            text = text.strip()
            if text == end or text.startswith(end + " "):
                return "".join(lines), text[len(end) :]
            if not _is_nothing(text):
                lines.append(text + "\n")
        return None

    def _joined(self, text: str) -> str:
        parts = [text[:-1]]
        for _, more in self._lines:
            more = more.strip()
            if _is_nothing(more):
                continue
            if more[-1] != "\\":
                parts.append(more)
                break
            parts.append(more[:-1])
        return " ".join(parts).strip()


def _physical(text: str) -> Iterator[str]:
    """The lines of a text. Piece by piece: all at once they would take four times as much memory as the text."""
    at = 0
    while at < len(text):
        end = text.find("\n", at + _PIECE)
        end = len(text) if end < 0 else end
        yield from text[at:end].split("\n")
        at = end + 1


def _is_nothing(text: str) -> bool:
    return not text or text[0] == "#" or text.startswith("//")
