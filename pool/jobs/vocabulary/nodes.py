"""A job of the parallel universe is a gang: N nodes, each in a slot of its own. Here is what ads say of that.

Source: HTCondor manual, "Parallel Applications": machine_count (MaxHosts), `$(Node)`, _CONDOR_PROCNO, _CONDOR_NPROCS;
"Job ClassAd Attributes": CurrentHosts, RemoteHosts, Scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pool.classad import ClassAd
from pool.jobs.vocabulary.universes import Universe

NODE_MARK: Final = "#pArAlLeLnOdE#"
"""What `$(Node)` becomes in a job's ad, until a node's starter is given its number."""
NODE: Final = "Node"
"""The attribute that has a node's number, in the ad that its starter is given."""


def is_gang(ad: ClassAd) -> bool:
    """Whether the ad is of parallel jobs."""
    return bool(ad.attrs.get("jobuniverse") == Universe.PARALLEL)


def size_of(ad: ClassAd) -> int:
    """How many nodes the job has."""
    return max(1, ad.eval_int("MaxHosts", 1))


def dedicated_scheduler(schedd: str) -> str:
    """What slots that are for parallel jobs of this schedd name in their DedicatedScheduler."""
    return f"DedicatedScheduler@{schedd}"


def for_node(ad: ClassAd, node: int) -> ClassAd:
    """The job as this node's starter and file agent are to see it."""
    for name, value in list(ad.items()):
        if isinstance(value, str) and NODE_MARK in value:
            ad[name] = value.replace(NODE_MARK, str(node))
    ad[NODE] = node
    return ad


def environment(ad: ClassAd) -> dict[str, str]:
    """What a node's program is told of its place; nothing in any other job."""
    if not is_gang(ad) or NODE not in ad:
        return {}
    return {"_CONDOR_PROCNO": str(ad.eval_int(NODE, 0)), "_CONDOR_NPROCS": str(size_of(ad))}


def hosts(names: Iterable[str]) -> dict[str, object]:
    """What the job's ad says of the slots that its nodes have, in their order."""
    listed = list(names)
    text = ",".join(listed)
    return {"RemoteHosts": text, "AllRemoteHosts": text, "CurrentHosts": len(listed)}
