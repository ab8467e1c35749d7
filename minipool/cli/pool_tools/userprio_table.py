"""The tables of condor_userprio: users and groups, which columns there are, and in which order the rows come.

It is no table of `mask.py`: headings have two lines, and a column may be empty for users and not for groups. Groups
come with their users below them unless -flat or -grouporder says otherwise. A number that does not fit loses digits,
not its place. Source: HTCondor's manual page condor_userprio.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from minipool.cli.output.show import date, local
from pool.classad import ClassAd

_FOREVER: Final = 3.4028235e38
"""Where a group is that has no place of its own: behind all others."""
_QUOTAS: Final = frozenset(("EffectiveQuota", "ConfigQuota", "Surplus", "SubtreeQuota", "Requested"))
_PRIORITIES: Final = frozenset(("Priority", "RealPriority", "Factor"))
_USE: Final = frozenset(("InUse", "Usage"))
_MOST: Final = _USE | {"ConfigQuota", "Surplus", "Priority", "Factor", "Since", "Requested", "Ceiling", "Floor"}
SETS: Final[dict[str, frozenset[str]]] = {
    "most": _MOST,
    "all": _MOST | _QUOTAS | _PRIORITIES | {"Begin", "Last"},
    "priority": _PRIORITIES,
    "usage": _USE | {"Begin", "Last"},
    "quotas": _QUOTAS,
    "surplus": frozenset(("Surplus",)),
    "sortkey": frozenset(("SortKey",)),
    "groupid": frozenset(("GroupId",)),
    "order": frozenset(("Order",)),
}
"""The columns that each option adds."""


class TableWanted(NamedTuple):
    """What the command line asks of the table. `since`: only who used something after it; -1 is everybody.

    `hierarchical`: users below their groups; None is where there are groups. `quotas`: also where there are none.
    """

    columns: frozenset[str]
    since: float
    hierarchical: bool | None = None
    groups_first: bool = False
    quotas: bool = False


class UserRow(NamedTuple):
    """One user or group."""

    name: str
    ad: ClassAd
    place: int
    is_group: bool
    group: str
    group_id: int
    order: float | None
    last_used: float

    def number(self, name: str) -> float:
        """One of the ad's numbers; 0 when it has none."""
        return self.ad.eval_float(name, 0.0)


class Field(NamedTuple):
    """One column: its two lines of heading, and a row's cell; None where the row has nothing to show."""

    key: str
    width: int
    top: str
    bottom: str
    cell: Callable[[UserRow, float], str | None]
    left: bool = False


def _amount(name: str, width: int, decimals: int, scale: float = 1.0) -> Callable[[UserRow, float], str | None]:
    def cell(row: UserRow, _: float) -> str | None:
        return _fitted(row.number(name) / scale, width, decimals) if name in row.ad else None

    return cell


