"""`condor_status -direct HOST`: the ads of one daemon, from itself rather than from the collector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pool.classad import ClassAd, expr

if TYPE_CHECKING:
    from minipool.client.session import Session

DAEMONS: Final = {
    "Machine": "startd",
    "StartD": "startd",
    "Scheduler": "schedd",
    "Submitter": "schedd",
    "Negotiator": "negotiator",
    "Accounting": "negotiator",
    "DaemonMaster": "master",
    "Defrag": "defrag",
    "Rooster": "rooster",
}
"""Who has the ads of each type; other types are the collector's."""


def ask(
    session: Session,
    name: str,
    ad_type: str,
    *,
    constraint: str | None,
    projection: Sequence[str],
    limit: int | None,
    snapshot: bool = False,
    statistics: str = "",
) -> list[ClassAd]:
    """The ads of this type that the daemon of this name has. `statistics`: which statistics they show."""
    kind = DAEMONS[ad_type]
    # These may be many, and their daemon selects them; of its own ad a daemon has one.
    if ad_type in ("Machine", "Submitter"):
        found = session.query(
            ad_type,
            constraint=constraint,
            projection=() if statistics or snapshot else projection,
            limit=limit,
            address=session.address(kind, name=name),
            snapshot=snapshot,
        )
    else:
        wanted = expr(constraint or "true")
        found = [ad for ad in _own(session, kind, name, ad_type) if wanted.eval(ad) is True][:limit]
    if not statistics:
        return found
    from pool.ads.published_statistics import parse

    shown = parse(statistics)
    return [shown.shown(ad) for ad in found]


def _own(session: Session, kind: str, name: str, ad_type: str) -> list[ClassAd]:
    with session.daemon(kind, name=name) as peer:
        if ad_type == "Accounting":
            from protocol.messages.negotiator import GetPriorities

            return peer.call(GetPriorities()).submitters
        from protocol.messages.common import GetAd

        return [peer.call(GetAd()).ad]
