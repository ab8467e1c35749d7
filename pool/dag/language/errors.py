"""What is wrong with DAG files: all of it at once, each with its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pool.base.errors import Span, UserError

ERRORS_MAX: Final = 20
"""So many are told; whoever mends them asks again."""


class DagError(UserError):
    """A DAG file is wrong. `others`: what else is."""

    others: tuple[DagError, ...] = ()

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.others)])


def together(errors: Sequence[DagError]) -> DagError:
    """One error that tells of all: file by file, in the order of their lines."""
    files: dict[str, int] = {}
    for error in errors:
        files.setdefault(error.span.file if error.span else "", len(files))
    first, *rest = sorted(errors, key=lambda one: (files[one.span.file], one.span.line) if one.span else (0, 0))
    first.others = tuple(rest)
    return first


def wrong(message: str, file: str, line: int, text: str, word: str = "", *, expected: str | None = None) -> DagError:
    """An error in a line, with a caret below the word that it is about."""
    # The word, not the same letters within another.
    whole = re.search(rf"(?<!\S){re.escape(word)}(?!\S)", text) if word else None
    at = whole.start() + 1 if whole else text.find(word) + 1 if word else 0
    return DagError(message, span=Span(file, line, at, text), expected=expected)
