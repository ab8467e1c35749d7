"""What configuration, submit files and ads write in words: lists of them, and true or false.

Source: HTCondor manual, "Introduction to Configuration" for lists (items between commas and blanks) and truth values.
"""

from __future__ import annotations

from typing import Final

SPACE: Final = " \t\n\v\f\r"
"""What surrounds a value and does not belong to it: what C's isspace() takes, as HTCondor does."""
# Python's own strip() and split() take more: a no-break space, which names of files have, and the unit separator
# (0x1f), which an old-style environment may begin with.
_BETWEEN: Final = str.maketrans(dict.fromkeys(",\t\n\v\f\r", " "))
TRUE_WORDS: Final = frozenset(("true", "t", "yes", "1"))
FALSE_WORDS: Final = frozenset(("false", "f", "no", "0"))


def split_list(text: str | None) -> list[str]:
    """The items between commas and blanks; none of nothing."""
    return [item for item in text.translate(_BETWEEN).split(" ") if item] if text else []


def truth_word(text: str | None) -> bool | None:
    """What a word for true or false means; None for any other text."""
    word = (text or "").strip(SPACE).lower()
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None
