"""The turns of accounting groups: each negotiates within what it is allocated, the most starved group first.

Groups are allocated what they ask for as quotas and surplus allow (`pool.accounting.quotas`), and have their turns in
the order of GROUP_SORT_EXPR. What they could not use is allocated anew, GROUP_QUOTA_MAX_ALLOCATION_ROUNDS times: also
the parts of slots by which a quota is no whole number of them. With
GROUP_QUOTA_ROUND_ROBIN_RATE a round has several passes, in each of which a group gets a part of what it is due.
Submitters of groups with GROUP_AUTOREGROUP have another turn at the end of each pass, with those of no group.

Source: HTCondor manual, "Configuration for Central Managers" (hierarchical group quotas), and "Configuration Macros"
(GROUP_SORT_EXPR ...); what they leave open is as in HTCondor's negotiator (GroupEntry.cpp).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

from pool.accounting.account_ads import GroupFigures
from pool.accounting.groups import Group
from pool.accounting.quotas import Quota, allocate, assign_quotas, bounded
from pool.classad import ClassAd
from pool.matching.snapshot import CycleSettings
from pool.matching.submitters import Submitter, Submitters
from pool.matching.turn import TOLERANCE, Turn, used_up

BEHIND_ALL: Final = 3.4028235e38
"""The place of a group whose GROUP_SORT_EXPR is no number (FLT_MAX, as in HTCondor)."""
PASSES_MAX: Final = 1000
"""So that a rate that is small beside the pool does not make a cycle endless."""


class GroupTurns:
    """One cycle's turns; what was given in one is known before the next begins. `figures` are for the accounts.

    `out_of_time` are submitters who were stopped by the clock, and not by a quota.
    """

    def __init__(
        self, submitters: Submitters, settings: CycleSettings, pool_weight: float, out_of_time: Container[str]
    ) -> None:
        self._submitters, self._settings, self._total = submitters, settings, pool_weight
        self._out_of_time = out_of_time
        self._tree = settings.groups
        self._quotas = assign_quotas(self._tree, pool_weight, settings.quotas)
        self._requested_first: Mapping[str, float] = {}
        self.figures: dict[str, GroupFigures] = {}
        self.rounds = 0

    def __iter__(self) -> Iterator[Turn]:
        self._requested_first = self._requested(self._submitters.used())
        requested = dict(self._requested_first)
        for _ in range(self._settings.quotas.rounds):
            self.rounds += 1
            allocated = allocate(self._tree, self._quotas, requested)
            yield from self._round(allocated)
            if not self._leave_unused(requested, allocated) or not self._submitters.waiting():
                break

    def _leave_unused(self, requested: dict[str, float], allocated: Mapping[str, float]) -> bool:
        """Groups ask for no more than they use where that is less than they were allocated; whether there are any."""
        used, found = self._submitters.used(), False
        for name, amount in allocated.items():
            if used[name] < amount - TOLERANCE:
                found = True
                if not any(one.name in self._out_of_time for one in self._submitters if one.group.name == name):
                    requested[name] = used[name]
        return found

    def _round(self, allocated: dict[str, float]) -> Iterator[Turn]:
        used = self._submitters.used()
        root = self._tree.root
        if root.regroups:
            self._quotas[root.name] = Quota(self._total, self._total)
            allocated[root.name] = self._total
        order = self._in_order(used, allocated)
        self._note(used, order)
        targets = {name: max(amount, self._quotas[name].own) for name, amount in allocated.items()}
        furthest = max(max(0.0, targets[name] - used[name]) for name in targets)
        step = min(furthest, max(self._settings.quotas.rate, furthest / PASSES_MAX))
        reached = step
        while True:
            part = reached / furthest if furthest > 0 else 1.0
            for group in order:
                if allocated[group.name] > 0 and (members := self._members(group)):
                    yield self._turn(group, members, used[group.name], targets[group.name], part)
            if reached >= furthest - TOLERANCE:
                return
            reached += step

    def _turn(self, group: Group, members: list[Submitter], before: float, target: float, part: float) -> Turn:
        """The group's turn; it has used `before` when the round began."""
        used = self._submitters.used()
        slots = min(target, before + max(0.0, target - before) * part)
        bound = group
        if self._settings.quotas.strict:
            slots, bound = bounded(self._tree, self._quotas, group, slots, used)
        why = (
            ""
            if bound is group
            else used_up(bound, bound.quota if bound.is_static else self._quotas[bound.name].subtree)
        )
        return Turn(members, group, max(0.0, slots - used[group.name]), slots, why=why)

    def never_served(self, submitter: Submitter) -> str:
        """Why a submitter whose group was allocated nothing has had no turn."""
        return used_up(submitter.group, self._quotas[submitter.group.name].own)

    def _members(self, group: Group) -> list[Submitter]:
        joins = group is self._tree.root and group.regroups
        return [one for one in self._submitters.waiting() if one.group is group or (joins and one.group.regroups)]

    def _requested(self, used: Mapping[str, float]) -> dict[str, float]:
        """What each group holds, and what its waiting jobs ask for."""
        wanted = dict(used)
        for one in self._submitters.waiting():
            wanted[one.group.name] += one.wanted_weight(weighted=self._settings.quotas.weighted_demand)
        return wanted

    def _in_order(self, used: Mapping[str, float], allocated: Mapping[str, float]) -> list[Group]:
        keys = {group.name: self._sort_key(group, used[group.name], allocated[group.name]) for group in self._tree}
        for name, key in keys.items():
            self.figures[name] = GroupFigures(sort_key=key)
        # Who may join those of no group has had his own group's turn before.
        last = self._tree.root if self._tree.root.regroups else None
        return sorted(self._tree, key=lambda group: (group is last, keys[group.name]))

    def _sort_key(self, group: Group, used: float, allocated: float) -> float:
        ad = ClassAd(
            {
                "AccountingGroup": group.name,
                "GroupQuota": self._quotas[group.name].own,
                "GroupResourcesInUse": used,
                "GroupResourcesAllocated": allocated,
            }
        )
        key = self._settings.quotas.sort.eval(ad) if self._settings.quotas.sort is not None else None
        return float(key) if isinstance(key, int | float) else BEHIND_ALL

    def _note(self, used: Mapping[str, float], order: list[Group]) -> None:
        for group in order:
            name = group.name
            key = self.figures[name].sort_key
            self.figures[name] = GroupFigures(self._quotas[name], self._requested_first[name], key, used[name])
        self._submitters.figures = self.figures
