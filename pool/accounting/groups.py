"""Accounting groups: their tree, and to which of them a submitter belongs.

A submitter is named group.subgroup.user@domain: what stands before its last period is the path of its group. Names of
groups do not differ by case. Who names no group, or one that GROUP_NAMES does not know, belongs to the deepest group of
its path that is known, which is the root, `<none>`, at worst.

Source: HTCondor manual, "Configuration for Central Managers" (group accounting, hierarchical group quotas), and
"Configuration Macros" (GROUP_NAMES, GROUP_QUOTA_<groupname> ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

ROOT_NAME: Final = "<none>"


@dataclass(frozen=True, slots=True)
class Group:
    """One group as it is configured. `quota` is a number of slots, by weight, if `is_static`; else a part of 1."""

    name: str
    quota: float = 0.0
    is_static: bool = False
    accepts_surplus: bool = False
    """Whether it may use what others leave of theirs."""
    regroups: bool = False
    """Whether its submitters may also negotiate with those of no group."""
    factor: float | None = None
    """The priority factor that its submitters begin with."""


@dataclass
class _Node:
    group: Group
    children: dict[str, _Node] = field(default_factory=dict)


class GroupTree:
    """All groups below their root. `left_out` says of each group that has no place in it why."""

    def __init__(self, groups: Iterable[Group] = ()) -> None:
        ordered = sorted(groups, key=lambda group: group.name.lower())
        regroups = any(group.regroups for group in ordered)
        self._root = _Node(Group(ROOT_NAME, accepts_surplus=True, regroups=regroups))
        self._parents: dict[str, Group] = {}
        self.left_out: dict[str, str] = {}
        for group in ordered:  # a parent's name comes before those of its children
            if why := self._put(group):
                self.left_out[group.name] = why

    def _put(self, group: Group) -> str:
        """Give the group its place; why there is none."""
        if group.name == ROOT_NAME:
            return "is the name of the group of all others"
        *above, own = group.name.lower().split(".")
        node = self._root
        for step in above:
            if step not in node.children:
                return f"has no parent: {group.name.rpartition('.')[0]} is not among GROUP_NAMES"
            node = node.children[step]
        if own in node.children:
            return "is named twice"
        node.children[own] = _Node(group)
        self._parents[group.name] = node.group
        return ""

    def __bool__(self) -> bool:
        """Whether there are groups."""
        return bool(self._root.children)

    def __iter__(self) -> Iterator[Group]:
        """The root first, and each before those below it."""
        nodes = [self._root]
        for node in nodes:
            yield node.group
            nodes.extend(node.children.values())

    @property
    def root(self) -> Group:
        """The group of those who are in no other; `regroups` when some group's submitters may join it."""
        return self._root.group

    def parent(self, group: Group) -> Group | None:
        """The group above; None above the root."""
        return self._parents.get(group.name)

    def children(self, group: Group) -> list[Group]:
        """The groups just below."""
        return [node.group for node in self._node(group).children.values()]

    def of(self, submitter: str) -> Group:
        """The group that a submitter belongs to."""
        path = submitter.rpartition("@")[0].rpartition(".")[0]
        return self._deepest(path).group

    def named(self, name: str) -> Group | None:
        """The group of exactly this name."""
        found = self._deepest(name).group
        return found if found.name.lower() == name.lower() else None

    def _node(self, group: Group) -> _Node:
        return self._root if group is self._root.group else self._deepest(group.name)

    def _deepest(self, path: str) -> _Node:
        node = self._root
        for step in path.lower().split("."):
            if step not in node.children:
                break
            node = node.children[step]
        return node


NO_GROUPS: Final = GroupTree()
