"""From a text to its logical lines: continuations joined, comments gone, each numbered by its first line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pool.base.errors import Span
from pool.base.words import SPACE


class Line(str):
    """A logical line, or a part of one, that knows where each of its characters was written."""

    __slots__ = ("_pieces",)
    _pieces: tuple[tuple[int, int, str], ...]
    """Where a piece of this text begins, and the number and the text of the line of which it is the trimmed part."""

    def __new__(cls, text: str, pieces: Iterable[tuple[int, int, str]] = ()) -> Line:
        self = super().__new__(cls, text)
        self._pieces = tuple(pieces)
        return self

    @property
    def is_placed(self) -> bool:
        """Whether it is known where it was written; of a template's lines it is not."""
        return bool(self._pieces)

    def rest(self, at: int) -> Line:
        """What begins at a character of it."""
        return Line(self[at:], [(begin - at, number, raw) for begin, number, raw in self._pieces])

    def span(self, file: str, at: int = 0) -> Span:
        """The place of a character, in the line as it was written; its end is a place too."""
        if not self._pieces:
            return Span(file)
        begin, number, raw = self._pieces[0]
        for piece in self._pieces[1:]:
            if piece[0] <= at:
                begin, number, raw = piece
        # Columns count in the line as it was written, which is what an editor shows.
        indent = len(raw) - len(raw.lstrip(SPACE))
        return Span(file, number, indent + at - begin + 1, raw.rstrip(SPACE))


def typed(text: str) -> Line:
    """A line that is in no file: it was an argument of a program."""
    return Line(text, ((0, 0, text),))


def after_colon(line: Line) -> Line:
    """A line that begins with a colon, as lines between `if` and `endif` may, without it; a comment if that is all."""
    at = len(line) - len(line[1:].lstrip(SPACE))
    return line.rest(at) if at < len(line) else Line("#")


def joined(lines: Iterable[Line]) -> Line:
    """Lines as one text with line ends."""
    text = ""
    pieces: list[tuple[int, int, str]] = []
    for line in lines:
        text += "\n" if pieces else ""
        pieces += [(len(text) + begin, number, raw) for begin, number, raw in line._pieces]
        text += line
    return Line(text, pieces)


def argument_at(line: str) -> int:
    """Where what follows the first word of a line begins; that word where nothing follows."""
    words = line.lstrip(": \t").split(None, 1)
    return len(line) - len(words[-1]) if words else 0


def logical_lines(text: str | Iterable[str], *, blank: bool = False) -> Iterator[tuple[int, Line]]:
    """Yield `(number, line)` for every line that says something, and with `blank` for empty lines too.

    A line that ends in a backslash goes on in the next one. A comment does not continue; inside a continuation it
    counts as white space, and only its own trailing backslash keeps the continuation going.
    """
    physical = text.split("\n") if isinstance(text, str) else text
    first, parts = 0, ""
    pieces: list[tuple[int, int, str]] = []
    going = False
    for number, raw in enumerate(physical, 1):
        line = raw.strip(SPACE)
        if not going:
            if not line or line[0] == "#":
                if blank and not line:
                    yield number, Line("", ((0, number, raw),))
                continue
            # Most lines: neither joined nor copied piece by piece.
            if line[-1] != "\\":
                yield number, Line(line, ((0, number, raw),))
                continue
            first, parts, going = number, line[:-1], True
            pieces = [(0, number, raw)]
            continue
        # Of a comment, too: one inside a continuation ends it, unless it goes on itself (the manual's "Line
        # Continuation").
        goes_on = line.endswith("\\")
        if not line.startswith("#"):
            pieces.append((len(parts), number, raw))
            parts += line[:-1] if goes_on else line
        if not goes_on:
            going = False
            if parts.strip(SPACE):
                yield first, Line(parts.rstrip(SPACE), pieces)
    # The last line of a text may end in a backslash that nothing follows.
    if going and parts.strip(SPACE):
        yield first, Line(parts.rstrip(SPACE), pieces)
