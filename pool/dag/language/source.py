"""A DAG file as commands see it: its lines, continued ones joined, without comments and what is blank.

A line goes on in the next where it ends with a backslash; comments (# and //) between are no part of it.
An inline description goes up to its end mark; it has no comments and blank lines either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Line(NamedTuple):
    """A command's line: where it begins, and its text."""

    file: str
    number: int
    text: str


class Source:
    """The lines of one file, one after another."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._text = text
        self._at = 0
        self._number = 0

    def lines(self) -> Iterator[Line]:
        """The lines that hold commands."""
        file = self.file
        while (text := self._physical()) is not None:
            if _is_nothing(text):
                continue
            # Where it begins: HTCondor tells where a continued line ends.
            number = self._number
            if text[-1] == "\\":
                text = self._joined(text)
            yield Line(file, number, text)

    def description(self, end: str) -> tuple[str, str] | None:
        """An inline description up to the line with its end mark, and what follows the mark; None if there is none."""
        lines: list[str] = []
        while (text := self._physical()) is not None:
            if text == end or text.startswith(end + " "):
                return "".join(lines), text[len(end) :]
            if not _is_nothing(text):
                lines.append(text + "\n")
        return None

    def _joined(self, text: str) -> str:
        parts = [text[:-1]]
        while (more := self._physical()) is not None:
            if _is_nothing(more):
                continue
            if more[-1] != "\\":
                parts.append(more)
                break
            parts.append(more[:-1])
        return " ".join(parts).strip()

    def _physical(self) -> str | None:
        """The next line of the file without white space around it, or None after the last."""
        # Line by line: all at once they would take four times as much memory as the text.
        start, text = self._at, self._text
        if start >= len(text):
            return None
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        self._at = end + 1
        self._number += 1
        return text[start:end].strip()


def _is_nothing(text: str) -> bool:
    return not text or text[0] == "#" or text.startswith("//")
