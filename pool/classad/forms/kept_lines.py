"""The long form of an ad that is written again and again with a few values changed, as a slot's is for a claim's jobs.

The lines of values that are the same objects as the time before are taken over. The first time nothing is kept: most
starters have one job only.
"""

from __future__ import annotations

from typing import Any

from pool.classad.eval.ad import ClassAd, text_of
from pool.classad.syntax.unparse import identifier


class KeptLines:
    """The lines of one ad, which has no parent and keeps its spelling of names."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, tuple[Any, str]] | None = None

    def long(self, ad: ClassAd) -> str:
        """The ad's long form."""
        if self._lines is None:
            self._lines = {}
            return ad.long()
        before, attrs = self._lines, ad.attrs
        lines = self._lines = {}
        for key, stored in attrs.items():
            line = before.get(key)
            if line is None or line[0] is not stored:
                line = stored, f"{identifier(attrs.name(key), old=True)} = {text_of(stored, old=True)}\n"
            lines[key] = line
        return "".join([line for _, line in lines.values()])
