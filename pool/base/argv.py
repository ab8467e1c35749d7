"""Words in one text, as HTCondor has them: arguments in either syntax, and the entries of an environment.

In the new syntax blanks separate words; single quotes protect blanks, and within them two are one single quote. In the
old syntax blanks separate words and nothing protects them. A blank is a space, a tab or the end of a line, and nothing
else: a no-break space is a character like any other.
(HTCondor's manual: condor_submit, `arguments` and `environment`.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pool.base.errors import UserError

BLANKS: Final = " \t\n\r"
_BETWEEN: Final = r"[ \t\n\r]+"
_PIECE: Final = r"'(?P<quoted>(?:[^']|'')*)'|[^ \t\n\r']+"


class BadQuoting(UserError):
    """The text cannot be read; the message says why."""


def split_new(text: str) -> list[str]:
    """The words of a text in the new syntax; BadQuoting when a quote is not closed."""
    found: list[str] = []
    at, within, piece_of = 0, False, re.compile(_PIECE)
    # Piece by piece: a quoted part joins what it touches, so `a' 'b` is one word and `a ' 'b` is not.
    while at < len(text):
        if text[at] in BLANKS:
            at, within = at + 1, False
            continue
        piece = piece_of.match(text, at)
        if piece is None:
            raise BadQuoting(f"Unbalanced quote starting here: {text[at:]}")
        quoted = piece["quoted"]
        part = piece[0] if quoted is None else quoted.replace("''", "'")
        if within:
            found[-1] += part
        else:
            found.append(part)
        at, within = piece.end(), True
    return found


def split_old(text: str) -> list[str]:
    """The words of a text in the old syntax."""
    return [word for word in re.sub(_BETWEEN, " ", text).split(" ") if word]


def join_new(words: Iterable[str]) -> str:
    """The words as one text in the new syntax."""
    return " ".join([_protected(word) for word in words])


def _protected(word: str) -> str:
    """One word: only blanks and single quotes stand in single quotes, one after another in the same ones."""
    if not word:
        return "''"
    out: list[str] = []
    within = False
    for char in word:
        special = char in BLANKS or char == "'"
        if special != within:
            out.append("'")
        out.append("''" if char == "'" else char)
        within = special
    return "".join(out) + ("'" if within else "")
