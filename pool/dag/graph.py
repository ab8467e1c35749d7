"""Questions about a graph: its order, layers, circles, longest path, and who stands before and behind a node.

Weak edges count as edges. Nodes are numbers, as in `Dag`; no function recurses, so a chain may be as long as it likes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pool.dag.model import Dag

Edges = Sequence[Sequence[int]]
"""For each node the nodes at the other end of its edges."""


class Path(NamedTuple):
    """A way through a graph, and what its nodes cost together."""

    nodes: tuple[int, ...]
    cost: float


def edges(dag: Dag) -> Edges:
    """All edges, strong and weak, from parents to children."""
    if not dag.weak:
        return dag.children
    return [(*strong, *weak) for strong, weak in zip(dag.children, dag.weak, strict=True)]


def parents(dag: Dag) -> list[list[int]]:
    """For each node those that it waits for."""
    found: list[list[int]] = [[] for _ in dag.nodes]
    for parent, children in enumerate(edges(dag)):
        for child in children:
            found[child].append(parent)
    return found


def order(dag: Dag) -> list[int]:
    """The nodes, each behind all that it waits for. Nodes of circles, and those behind circles, are left out."""
    return _order(edges(dag))


def _order(forward: Edges) -> list[int]:
    missing = [0] * len(forward)
    for children in forward:
        for child in children:
            missing[child] += 1
    found = [node for node, count in enumerate(missing) if count == 0]
    # The list grows while it is walked.
    for node in found:
        for child in forward[node]:
            missing[child] -= 1
            if missing[child] == 0:
                found.append(child)
    return found


def layers(dag: Dag) -> list[list[int]]:
    """The nodes by the length of the longest way to them: those of a layer could all run at once."""
    forward = edges(dag)
    depth = [0] * len(forward)
    found: list[list[int]] = []
    for node in _order(forward):
        # Final by now: all that the node waits for comes before it.
        deep = depth[node]
        while len(found) <= deep:
            found.append([])
        found[deep].append(node)
        for child in forward[node]:
            depth[child] = max(depth[child], deep + 1)
    return [sorted(layer) for layer in found]


def critical_path(dag: Dag, costs: Sequence[float] | None = None) -> Path:
    """The way that takes longest, which no number of machines makes shorter. Without `costs` each node costs 1.

    Of ways that take as long it is the one whose nodes come first in the files.
    """
    if not dag.nodes:
        return Path((), 0.0)
    forward = edges(dag)
    cost = [1.0] * len(dag.nodes) if costs is None else costs
    # Backwards: what a node and all behind it take, and which child that is due to.
    rest, behind = [0.0] * len(forward), [-1] * len(forward)
    sorted_nodes = _order(forward)
    for node in reversed(sorted_nodes):
        for child in forward[node]:
            if behind[node] < 0 or (rest[child], -child) > (rest[behind[node]], -behind[node]):
                behind[node] = child
        rest[node] = cost[node] + (rest[behind[node]] if behind[node] >= 0 else 0.0)
    start = max(sorted_nodes, key=lambda node: (rest[node], -node), default=-1)
    # Down again, by what was the reason for each node's cost.
    way, at = [], start
    while at >= 0:
        way.append(at)
        at = behind[at]
    return Path(tuple(way), rest[start] if start >= 0 else 0.0)


def reach(forward: Edges, starts: Iterable[int]) -> set[int]:
    """The nodes that some nodes lead to; these are among them only if one leads to another."""
    found: set[int] = set()
    # The starts are not found themselves, unless an edge leads there.
    waiting = deque(starts)
    while waiting:
        for node in forward[waiting.popleft()]:
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def descendants(dag: Dag, node: int) -> set[int]:
    """All that wait for a node, directly or not."""
    return reach(edges(dag), (node,))


def ancestors(dag: Dag, node: int) -> set[int]:
    """All that a node waits for, directly or not."""
    return reach(parents(dag), (node,))


def circles(dag: Dag) -> list[tuple[int, ...]]:
    """A circle from each knot of nodes that wait for one another: its nodes in their order, the first node first."""
    forward = edges(dag)
    # What is on a circle or behind one cannot be put in order.
    left = set(range(len(forward))).difference(_order(forward))
    if not left:
        return []
    return sorted(_shortest_round(forward, min(knot), knot) for knot in _knots(forward, left))


def _knots(forward: Edges, left: set[int]) -> list[set[int]]:
    """The strongly connected nodes among some (Tarjan's way, without recursion). `left` is used up."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    found = []
    for start in sorted(left):
        walk = [] if start in index else [_enter(start, index, low, path, forward)]
        while walk:
            node, children = walk[-1]
            for child in children:
                if child not in left:
                    continue
                if child not in index:
                    walk.append(_enter(child, index, low, path, forward))
                    break
                # A way back, to a node whose knot is not complete yet.
                low[node] = min(low[node], index[child])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == index[node]:
                    knot: set[int] = set()
                    while node not in knot:
                        knot.add(path.pop())
                    # What is done with is no way back for nodes that come later.
                    left -= knot
                    if len(knot) > 1 or node in forward[node]:
                        found.append(knot)
    return found


def _enter(
    node: int, index: dict[int, int], low: dict[int, int], path: list[int], forward: Edges
) -> tuple[int, Iterator[int]]:
    index[node] = low[node] = len(index)
    path.append(node)
    return node, iter(forward[node])


def _shortest_round(forward: Edges, start: int, knot: set[int]) -> tuple[int, ...]:
    """The shortest way from a node to itself."""
    # Breadth first, so that the first way back is a shortest one; the message that names it is short, too.
    before: dict[int, int] = {}
    waiting = deque((start,))
    while start not in before:
        node = waiting.popleft()
        for child in forward[node]:
            if child in knot and child not in before:
                before[child] = node
                waiting.append(child)
    way, at = [], before[start]
    while at != start:
        way.append(at)
        at = before[at]
    return (start, *reversed(way))
