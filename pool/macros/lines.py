"""From a text to its logical lines: continuations joined, comments gone, each numbered by its first line."""

from __future__ import annotations

from pool.hints import Iterable, Iterator


def logical_lines(text: str | Iterable[str], *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """Yield `(number, line)` for every line that says something, and with `blank` for empty lines too.

    A line that ends in a backslash goes on in the next one. A comment does not continue; inside a continuation it
    counts as white space, and only its own trailing backslash keeps the continuation going.
    """
    physical = text.split("\n") if isinstance(text, str) else text
    first, parts = 0, ""
    going = False
    for number, raw in enumerate(physical, 1):
        line = raw.strip()
        if not going:
            if not line or line[0] == "#":
                if blank and not line:
                    yield number, ""
                continue
            if line[-1] != "\\":
                yield number, line
                continue
            first, parts, going = number, line[:-1], True
            continue
        goes_on = line.endswith("\\")
        if not line.startswith("#"):
            parts += line[:-1] if goes_on else line
        if not goes_on:
            going = False
            if parts.strip():
                yield first, parts.rstrip()
    if going and parts.strip():
        yield first, parts.rstrip()
