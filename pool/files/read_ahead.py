"""Which blocks of a file are fetched before they are asked for, and which are kept: for who reads in order.

A reader is in order when it asks for the block that it asked for last, or the next one; then so many blocks are fetched
ahead as were asked for one after another, up to a bound. Whoever jumps about gets what he asks for, and no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

BLOCK_BYTES: Final = 1024 * 1024
AHEAD_MAX: Final = 8

B = TypeVar("B")


@dataclass
class Reader:
    """One who has a file open."""

    last: int = -1
    """The block that was asked for last; none yet."""
    run: int = 0
    """How many blocks were asked for one after another."""

    def asks_for(self, block: int) -> bool:
        """Whether he is in order."""
        in_order = block in (self.last, self.last + 1)
        if block != self.last:
            self.run = self.run + 1 if in_order else 0
        self.last = block
        return in_order

    def ahead(self, size: int) -> range:
        """The blocks to fetch beyond the last one, of a file of this size."""
        end = -(-size // BLOCK_BYTES)
        return range(self.last + 1, min(end, self.last + 1 + min(AHEAD_MAX, self.run)))


class Blocks(Generic[B]):
    """Blocks of files by (file, block), no more than so many: the least used go first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[int, int], B] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, file: int, block: int) -> B | None:
        """The block, if it is kept."""
        found = self._kept.get((file, block))
        if found is not None:
            self._kept.move_to_end((file, block))
        return found

    def keep(self, file: int, block: int, what: B) -> None:
        """Keep it for a while."""
        self._kept[file, block] = what
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def drop(self, file: int, block: int | None = None) -> None:
        """Forget one block of a file, or all of them."""
        for key in [key for key in self._of(file) if block in (None, key[1])]:
            del self._kept[key]

    def _of(self, file: int) -> Iterator[tuple[int, int]]:
        return (key for key in self._kept if key[0] == file)
