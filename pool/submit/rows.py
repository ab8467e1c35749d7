"""The rows of a queue statement: each item as many times as the count says, with its variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pool.submit.queue_statement import Queue, split_row
from pool.submit.scope import Scope


class ItemRow:
    """One job to be: its item's values, the item's place, and which repetition this is."""

    __slots__ = ("index", "names", "step", "values")

    def __init__(self, names: Sequence[str], values: Sequence[str], index: int, step: int) -> None:
        self.names = names
        self.values = values
        self.index = index
        self.step = step

    def enter(self, scope: Scope, cluster: int, proc: int) -> None:
        """Make the row's names mean its values."""
        defaults = scope.defaults
        defaults["cluster"] = defaults["clusterid"] = str(cluster)
        defaults["process"] = defaults["procid"] = str(proc)
        defaults["row"] = defaults["itemindex"] = str(self.index)
        defaults["step"] = str(self.step)
        scope.live = dict(zip(self.names, self.values, strict=True))


class Rows:
    """All rows of one queue statement."""

    def __init__(self, queue: Queue, items: Sequence[str], count: int, places: Sequence[int] | None = None) -> None:
        self.variables = list(queue.variables)
        self.items = items
        self.count = count
        self.table = queue.table
        self.places = places

    def __len__(self) -> int:
        return len(self.items) * self.count

    def first(self) -> ItemRow:
        for row in self:
            return row
        return ItemRow((), (), 0, 0)

    def values(self, item: str) -> list[str]:
        """The values of the variables for one item."""
        return split_row(item, len(self.variables), self.table) if self.variables else []

    def __iter__(self) -> Iterator[ItemRow]:
        return self.after(0)

    def after(self, skipped: int) -> Iterator[ItemRow]:
        """The rows after the first so many."""
        names = [name.lower() for name in self.variables]
        values = [""] * len(names)
        begin, done = divmod(skipped, max(1, self.count))
        # A factory comes back in the middle of the list: what an empty item stands for may be before it.
        earlier = next((item for item in reversed(self.items[:begin]) if item), "")
        if earlier:
            values = self.values(earlier)
        for place in range(begin, len(self.items)):
            item = self.items[place]
            if item:  # an empty item leaves the values of the one before it
                values = self.values(item)
            index = place if self.places is None else self.places[place]
            for step in range(done, self.count):
                yield ItemRow(names, values, index, step)
            done = 0
