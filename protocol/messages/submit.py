"""How jobs come into a schedd's queue: what condor_submit says, which needs nothing else of what schedds are told.

durable first     SubmitJobs is answered when the jobs are on disk and their submit events are written
many in pieces    jobs come in chunks, so that no message grows with the queue
"""

from __future__ import annotations

from pool.classad import ClassAd
from protocol.wire.message import Record, Request


class Submitted(Record):
    """The jobs are durable and their submit events are written: `cluster`.0 ... `cluster`.(count - 1)."""

    cluster: int
    count: int
    warnings: list[str] = []


class SubmitJobs(Request[Submitted], tag="schedd.submit"):
    """Queue one cluster. `procs` are chunks of at most 500 proc ads each (`protocol.wire.ad_table`), in order.

    A proc ad holds only what differs from `cluster_ad`. ClusterId, ProcId, Owner, User and QDate are the
    schedd's to set.
    `hold_for_spool`: files will follow (-spool); the jobs wait on hold with code 16.
    """

    cluster_ad: ClassAd
    procs: list[bytes]
    hold_for_spool: bool = False
    cluster: int | None = None  # the id that ReserveCluster gave to this caller, whose ads mention it
    jobset: ClassAd | None = None  # what the description says of the job set that it names
    factory: str = ""  # instead of `procs`: the recipe (pool.submit.recipe) by which the schedd makes the jobs itself


class ReservedCluster(Record):
    """An id that no other cluster has or will have."""

    cluster: int


class ReserveCluster(Request[ReservedCluster], tag="schedd.reserve_cluster"):
    """An id for ads that mention it (`output = out.$(Cluster)`), to be used once, by this caller's SubmitJobs."""
