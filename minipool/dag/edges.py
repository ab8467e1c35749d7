"""Which nodes of a layer wait for which of another.

An edge between layers yields groups: each node of the second waits for each node of the first. A join node between two
large groups makes of n times m edges n plus m.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from itertools import islice

from minipool.dag.exceptions import IncompatibleGrouper, OneToOneEdgeNeedsSameNumberOfVars


class JoinNode:
    """A node that does nothing, between two groups."""

    def __init__(self, id: int) -> None:
        self.id = id


class JoinFactory:
    """Makes the join nodes of a graph."""

    def __init__(self) -> None:
        self.joins: list[JoinNode] = []

    def get_join_node(self) -> JoinNode:
        """A new one."""
        self.joins.append(JoinNode(len(self.joins)))
        return self.joins[-1]


Group = tuple[int, ...] | JoinNode
"""Nodes of a layer by their numbers, or the join node that stands for them."""


class BaseEdge(ABC):
    """An edge between two layers. `weak`: children wait for their parents' end only, however they end."""

    weak: bool = False

    @abstractmethod
    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Iterable[tuple[Group, Group]]:
        """The groups of parents and children; at most one of a pair may be a join node."""

    def __repr__(self) -> str:
        return type(self).__name__


def _joined(parents: tuple[int, ...], children: tuple[int, ...], joins: JoinFactory) -> Iterator[tuple[Group, Group]]:
    join = joins.get_join_node()
    yield parents, join
    yield join, children


class ManyToMany(BaseEdge):
    """Each node of the child layer waits for all nodes of the parent layer."""

    def __init__(self, *, weak: bool = False) -> None:
        self.weak = weak

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Iterable[tuple[Group, Group]]:
        """One pair, or two with a join node between."""
        parents, children = tuple(range(len(parent))), tuple(range(len(child)))
        # With one node on either side a join node would save nothing.
        if len(parents) == 1 or len(children) == 1:
            return [(parents, children)]
        return _joined(parents, children, join_factory)


class OneToOne(BaseEdge):
    """Each node waits for the one with its number; the layers are of one size."""

    def __init__(self, *, weak: bool = False) -> None:
        self.weak = weak

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Iterable[tuple[Group, Group]]:
        """A pair for each number."""
        if len(parent) != len(child):
            raise OneToOneEdgeNeedsSameNumberOfVars(
                f"{parent} has {len(parent)} nodes and {child} {len(child)}", expected="as many in both"
            )
        return [((number,), (number,)) for number in range(len(parent))]


class Grouper(BaseEdge):
    """Layers are parted into groups of these sizes; each group waits for the group with its number."""

    def __init__(self, parent_chunk_size: int = 1, child_chunk_size: int = 1) -> None:
        self.parent_chunk_size, self.child_chunk_size = parent_chunk_size, child_chunk_size

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Iterable[tuple[Group, Group]]:
        """Two pairs for each group, with a join node between."""
        # A group that is not full would leave nodes without an edge.
        sizes = (parent, self.parent_chunk_size), (child, self.child_chunk_size)
        for layer, size in sizes:
            if len(layer) % size:
                raise IncompatibleGrouper(f"{layer} has {len(layer)} nodes", expected=f"a multiple of {size}")
        counts = [len(layer) // size for layer, size in sizes]
        if counts[0] != counts[1]:
            raise IncompatibleGrouper(
                f"{parent} has {counts[0]} groups and {child} {counts[1]}", expected="as many in both"
            )
        for number in range(counts[0]):
            groups = [tuple(range(number * size, (number + 1) * size)) for _, size in sizes]
            yield from _joined(groups[0], groups[1], join_factory)

    def __repr__(self) -> str:
        return f"Grouper(parent_chunk_size = {self.parent_chunk_size}, child_chunk_size = {self.child_chunk_size})"


class Slicer(BaseEdge):
    """Nodes of a slice of one layer and those of a slice of the other, one to one."""

    def __init__(self, parent_slice: slice = slice(None), child_slice: slice = slice(None)) -> None:
        self.parent_slice, self.child_slice = parent_slice, child_slice

    def get_edges(self, parent: Sized, child: Sized, join_factory: JoinFactory) -> Iterable[tuple[Group, Group]]:
        """A pair for each two; what is longer ends with the shorter one."""
        parents = islice(range(len(parent)), self.parent_slice.start, self.parent_slice.stop, self.parent_slice.step)
        children = islice(range(len(child)), self.child_slice.start, self.child_slice.stop, self.child_slice.step)
        return [((one,), (other,)) for one, other in zip(parents, children, strict=False)]

    def __repr__(self) -> str:
        return f"Slicer(parent_slice = {self.parent_slice}, child_slice = {self.child_slice})"
