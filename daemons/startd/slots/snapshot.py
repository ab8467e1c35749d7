"""What the startd knows of its slots beyond their ads: the job ads of their claims, and what cron jobs have said.

`condor_status -direct HOST -snapshot` and `condor_who -snapshot` show it: each slot's ad, then what belongs to it.
Nothing is measured anew for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from daemons.startd.slots.ads import Ads
from daemons.startd.slots.slot import Slot
from pool.classad import ClassAd
from pool.classad.eval.budget import Patience

SECRETS: Final = frozenset(
    ("capability", "childclaimids", "claimid", "claimidlist", "claimids", "pairedclaimid", "transferkey")
)
_SECRET_PREFIX: Final = "_condor_priv"


def snapshot(
    slots: Iterable[Slot], ads: Ads, constraint: Patience | None, limit: int | None
) -> Iterator[ClassAd | None]:
    """The ads of the slots which the constraint is true for, or whose job it is true for; then the cron jobs'. None in
    the place of each other slot, so that a caller may pause.
    """
    seen = 0
    for slot in slots:
        if limit is not None and seen >= limit:
            break
        ad, job = ads.public(slot), slot.job
        if not any(constraint is None or (one is not None and constraint.eval(one) is True) for one in (ad, job)):
            yield None
            continue
        seen += 1
        yield ad
        if job is not None:
            yield _claim_ad(slot.name, job)
    for published in ads.cron():
        extra = published.ad.copy()
        extra["MyType"], extra["Name"] = "Machine.Extra", f"{published.job.name}{published.tag}"
        yield extra


def _claim_ad(name: str, job: ClassAd) -> ClassAd:
    shown = job.flat().copy()
    for attribute in list(shown):
        if attribute.lower() in SECRETS or attribute.lower().startswith(_SECRET_PREFIX):
            del shown[attribute]
    shown["MyType"], shown["Name"] = "Slot.Claim", name
    return shown
