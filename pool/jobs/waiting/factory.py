"""How many jobs a cluster may make now that makes them one after another, and what its ad says of that."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from pool.base.words import split_list
from pool.classad import ClassAd


class Paused(IntEnum):
    """JobMaterializePaused."""

    INVALID = -1
    NO = 0
    HELD = 1
    DONE = 2
    REMOVED = 3


EDITED: Final = "EditedClusterAttrs"
"""Names of cluster attributes that were set after the submit: jobs made later have them, whatever their recipe says."""


def begin(ad: ClassAd, cluster: int, total: int, items: int) -> None:
    """What the cluster's ad says of its factory from the beginning."""
    ad["JobMaterializeDigestFile"] = f"condor_submit.{cluster}.digest"
    ad["JobMaterializeItemCount"] = items
    ad["JobMaterializePaused"] = int(Paused.NO)
    ad["TotalSubmitProcs"] = total
    if "JobMaterializeLimit" not in ad:
        ad["JobMaterializeLimit"] = total


def wanted(ad: ClassAd, present: int, not_running: int, room: int) -> int:
    """How many more jobs there should be, of `present` ones; `room` is what the schedd's own limits leave."""
    if ad.eval_int("JobMaterializePaused", 0) != Paused.NO:
        return 0
    limit = ad.eval_int("JobMaterializeLimit")
    idle = ad.eval_int("JobMaterializeMaxIdle")
    if "JobMaterializeMaxIdle" in ad and idle is None:
        idle = 0  # an expression without a value lets no job come
    if limit is not None:
        room = min(room, limit - present)
    if idle is not None:
        room = min(room, idle - not_running)
    return max(0, room)


def edited(ad: ClassAd, names: list[str]) -> str:
    """EditedClusterAttrs with these names added."""
    known = {name.lower(): name for name in [*edited_names(ad), *names]}
    return ",".join(sorted(known.values(), key=str.lower))


def edited_names(ad: ClassAd) -> list[str]:
    """The names in EditedClusterAttrs."""
    return split_list(ad.eval_str(EDITED, ""))
