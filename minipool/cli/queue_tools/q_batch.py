"""condor_q's usual view: one line for each batch of jobs (a named batch, a DAG with its nodes, or a cluster)."""

from __future__ import annotations

from collections.abc import Sequence

from minipool.cli.output.mask import LEFT, MISSING, Column, Mask
from minipool.cli.output.show import clock_date
from minipool.client.job_ids import of_ad
from pool.classad import ClassAd
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import Universe

NEEDS = (
    "ClusterId", "ProcId", "Owner", "QDate", "JobStatus", "JobUniverse", "JobBatchName", "DAGManJobId", "DAGNodeName",
    "TotalSubmitProcs", "JobMaterializeNextProcId", "DAG_NodesTotal", "DAG_NodesDone",
)  # fmt: skip


class _Batch:
    """What is counted for one line."""

    def __init__(self, first: ClassAd, name: str) -> None:
        self.first, self.name = first, name
        self.owner = first.eval_str("Owner", "??")
        self.node = first.eval_str("DAGNodeName") if "DAGManJobId" in first else None
        self.states: dict[int, int] = {}
        self.total = self.done = 0
        self.unknown_total = False
        self.lowest: tuple[int, int] | None = None
        self.highest: tuple[int, int] | None = None

    def count(self, ad: ClassAd) -> None:
        """One job, unless it is a DAG's own."""
        if _is_dag(ad):
            return
        status = ad.eval_int("JobStatus", 0)
        self.states[status] = self.states.get(status, 0) + 1
        job = of_ad(ad)
        self.lowest = job if self.lowest is None else min(self.lowest, job)
        self.highest = job if self.highest is None else max(self.highest, job)

    def cells(self) -> list[object]:
        """The line's cells: counts that are zero show as their column's alternative."""
        states = self.states
        counts = (
            0 if self.unknown_total else self.done,
            states.get(JobStatus.RUNNING, 0) + states.get(JobStatus.TRANSFERRING_OUTPUT, 0),
            states.get(JobStatus.IDLE, 0) + states.get(JobStatus.SUSPENDED, 0),
            states.get(JobStatus.HELD, 0),
            0 if self.unknown_total else self.total,
        )
        shown = [f"{count:6d}" if count > 0 else MISSING for count in counts]
        submitted = self.first.eval_int("QDate")
        since = MISSING if submitted is None else clock_date(submitted)
        return [self.owner, self.name, since, *shown, self._ids()]

    def _ids(self) -> str:
        low, high = self.lowest, self.highest
        if low is None or high is None:
            return "0.0"  # a DAG without a node in the queue
        if low == high:
            return f"{low[0]}.{low[1]}"
        if low[0] == high[0]:
            return f"{low[0]}.{low[1]}-{high[1]}"
        return f"{low[0]}.{low[1]} ... {high[0]}.{high[1]}"


def batch_lines(
    ads: Sequence[ClassAd], *, partial: bool, width: int, always_held: bool = False, dag: bool = False
) -> list[str]:
    """The heading and a line for each batch.

    `partial`: perhaps not all jobs of a cluster are here, so DONE is unknown. `dag`: nodes show their name as owner.
    """
    batches = _batches(ads, partial)
    for batch in batches if dag else ():
        batch.owner = batch.node or batch.owner
    rows = [batch.cells() for batch in batches]
    columns = [
        Column("OWNER", "Owner", 5, LEFT),
        Column("BATCH_NAME", "JobBatchName", 12, LEFT),
        Column("   SUBMITTED", "QDate", 12),
        *(Column(heading, "X", 6, alt="_") for heading in ("  DONE", "  RUN ", "  IDLE", "  HOLD", " TOTAL")),
        Column("JOB_IDS", "X"),
    ]
    if rows:
        columns[0], columns[1] = _fitted(rows, width)
        for at in range(3, 8):
            widest = max(len(_text(row[at]).strip()) for row in rows)
            columns[at] = columns[at]._replace(width=max(6, widest))
        # The column of held jobs is there when there are any, and with -global always: tables of several queues stay
        # alike.
        if not always_held and all(row[6] is MISSING for row in rows):
            del columns[6]
            rows = [[*row[:6], *row[7:]] for row in rows]
    table = Mask(columns, width=max(0, width - 1), trim=not width)
    return [table.heading(), *(table.display(row) for row in rows)]


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else ""


