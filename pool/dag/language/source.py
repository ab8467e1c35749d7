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
        self.file, self.text = file, text
        self.at = 0
        """Where the next line begins; who takes lines by himself moves it, and `number` with it."""
        self.number = 0
        """The number of the last line."""

    def lines(self) -> Iterator[Line]:
        """The lines that hold commands."""
        file = self.file
        for text in self._physical():
            text = text.strip()
            if not text or (text[0] in "#/" and _is_nothing(text)):
                continue
            # The number is where it begins: HTCondor tells where a continued line ends.
            yield Line(file, self.number, self._joined(text) if text[-1] == "\\" else text)

    def description(self, end: str) -> tuple[str, str] | None:
        """An inline description up to the line with its end mark, and what follows the mark; None if there is none."""
        lines: list[str] = []
        for text in self._physical():
            text = text.strip()
            if text == end or text.startswith(end + " "):
                return "".join(lines), text[len(end) :]
            if not _is_nothing(text):
                lines.append(text + "\n")
        return None

    def _joined(self, text: str) -> str:
        parts = [text[:-1]]
        for more in self._physical():
            more = more.strip()
            if _is_nothing(more):
                continue
            if more[-1] != "\\":
                parts.append(more)
                break
            parts.append(more[:-1])
        return " ".join(parts).strip()

    def _physical(self) -> Iterator[str]:
        """The lines that are left. One by one: all at once they would take four times as much memory as the text."""
        text, size = self.text, len(self.text)
        while self.at < size:
            end = text.find("\n", self.at)
            end = size if end < 0 else end
            line, self.at = text[self.at : end], end + 1
            self.number += 1
            yield line


def _is_nothing(text: str) -> bool:
    return not text or text[0] == "#" or text.startswith("//")