def _fitted(value: float, width: int, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    # Six characters are what `e+308` and the point take.
    return text if len(text) <= width else f"{value:.{width - 6}g}"


def _group_id(row: UserRow, _: float) -> str | None:
    return str(row.group_id) if row.group_id else None


def _group_order(row: UserRow, _: float) -> str | None:
    return None if row.order is None else _fitted(row.order, 9, 2)


def _sort_key(row: UserRow, _: float) -> str | None:
    if not row.is_group or "GroupSortKey" not in row.ad:
        return None
    key = row.number("GroupSortKey")
    # The negotiator gives the group <none> FLT_MAX for a sort key, so that it comes last.
    return "<last>" if key >= 3.40282001e38 else _fitted(key, 9, 2)


def _surplus(row: UserRow, _: float) -> str | None:
    if not row.is_group or not ("SurplusPolicy" in row.ad or "GroupAutoRegroup" in row.ad):
        return None
    return _policy(row) if row.group_id else "yes"


def _policy(row: UserRow) -> str:
    policy = row.ad.eval_str("SurplusPolicy", "").lower()
    regroup = "regroup" if row.ad.eval_bool("GroupAutoRegroup") else "no"
    return {"regroup": "Regroup", "byquota": "ByQuota", "no": "no"}.get(policy or regroup, "n/a")


def _priority(row: UserRow, _: float) -> str | None:
    return None if row.is_group else _fitted(row.number("Priority"), 12, 2)


def _real_priority(row: UserRow, _: float) -> str | None:
    factor = row.number("PriorityFactor")
    return _fitted(row.number("Priority") / factor, 8, 2) if factor > 0 else None


def _factor(row: UserRow, _: float) -> str | None:
    factor = row.number("PriorityFactor")
    return _fitted(factor, 9, 2) if factor > 0 else None


def _in_use(row: UserRow, _: float) -> str | None:
    name = "WeightedResourcesUsed" if "WeightedResourcesUsed" in row.ad else "ResourcesUsed"
    return _fitted(row.number(name), 6, 0) if name in row.ad else None


def _moment(name: str) -> Callable[[UserRow, float], str | None]:
    def cell(row: UserRow, _: float) -> str | None:
        at = row.number(name)
        when = local(at) if at > 0 else None
        return "" if when is None else time.strftime("%m/%d/%Y %H:%M", when)

    return cell


def _since(row: UserRow, updated: float) -> str | None:
    if "LastUsageTime" not in row.ad:
        return None
    return _span(updated - row.last_used)


def _span(seconds: float) -> str:
    if seconds <= 0:
        return "<now>"
    if not math.isfinite(seconds):
        return "[?????]"
    days, rest = divmod(int(seconds), 86400)
    return f"{days:4d}+{rest // 3600:02d}:{rest % 3600 // 60:02d}"[:10]


def _above(name: str, least: float) -> Callable[[UserRow, float], str | None]:
    def cell(row: UserRow, _: float) -> str | None:
        amount = row.ad.eval_float(name, least)
        return _fitted(amount, 9, 2) if amount > least else None

    return cell


COLUMNS: Final = (
    Field("GroupId", 5, "Group", "Id", _group_id),
    Field("Order", 9, "Group", "Order", _group_order),
    Field("SortKey", 9, "Group", "Sort Key", _sort_key),
    Field("EffectiveQuota", 9, "Effective", "Quota", _amount("EffectiveQuota", 9, 2)),
    Field("ConfigQuota", 9, "Config", "Quota", _amount("ConfigQuota", 9, 2)),
    Field("Surplus", 7, "Use", "Surplus", _surplus, left=True),
    Field("SubtreeQuota", 9, "Subtree", "Quota", _amount("SubtreeQuota", 9, 2)),
    Field("Priority", 12, "Effective", "Priority", _priority),
    Field("RealPriority", 8, "Real", "Priority", _real_priority),
    Field("Factor", 9, "Priority", "Factor", _factor),
    Field("InUse", 6, "Wghted", "In Use", _in_use),
    Field("Usage", 12, "Total Usage", "(wghted-hrs)", _amount("WeightedAccumulatedUsage", 12, 2, 3600.0)),
    Field("Begin", 16, "Usage", "Start Time", _moment("BeginUsageTime")),
    Field("Last", 16, "Last", "Usage Time", _moment("LastUsageTime")),
    Field("Since", 10, "Time Since", "Last Usage", _since),
    Field("Requested", 10, "Weighted", "Requested", _amount("Requested", 10, 0)),
    Field("Floor", 9, "Submitter", "Floor", _above("Floor", 0.0)),
    Field("Ceiling", 9, "Submitter", "Ceiling", _above("Ceiling", -1.0)),
)


def text(ads: Sequence[ClassAd], wanted: TableWanted, now: float) -> str:
    """The whole table; nothing without ads."""
    rows = _rows(ads, wanted.columns)
    if not rows:
        return ""
    # "Time since" counts from the accountant's last update: the table may be of a file.
    updated = max((ad.eval_int("LastUpdate", 0) for ad in ads), default=0) or int(now)
    return _Table(rows, wanted, updated).text()


def _rows(ads: Sequence[ClassAd], columns: frozenset[str]) -> list[UserRow]:
    """The rows as they came, each with its group's number: groups are numbered by name, `<none>` is 0."""
    named = [(place, ad) for place, ad in enumerate(ads) if "Name" in ad and "Priority" in ad]
    groups = {ad.eval_str("Name", ""): ad for _, ad in named if ad.eval_bool("IsAccountingGroup")}
    inner = sorted(name for name in groups if not _is_none(name))
    in_groups = any(
        not ad.eval_bool("IsAccountingGroup") and not _is_none(ad.eval_str("AccountingGroup", "<none>"))
        for _, ad in named
    )
    rows = []
    for place, ad in named:
        name, is_group = ad.eval_str("Name", ""), ad.eval_bool("IsAccountingGroup") is True
        group = name if is_group else ad.eval_str("AccountingGroup", "<none>")
        number = inner.index(group) + 1 if group in inner else 0
        of = groups.get(group)
        order = _order(of, number, columns, groups) if in_groups and of is not None else None
        rows.append(UserRow(name, ad, place, is_group, group, number, order, ad.eval_int("LastUsageTime", 0) or -1))
    return rows


def _is_none(name: str) -> bool:
    return name in ("<none>", ".")


def _order(group: ClassAd, number: int, columns: frozenset[str], groups: dict[str, ClassAd]) -> float:
    """Where a group stands among the groups."""
    if "Priority" in columns:
        if any("GroupSortKey" in ad for ad in groups.values()):
            return group.eval_float("GroupSortKey", 0.0)
        return group.eval_float("Priority", 0.0) if number else _FOREVER
    if columns & _USE:
        return group.eval_float("WeightedAccumulatedUsage", 0.0) / 3600
    return float(number) if number else _FOREVER


class _Table:
    """One table: who is in it, how it is sorted, how wide it is."""

    def __init__(self, rows: list[UserRow], wanted: TableWanted, updated: float) -> None:
        self.wanted, self.updated = wanted, updated
        self.seen = [row for row in rows if row.last_used >= wanted.since]
        # One policy is shown for all groups, the last that hands surplus on, as in HTCondor's userprio.cpp.
        policies = [_policy(row) for row in rows if row.is_group]
        self.policy = next((name for name in reversed(policies) if name in ("Regroup", "ByQuota")), "")
        only_priorities = wanted.columns <= _PRIORITIES
        nested = not only_priorities if wanted.hierarchical is None else wanted.hierarchical
        self.in_groups = any(row.group_id and row.order is not None for row in self.seen)
        self.nested = nested and not wanted.groups_first and self.in_groups
        self.groups_hidden = only_priorities and not nested
        self.users_shown = not wanted.columns <= _QUOTAS
        quotas = wanted.quotas or (self.in_groups and not self.groups_hidden)
        columns = wanted.columns if quotas else wanted.columns - _QUOTAS
        self.columns = [column for column in COLUMNS if column.key in columns]
        self.rows = self._sorted()
        self.count = sum(not row.is_group for row in self.seen)
        self.name_width = self._name_width(len(rows))

    def _sorted(self) -> list[UserRow]:
        columns = self.wanted.columns

        def own(row: UserRow) -> tuple[float, str]:
            if "Priority" in columns:
                return row.number("Priority"), ""
            return (row.number("WeightedAccumulatedUsage"), "") if columns & _USE else (0.0, row.name)

        def nested(row: UserRow) -> tuple[object, ...]:
            # With regroup, users of no group take what is left, and are shown behind the groups.
            none = self.policy == "Regroup" and not row.group_id
            by_order = (row.order or 0.0) if columns & ({"Priority"} | _USE) else 0.0
            return none, by_order, row.group_id, not row.is_group, own(row)

        if self.nested:
            return sorted(self.seen, key=nested)
        if self.wanted.groups_first:
            return sorted(self.seen, key=lambda row: (not row.is_group, row.place if row.is_group else 0, own(row)))
        return sorted(self.seen, key=own)

    def _name_width(self, count: int) -> int:
        longest = 10
        for row in self.seen:
            length = len(row.name)
            if self.nested and not row.is_group:
                length += 2 - (len(row.group) if row.group_id else 0)
            longest = max(longest, length)
        return max(min(99, longest), len(f"Number of users: {count}")) + (2 if self.nested else 0)

    def text(self) -> str:
        """Heading, rows, and the line below."""
        name = ("  User Name" if self.nested else "User Name") if self.users_shown else self._group_heading()
        rule = self._line("-" * self.name_width, ["-" * column.width for column in self.columns])
        lines = [
            f"Last Priority Update: {date(self.updated)}",
            self._line("Group" if self.nested else "", [_centred(one.top, one.width) for one in self.columns]),
            self._line(name, [_centred(one.bottom, one.width) for one in self.columns]),
            rule,
            *(self._row(row) for row in self.rows if self._is_shown(row)),
            rule,
            self._line(f"Number of users: {self.count}", [self._total(column) for column in self.columns]),
        ]
        return "\n".join(lines) + "\n"

    def _group_heading(self) -> str:
        return "Name" if self.nested else "Group Name"

    def _is_shown(self, row: UserRow) -> bool:
        if not row.is_group:
            return self.users_shown
        return not self.groups_hidden and (self.in_groups or row.group_id > 0)

    def _line(self, name: str, cells: Sequence[str]) -> str:
        return " ".join([name.ljust(self.name_width)[: self.name_width], *cells])

    def _row(self, row: UserRow) -> str:
        name = row.name
        if self.nested and not row.is_group:
            name = "  " + (name[len(row.group) + 1 :] if row.group_id else name)
        cells = []
        for column in self.columns:
            cell = column.cell(row, self.updated)
            if cell is None:
                cell = "n/d" if row.is_group and column.key in _QUOTAS | {"SortKey"} else ""
            cells.append(cell.ljust(column.width) if column.left else cell.rjust(column.width))
        return self._line(name, cells)

    def _total(self, column: Field) -> str:
        users = [row for row in self.rows if not row.is_group and self.users_shown]
        said = ""
        if column.key == "Surplus":
            return self.policy.ljust(column.width)
        if column.key == "InUse":
            said = _fitted(sum(float(_in_use(row, 0) or 0) for row in users), column.width, 0)
        elif column.key == "Usage":
            said = _fitted(sum(row.number("WeightedAccumulatedUsage") for row in users) / 3600, column.width, 2)
        elif column.key == "Last" and self.wanted.since > 0:
            said = time.strftime("%m/%d/%Y %H:%M", time.localtime(self.wanted.since))
        elif column.key == "Since" and self.wanted.since > 0:
            said = _span(self.updated - self.wanted.since)
        return said.rjust(column.width)


def _centred(text: str, width: int) -> str:
    return (" " * max(0, (width - len(text)) // 2) + text).ljust(width)
