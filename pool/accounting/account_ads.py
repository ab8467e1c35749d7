"""The accounts as Accounting ads, which condor_userprio shows and the collector keeps.

Source: HTCondor manual, "Accounting ClassAd Attributes"; what it does not name is as in the ads of HTCondor 25.14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pool.accounting.accounts import Accountant, SubmitterAccount
from pool.accounting.groups import Group, GroupTree
from pool.accounting.quotas import NO_QUOTA, Quota
from pool.classad import ClassAd


@dataclass(frozen=True, slots=True)
class SubmitterFigures:
    """What a cycle has found for a submitter: the part of the pool that he is due, and its weight."""

    share: float = 0.0
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """What a cycle has found for a group. `requested` is the weight that it uses and asks for, `used` what it uses."""

    quota: Quota = NO_QUOTA
    requested: float = 0.0
    sort_key: float = 0.0
    used: float = 0.0


@dataclass(frozen=True, slots=True)
class CycleFigures:
    """What the last cycle has found, by submitter and by group."""

    submitters: Mapping[str, SubmitterFigures] = field(default_factory=dict)
    groups: Mapping[str, GroupFigures] = field(default_factory=dict)


NO_FIGURES: Final = CycleFigures()


def accounting_ads(accountant: Accountant, figures: CycleFigures = NO_FIGURES) -> list[ClassAd]:
    """One ad for each account: submitters', and groups'."""
    tree = accountant.factors.groups
    known = [account for _, account in sorted(accountant.accounts.items())]
    ads = []
    for account in known:
        group = tree.named(account.submitter) if account.is_group else tree.of(account.submitter)
        if group is None:  # the account of a group that is configured no more
            continue
        ad = _account_ad(account, group, accountant.updated_at)
        if account.is_group:
            ad.update(_group_part(group, figures.groups.get(group.name, GroupFigures())))
            # Of those in no group, other groups are no part.
            below = account.weighted_in_use if group is tree.root else _with_all_below(accountant, tree, group)
            ad["HierWeightedResourcesUsed"] = below
        found = figures.submitters.get(account.submitter, SubmitterFigures())
        ad.update({"SubmitterLimit": found.limit, "SubmitterShare": found.share})
        ads.append(ad)
    return ads


def _with_all_below(accountant: Accountant, tree: GroupTree, group: Group) -> float:
    own = accountant.accounts.get(group.name)
    used = own.weighted_in_use if own is not None else 0.0
    return used + sum(_with_all_below(accountant, tree, child) for child in tree.children(group))


def _account_ad(account: SubmitterAccount, group: Group, updated_at: float) -> ClassAd:
    ad = ClassAd(
        {
            "MyType": "Accounting",
            "Name": account.submitter,
            "AccountingGroup": group.name,
            "IsAccountingGroup": account.is_group,
            "Priority": round(account.effective, 6),
            "PriorityFactor": account.factor,
            "ResourcesUsed": account.in_use,
            "WeightedResourcesUsed": account.weighted_in_use,
            "AccumulatedUsage": account.usage_s,
            "WeightedAccumulatedUsage": account.weighted_usage_s,
            "HierWeightedResourcesUsed": 0.0,
            "UnchargedTime": 0,
            "WeightedUnchargedTime": 0.0,
            "Ceiling": _whole(account.ceiling),
            "Floor": _whole(account.floor),
            "LastUpdate": int(updated_at),
        }
    )
    times = {"BeginUsageTime": int(account.began_at), "LastUsageTime": int(account.last_used_at)}
    ad.update({name: at for name, at in times.items() if at})  # who has used nothing has no times of use
    for lease in account.leases:
        name = {"ceiling": "Ceiling", "floor": "Floor", "priorityfactor": "PriorityFactor"}[lease.attribute]
        ad[f"{name}LeaseExpiration"] = int(lease.until)
        ad[f"{name}PreLeaseValue"] = _whole(lease.before)
    return ad


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _group_part(group: Group, figures: GroupFigures) -> dict[str, object]:
    if group.regroups:
        policy = "regroup"
    else:
        policy = "byquota" if group.accepts_surplus else "no"
    return {
        "EffectiveQuota": figures.quota.own,
        "ConfigQuota": group.quota,
        "SubtreeQuota": figures.quota.subtree,
        "GroupSortKey": figures.sort_key,
        "SurplusPolicy": policy,
        "Requested": figures.requested,
    }
