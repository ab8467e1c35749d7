"""How long a graph that runs takes yet, by how long its nodes took that are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pool.dag.graph import critical_path
from pool.dag.show.past import Past

_ALL: Final = "\0"  # no submit file is called so


class Rest(NamedTuple):
    """What is to come."""

    seconds: float
    way: tuple[int, ...]
    """The nodes, one behind the other, that make it take that long."""


def rest(past: Past, now: float) -> Rest | None:
    """How long the graph takes at least from now on; None while no node is done that others could be measured by.

    A node is taken to need what done nodes of its submit file needed on average, else what all of them did. How many
    machines there are is not asked, so it may well take longer.
    """
    means = _means(past)
    if _ALL not in means:
        return None
    costs = [_left(past, number, means, now) for number in range(len(past.nodes))]
    found = critical_path(past.dag, costs)
    return Rest(found.cost, tuple(number for number in found.nodes if costs[number] > 0))


def _means(past: Past) -> Mapping[str, float]:
    sums: dict[str, tuple[float, int]] = {}
    for node, one in zip(past.dag.nodes, past.nodes, strict=True):
        # A node that was done before has told nobody how long it took; one without a job says nothing of others.
        if one.state == "done" and one.runs and not node.noop:
            for key in (node.submit, _ALL):
                seconds, count = sums.get(key, (0.0, 0))
                sums[key] = seconds + one.seconds, count + 1
    return {key: seconds / count for key, (seconds, count) in sums.items()}


def _left(past: Past, number: int, means: Mapping[str, float], now: float) -> float:
    node, state = past.dag.nodes[number], past.nodes[number].state
    if state in ("done", "failed", "never") or node.noop or node.kind == "SERVICE":
        return 0.0
    spent = now - past.begun_at[number] if state in ("running", "held") else 0.0
    # One that takes longer than others did may end at any moment.
    return max(means.get(node.submit, means[_ALL]) - spent, 0.0)
