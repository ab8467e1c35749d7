"""Job sets: clusters of one owner under one name, and what is true of all their jobs together.

A set lives as long as one of its clusters is in the queue. Its id is that of its first cluster. Each of its clusters
carries the id; what the user said of the set itself (`JOBSET.Name = value`) is kept with the cluster that said it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pool.classad import ClassAd
from pool.jobs.queue.cluster import Cluster
from pool.jobs.vocabulary.states import JobStatus

ID: Final = "JobSetId"
NAME: Final = "JobSetName"
ATTRIBUTES: Final = "JobSetAttributes"

# the states that are counted, under their names in the set's ad
_LIVE: Final = (
    ("NumIdle", (JobStatus.IDLE,)),
    ("NumRunning", (JobStatus.RUNNING, JobStatus.TRANSFERRING_OUTPUT, JobStatus.SUSPENDED)),
    ("NumHeld", (JobStatus.HELD,)),
)


def join(cluster: Cluster, others: Iterable[Cluster], said: ClassAd | None) -> None:
    """Make a new cluster a member of the set that its ad names, if it names one."""
    if NAME not in cluster.ad:
        return
    name = cluster.ad.eval_str(NAME, "")
    cluster.ad[NAME] = name  # a text from now on: others would have to find out anew what an expression comes to
    if not name:
        return
    known = (
        other.ad.eval_int(ID)
        for other in others
        if other.owner == cluster.owner and ID in other.ad and _name_of(other).lower() == name.lower()
    )
    cluster.ad[ID] = next((id for id in known if id is not None), cluster.id)
    if said is not None and len(said):
        cluster.ad[ATTRIBUTES] = said


def _name_of(cluster: Cluster) -> str:
    """What the cluster's set is called, where that is a text."""
    name = cluster.ad.get(NAME)
    return name if isinstance(name, str) else ""


def by_id(clusters: Iterable[Cluster]) -> dict[int, list[Cluster]]:
    """The sets that there are, each with its clusters."""
    found: dict[int, list[Cluster]] = {}
    for cluster in clusters:
        id = cluster.ad.eval_int(ID) if ID in cluster.ad else None
        if id is not None:
            found.setdefault(id, []).append(cluster)
    return found


def set_ad(id: int, clusters: list[Cluster], ended: Mapping[int, int]) -> ClassAd:
    """The ad of a set. `ended`: how many of its jobs have left the queue, by their last state."""
    first = clusters[0]
    ad = ClassAd({"MyType": "JobSet", ID: id, NAME: _name_of(first), "Owner": first.owner})
    ad["User"] = first.user
    for cluster in clusters:
        said = cluster.ad.get(ATTRIBUTES)
        if isinstance(said, ClassAd):
            for name, value in said.items():
                ad[name] = value
    states = Counter(job.status for cluster in clusters for job in cluster.jobs.values())
    for name, counted in _LIVE:
        ad[name] = sum(states[status] for status in counted)
    ad["NumCompleted"] = states[JobStatus.COMPLETED] + ended.get(int(JobStatus.COMPLETED), 0)
    ad["NumRemoved"] = states[JobStatus.REMOVED] + ended.get(int(JobStatus.REMOVED), 0)
    ad["NumJobs"] = states.total() + sum(ended.values())
    ad["JobSetClusters"] = ",".join(str(cluster.id) for cluster in clusters)
    return ad