def _fitted(rows: Sequence[Sequence[object]], width: int) -> tuple[Column, Column]:
    """The columns of the owner and the batch's name, as wide as their values or as a terminal has room for."""
    owner, name, ids = (max(len(_text(row[at])) for row in rows) for at in (0, 1, 8))
    # 50 is what dates and counts take. How the rest is shared out is condor_q's (queue.cpp).
    room, longest = width - 50, max(5, owner)
    if width and name + owner + ids > room:
        # A terminal's width beyond what the counts take is shared out; what one does not need goes to the others.
        for_name = for_owner = for_ids = (room - 27) // 3
        if for_ids < ids and name + owner - (for_name + for_owner + 18) > 7 and for_name < 10:
            ids //= 2
        if for_ids + 9 > ids:
            rest = for_ids + 9 - ids
            for_owner, for_name = for_owner + rest // 2, for_name + rest - rest // 2
        if for_name + 10 > name:
            for_owner = min(8 + for_owner + for_name + 10 - name, owner) - 8
        if for_owner + 8 > owner:
            for_name = min(10 + for_name + for_owner + 8 - owner, name) - 10
        name, owner = min(name, for_name + 10), min(owner, for_owner + 8)
    owner = max(8, owner) if owner < longest else owner
    return Column("OWNER", "Owner", owner, LEFT), Column("BATCH_NAME", "JobBatchName", max(10, name), LEFT)


def _batches(ads: Sequence[ClassAd], partial: bool) -> list[_Batch]:
    batches: list[_Batch] = []
    of_cluster: dict[int, _Batch] = {}
    of_name: dict[tuple[str, str], _Batch] = {}
    in_cluster: dict[int, int] = {}
    for ad in ads:
        cluster = ad.eval_int("ClusterId", 0)
        in_cluster[cluster] = in_cluster.get(cluster, 0) + 1
    counted: set[int] = set()
    for ad in ads:
        cluster = ad.eval_int("ClusterId", 0)
        batch = of_cluster.get(cluster)
        if batch is None:
            batch = of_cluster[cluster] = _batch_of(ad, cluster, of_cluster, of_name, batches)
        batch.count(ad)
        if cluster not in counted:
            counted.add(cluster)
            _add_total(batch, ad, in_cluster[cluster], partial, of_cluster)
    return batches


def _batch_of(
    ad: ClassAd,
    cluster: int,
    of_cluster: dict[int, _Batch],
    of_name: dict[tuple[str, str], _Batch],
    batches: list[_Batch],
) -> _Batch:
    dag = ad.eval_int("DAGManJobId", 0)
    # A node belongs to its DAG's line, and a DAG of a DAG to the outermost one.
    if dag in of_cluster:
        return of_cluster[dag]
    name = ad.eval_str("JobBatchName")
    key = (ad.eval_str("Owner", ""), name or "")
    if name and key in of_name and not _is_dag(ad) and dag <= 0:
        return of_name[key]
    shown = name or (f"DAG: {cluster}" if _is_dag(ad) else _node_name(ad) or f"ID: {cluster}")
    batch = _Batch(ad, shown)
    batches.append(batch)
    if name and not _is_dag(ad) and dag <= 0:
        of_name[key] = batch
    return batch


def _node_name(ad: ClassAd) -> str | None:
    node = ad.eval_str("DAGNodeName") if "DAGManJobId" in ad else None
    return f"NODE: {node}" if node else None


def _add_total(batch: _Batch, ad: ClassAd, present: int, partial: bool, of_cluster: dict[int, _Batch]) -> None:
    if _is_dag(ad):
        batch.total += ad.eval_int("DAG_NodesTotal", 0)
        batch.done += ad.eval_int("DAG_NodesDone", 0)
        return
    if ad.eval_int("DAGManJobId", 0) > 0:
        return  # its DAG's own counts have it
    total = ad.eval_int("TotalSubmitProcs")
    if not total:
        # Clusters from before TotalSubmitProcs: how many there were is known to nobody.
        batch.unknown_total = True
        return
    batch.total += total
    if not partial:
        made = ad.eval_int("JobMaterializeNextProcId", total)  # the others are still to be made
        batch.done += max(0, made - present)


def _is_dag(ad: ClassAd) -> bool:
    return ad.eval_int("JobUniverse", Universe.VANILLA) == Universe.SCHEDULER
