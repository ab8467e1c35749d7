"""After a crash: which of the events that a log shall have are missing at its end.

Events reach a log in order, and nobody knows of the last few whether they did. They are looked for in the log's tail;
what a crash cut short is completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

TAIL_BYTES: Final = 8 * 1024 * 1024
"""How far back an event is looked for."""
UNMARKED_MAX: Final = 1_000_000
"""Characters that may be in a log before it is durably known that they are: much less than TAIL_BYTES."""


def missing(events: Iterable[tuple[str, bool]], tail: Callable[[], bytes]) -> Iterator[bytes]:
    """The bytes to append for these events: all of each, or what the tail lacks of one that has to be looked for.

    An event is a text, and whether it may be there already.
    """
    end: bytes | None = None
    begun = True  # nothing has been appended yet: what the log ends with may be the beginning of an event
    for event, check in events:
        text = event.encode("utf-8", "surrogateescape")
        if not check:
            begun = False
            yield text
            continue
        if end is None:
            end = tail()
        if text not in end:
            yield text[_begun(end, text) if begun else 0 :]
            begun = False


def _begun(tail: bytes, text: bytes) -> int:
    """How much of `text` already ends the log: a crash came while it was written. Only from the start of a line."""
    for length in range(min(len(tail), len(text) - 1), 0, -1):
        # A shorter overlap in the middle of a line would be chance, and would eat the event's first characters.
        starts_line = length == len(tail) or tail[-length - 1 : -length] == b"\n"
        if starts_line and tail.endswith(text[:length]):
            return length
    return 0
