"""What condor_q asks a schedd: the selected jobs as they come, how many there are of all, and its name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from minipool.cli.queue_tools import q_totals
from minipool.cli.queue_tools.q_asked import Asked, without_projection
from minipool.client.session import Session
from pool.classad import ClassAd

if TYPE_CHECKING:
    from protocol.rpc.blocking import BlockingPeer


def connected(session: Session, asked: Asked, name: str | None) -> BlockingPeer:
    """A connection to the schedd that the options name."""
    return session.daemon("schedd", name=name, addr=asked.parsed.value("address"))


def identity(session: Session, peer: BlockingPeer, name: str | None) -> tuple[str, str]:
    """The schedd's name and address, as its own ad has them."""
    from protocol.messages.common import GetAd

    ad = peer.call(GetAd(projection=["Name", "MyAddress"])).ad
    return ad.eval_str("Name", name or "schedd"), ad.eval_str("MyAddress", session.sinful("schedd"))


def stream(peer: BlockingPeer, asked: Asked, projection: Sequence[str]) -> Iterator[ClassAd]:
    """The selected jobs as they come, by id; each knows the time at which it was asked for."""
    from protocol.messages.schedd import QueryJobs
    from protocol.wire.ad_table import ads_of

    request = QueryJobs(
        select=asked.selection(),
        projection=list(projection),
        limit=asked.limit,
        factories=asked.view == "factory" and asked.analyze is None,
        job_sets=asked.view == "jobset" and asked.analyze is None,
        # Thousands of jobs that look alike come as one table, which is read several times as fast as ads.
        tables=True,
    )
    timed, now = without_projection(projection), int(time.time())
    for batch in peer.stream(request):
        for ad in ads_of(batch):
            # The schedd's own time is the one that jobs' times are counted from; this clock is the next best.
            if timed and "ServerTime" not in ad:
                ad["ServerTime"] = now
            yield ad


def fetch(peer: BlockingPeer, asked: Asked, projection: Sequence[str]) -> list[ClassAd]:
    """All selected jobs."""
    return list(stream(peer, asked, projection))


def fetch_all(peer: BlockingPeer) -> q_totals.Tally:
    """All jobs of the queue, counted."""
    from protocol.messages.schedd import CountJobs

    tally = q_totals.Tally()
    tally.rows = [(one.owner, one.status, one.scheduler, one.count) for one in peer.call(CountJobs()).counts]
    return tally
