"""How much of the pool each accounting group may have: quotas, and what groups leave to each other.

First the pool's weight is divided down the tree. Static quotas come first, and are scaled down together where there is
less (unless NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION); dynamic ones are parts of what they leave. What remains is the
group's own. Then each group is allocated what it asks for, up to its quota, and what it leaves is surplus: it goes to
those beside it that accept surplus, in proportion to their quotas, then to the groups above, and there again. A group
that accepts none bounds all that is below it.

Source: HTCondor manual, "Configuration for Central Managers" (hierarchical group quotas); what it leaves open is as in
HTCondor's negotiator (GroupEntry.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pool.accounting.groups import Group, GroupTree
from pool.classad import Expr

TOLERANCE: Final = 1e-9
"""How far apart sums of the same weights may be."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a group may use: itself, and together with all below it."""

    own: float = 0.0
    subtree: float = 0.0


NO_QUOTA: Final = Quota()


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The knobs of the same names: NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION, NEGOTIATOR_STRICT_ENFORCE_QUOTA,
    GROUP_QUOTA_MAX_ALLOCATION_ROUNDS, GROUP_QUOTA_ROUND_ROBIN_RATE, GROUP_SORT_EXPR, NEGOTIATOR_USE_WEIGHTED_DEMAND."""

    oversubscribe: bool = True
    strict: bool = True
    rounds: int = 3
    rate: float = math.inf
    sort: Expr | None = None
    weighted_demand: bool = True


def assign_quotas(tree: GroupTree, total: float, settings: QuotaSettings) -> dict[str, Quota]:
    """Each group's quota, by name, in a pool of this weight."""
    quotas: dict[str, Quota] = {}

    def assign(group: Group, amount: float) -> None:
        children = tree.children(group)
        static = sum(child.quota for child in children if child.is_static)
        given = static if settings.oversubscribe else min(static, amount)
        for_static = given / static if static > 0 else 0.0
        # Parts that sum to more than one are scaled to one; to less, they stay.
        parts = max(1.0, sum(child.quota for child in children if not child.is_static))
        for_dynamic = max(0.0, amount - given) / parts
        left = amount
        for child in children:
            its = child.quota * (for_static if child.is_static else for_dynamic)
            left -= its
            assign(child, its)
        # The root's quota is what no group has: what it leaves is counted as surplus, and must not be counted twice.
        own = amount if settings.oversubscribe and group is not tree.root else max(0.0, left)
        quotas[group.name] = Quota(own, amount) if amount > 0 else NO_QUOTA

    assign(tree.root, total)
    return quotas


def allocate(tree: GroupTree, quotas: Mapping[str, Quota], requested: Mapping[str, float]) -> dict[str, float]:
    """What each group gets, surplus included, of what it asks for: what it uses, and what its idle jobs want."""
    return _Allocation(tree, quotas, requested).run()


class _Allocation:
    """`left` is what each group still wants, `wanted` what all below it that may have surplus want with it."""

    def __init__(self, tree: GroupTree, quotas: Mapping[str, Quota], requested: Mapping[str, float]) -> None:
        self._tree, self._quotas = tree, quotas
        self._allocated = {group.name: min(requested.get(group.name, 0.0), quotas[group.name].own) for group in tree}
        self._left = {name: requested.get(name, 0.0) - much for name, much in self._allocated.items()}
        self._wanted = dict(self._left)

    def run(self) -> dict[str, float]:
        self._divide(self._tree.root)
        return self._allocated

    def _divide(self, group: Group) -> float:
        """Surplus within the group's subtree goes to who wants it there; what is left of it."""
        surplus = self._quotas[group.name].own - self._allocated[group.name]
        for child in self._tree.children(group):
            surplus += self._divide(child)
            if child.accepts_surplus:
                self._wanted[group.name] += self._wanted[child.name]
        return self._give(group, surplus) if self._tree.children(group) else surplus

    def _give(self, group: Group, surplus: float) -> float:
        """Share the surplus among the group itself and those just below it; what is left of it."""
        if surplus <= 0 or self._wanted[group.name] <= 0:
            return surplus
        below = [child for child in self._tree.children(group) if child.accepts_surplus]
        wants = {child.name: self._wanted[child.name] for child in below}
        weights = {child.name: self._quotas[child.name].subtree for child in below}
        wants[group.name], weights[group.name] = self._left[group.name], self._quotas[group.name].own
        given = _shared(surplus, wants, weights)
        for child in below:
            self._give_down(child, given[child.name])
        self._allocated[group.name] += given[group.name]
        self._left[group.name] -= given[group.name]
        total = sum(given.values())
        self._wanted[group.name] -= total
        return surplus - total

    def _give_down(self, child: Group, amount: float) -> None:
        if self._tree.children(child):
            self._give(child, amount)
            return
        self._allocated[child.name] += amount
        self._left[child.name] -= amount
        self._wanted[child.name] -= amount


def _shared(surplus: float, wants: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Nobody gets more than he wants: in proportion to the weights, and what those leave, to those without one."""
    given = dict.fromkeys(wants, 0.0)
    for by_weight in (True, False):
        while surplus > TOLERANCE:
            open_ = {
                name: weights[name] if by_weight else 1.0
                for name, want in wants.items()
                if want - given[name] > TOLERANCE and (weights[name] > 0 or not by_weight)
            }
            if not open_:
                break
            total, before = sum(open_.values()), surplus
            for name, weight in open_.items():
                # The product of a tiny weight and the surplus could be 0, and this would never end.
                part = min(before * (weight / total), wants[name] - given[name])
                given[name] += part
                surplus -= part
    return given


def bounded(
    tree: GroupTree,
    quotas: Mapping[str, Quota],
    group: Group,
    target: float,
    used: Mapping[str, float],
) -> tuple[float, Group]:
    """The target for what a group uses, where a group that accepts no surplus, itself or above it, bounds its subtree.

    And which group that is; the group itself when none above it does. `used` is what is in use by the submitters of
    each group themselves.
    """
    more = max(0.0, target - used.get(group.name, 0.0))
    above: Group | None = group
    by = group
    while above is not None:
        if not above.accepts_surplus:
            may = above.quota if above.is_static else quotas[above.name].subtree
            left = max(0.0, may - used_below(tree, above, used))
            if left < more:
                more, by = left, above
        above = tree.parent(above)
    return used.get(group.name, 0.0) + more, by


def used_below(tree: GroupTree, group: Group, used: Mapping[str, float]) -> float:
    """What the group and all below it use."""
    return used.get(group.name, 0.0) + sum(used_below(tree, child, used) for child in tree.children(group))
