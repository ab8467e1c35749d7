"""Jobs that have left the queue: rows beside the queue's, whose cluster's ad is stored once for all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pool.classad import ClassAd
from pool.jobs.queue.cluster import global_job_id
from pool.jobs.queue.pack import like, read_packed
from pool.jobs.queue.store import transaction

ROWS_PER_PAGE: Final = 200
CLUSTERS_KEPT_MAX: Final = 200
ROWS_PER_STEP: Final = 200
"""Rows that one transaction forgets."""


@dataclass
class Page:
    """Some finished jobs, and where the next page begins (None: there is none)."""

    ads: list[ClassAd]
    next_seq: int | None


class HistoryReader:
    """Reads pages of the history over a connection of its own; not for several threads at once."""

    def __init__(self, connection: sqlite3.Connection, schedd_name: str) -> None:
        self._connection = connection
        self._name = schedd_name
        self._clusters: dict[int, ClassAd] = {}

    def page(
        self,
        after: int | None = None,
        *,
        forwards: bool = False,
        cluster: int | None = None,
        proc: int | None = None,
        owner: str | None = None,
    ) -> Page:
        """The next jobs after row `after`, newest first unless `forwards`, of one cluster, job or owner if given."""
        wheres, values = [], []
        for column, value in (("cluster", cluster), ("proc", proc), ("owner", owner)):
            if value is not None:
                wheres.append(f"{column} = ?")
                values.append(value)
        if after is not None:
            wheres.append("seq > ?" if forwards else "seq < ?")
            values.append(after)
        order = f"ORDER BY seq {'ASC' if forwards else 'DESC'}"
        where = f"WHERE {' AND '.join(wheres)}" if wheres else ""
        if cluster is not None:  # its index is not in this order: sort numbers of rows, not rows
            where = f"WHERE seq IN (SELECT seq FROM history {where} {order} LIMIT {ROWS_PER_PAGE})"
        rows = self._connection.execute(
            f"SELECT seq, cluster, proc, status, ad FROM history {where} {order} LIMIT {ROWS_PER_PAGE}", values
        ).fetchall()
        ads = [self._ad(*row[1:]) for row in rows]
        return Page(ads, rows[-1][0] if len(rows) == ROWS_PER_PAGE else None)

    def ended_in_set(self, set_id: int) -> dict[int, int]:
        """How many jobs of a job set have left the queue, by their last state."""
        rows = self._connection.execute(
            "SELECT cluster FROM clusters WHERE cluster >= ? AND ad LIKE ?", (set_id, like("JobSetId", set_id))
        ).fetchall()
        ended: dict[int, int] = {}
        for (cluster,) in rows:
            if self._cluster_ad(cluster).eval_int("JobSetId") != set_id:
                continue
            counts = self._connection.execute(
                "SELECT status, count(*) FROM history WHERE cluster = ? GROUP BY status", (cluster,)
            )
            for status, count in counts.fetchall():
                ended[status] = ended.get(status, 0) + count
        return ended

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ad(self, cluster: int, proc: int, status: int, packed: str) -> ClassAd:
        ad = read_packed(packed).unpack(self._cluster_ad(cluster))
        ad["ProcId"], ad["JobStatus"] = proc, status
        ad["GlobalJobId"] = global_job_id(self._name, cluster, proc, ad.eval_int("QDate") or 0)
        return ad

    def _cluster_ad(self, cluster: int) -> ClassAd:
        ad = self._clusters.get(cluster)
        if ad is None:
            row = self._connection.execute("SELECT ad FROM clusters WHERE cluster = ?", (cluster,)).fetchone()
            ad = read_packed(row[0]).unpack() if row is not None else ClassAd({"ClusterId": cluster})
            # Dropped all at once: pages go through the history in order, and do not come back to a cluster.
            if len(self._clusters) >= CLUSTERS_KEPT_MAX:
                self._clusters.clear()
            self._clusters[cluster] = ad
        return ad


def prune(connection: sqlite3.Connection, keep_rows: int) -> Iterator[int]:
    """Forget all but the newest `keep_rows` jobs, and clusters that nothing refers to; how many jobs went, by steps.

    The connection is nobody else's. Each step is a transaction so short that the queue's own commits can wait for it.
    """
    row = connection.execute("SELECT seq FROM history ORDER BY seq DESC LIMIT 1 OFFSET ?", (keep_rows,)).fetchone()
    if row is None:
        return
    oldest = "SELECT seq FROM history WHERE seq <= ? ORDER BY seq LIMIT ?"
    gone = ROWS_PER_STEP
    while gone == ROWS_PER_STEP:
        with transaction(connection):
            gone = connection.execute(f"DELETE FROM history WHERE seq IN ({oldest})", (*row, ROWS_PER_STEP)).rowcount
        yield gone
    # Looked for before the transactions: a cluster that has left, and none of whose jobs is kept, stays so.
    kept = "SELECT 1 FROM history WHERE history.cluster = clusters.cluster"
    empty = connection.execute(f"SELECT cluster FROM clusters WHERE live = 0 AND NOT EXISTS ({kept})").fetchall()
    for at in range(0, len(empty), ROWS_PER_STEP):
        with transaction(connection):
            connection.executemany("DELETE FROM clusters WHERE cluster = ?", empty[at : at + ROWS_PER_STEP])
        yield 0
