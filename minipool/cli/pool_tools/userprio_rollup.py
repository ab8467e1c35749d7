"""condor_userprio -grouprollup: what groups use and have used, with all groups below them.

Without it each group's row is what its own submitters hold. `<none>` stands above all. A priority of a whole subtree
means nothing, so it is 0. Source: HTCondor's Accountant::ReportGroups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pool.classad import ClassAd

_SUMS: Final = ("ResourcesUsed", "WeightedResourcesUsed", "AccumulatedUsage", "WeightedAccumulatedUsage")
_NONE: Final = "<none>"


def rolled_up(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """The same ads, those of groups with what is below them."""
    groups = [ad for ad in ads if ad.eval_bool("IsAccountingGroup")]
    return [_with_all_below(ad, groups) if ad.eval_bool("IsAccountingGroup") else ad for ad in ads]


def _with_all_below(group: ClassAd, groups: Sequence[ClassAd]) -> ClassAd:
    name = group.eval_str("Name", "").lower()
    under = [one for one in groups if name == _NONE or f"{one.eval_str('Name', '').lower()}.".startswith(f"{name}.")]
    rolled = group.copy()
    for attribute in _SUMS:
        total = sum(one.eval_float(attribute, 0.0) for one in under)
        rolled[attribute] = int(total) if attribute == "ResourcesUsed" else total
    # Who has never used anything has a 0 here, which is no time.
    rolled["BeginUsageTime"] = min((at for one in under if (at := one.eval_int("BeginUsageTime", 0)) > 0), default=0)
    rolled["LastUsageTime"] = max((one.eval_int("LastUsageTime", 0) for one in under), default=0)
    rolled["Priority"] = 0.0
    return rolled
