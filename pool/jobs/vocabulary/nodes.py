"""A job of the parallel universe is a gang: N nodes, each in a slot of its own. Here is what ads say of that.

Nodes that differ in what they need are of several procs: all procs of its cluster are one job, and proc 0 stands for
it. Nodes are numbered through, proc after proc.

Source: HTCondor manual, "Parallel Jobs": machine_count (MaxHosts), `$(Node)`, _CONDOR_PROCNO, _CONDOR_NPROCS,
"Differing Requirements for the Machines"; "Job ClassAd Attributes": CurrentHosts, RemoteHosts, Scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pool.classad import ClassAd, expr
from pool.classad.syntax.unparse import quote
from pool.jobs.vocabulary.universes import Universe

NODE_MARK: Final = "#pArAlLeLnOdE#"
"""What `$(Node)` becomes in a job's ad, until a node's starter is given its number."""
SCHEDULING_GROUP: Final = "ParallelSchedulingGroup"
"""The attribute of a slot that says of which group it is."""
NODE: Final = "Node"
"""The attribute that has a node's number, in the ad that its starter is given."""


def is_gang(ad: ClassAd) -> bool:
    """Whether the ad is of parallel jobs."""
    return bool(ad.attrs.get("jobuniverse") == Universe.PARALLEL)


def is_part(ad: ClassAd, proc: int) -> bool:
    """Whether this proc of a cluster is only a part of a parallel job, of which proc 0 is told and tells."""
    return proc > 0 and is_gang(ad)


def size_of(ad: ClassAd) -> int:
    """How many nodes the proc has."""
    return max(1, ad.eval_int("MaxHosts", 1))


def running_size(ad: ClassAd) -> int:
    """How many nodes the job has that runs, those of all its procs."""
    return max(1, ad.eval_int("CurrentHosts", 1))


def dedicated_scheduler(schedd: str) -> str:
    """What slots that are for parallel jobs of this schedd name in their DedicatedScheduler."""
    return f"DedicatedScheduler@{schedd}"


def wants_one_group(ad: ClassAd) -> bool:
    """Whether all nodes are to be on machines of one ParallelSchedulingGroup."""
    return ad.eval_bool("WantParallelSchedulingGroups", False)


def within(ad: ClassAd, group: str | None, tried: Iterable[str]) -> ClassAd:
    """The job as it asks for slots of this group; where it has none yet, of any but those that it has tried."""
    name = f"TARGET.{SCHEDULING_GROUP}"
    if group is None:
        others = ", ".join(quote(one) for one in sorted(tried))
        where = f"isString({name}) && !member({name}, {{{others}}})"
    else:
        where = f"{name} =?= {quote(group)}"
    narrow = ad.copy()
    narrow["Requirements"] = expr(f"({ad.text('Requirements')}) && {where}" if "Requirements" in ad else where)
    return narrow


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
    return {"_CONDOR_PROCNO": str(ad.eval_int(NODE, 0)), "_CONDOR_NPROCS": str(running_size(ad))}


def hosts(own: Iterable[str], names: Sequence[str]) -> dict[str, object]:
    """What a proc's ad says of the slots that nodes have, in their order: its `own`, and those of the whole job."""
    return {"RemoteHosts": ",".join(own), "AllRemoteHosts": ",".join(names), "CurrentHosts": len(names)}
