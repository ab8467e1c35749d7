"""Following what a collector tells of its ads, as steps: no tool that only submits needs to know how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minipool.client.patience import Attempts
from minipool.client.steps import END, BeginOfCollector, Next, PoolClosed, Step, Steps, pause
from pool.ads.seen import AdNews, DoesNotFit, SeenAds
from pool.base.errors import PeerError
from protocol.messages.collector import WatchAds
from protocol.rpc.remote import ConnectionLost


def changes_of_ads(
    request: Callable[[], WatchAds], seen: SeenAds, patience: Attempts, take: Callable[[list[AdNews]], Iterable[Step]]
) -> Steps[None]:
    """`take` the news of what the collector tells, also where it is none, without end.

    `request` is asked anew for each connection. `seen` is told first, so whoever gets the news finds it there.
    """
    while True:
        try:
            came = yield BeginOfCollector(request=request(), patience=patience)
        except PoolClosed:
            raise
        except PeerError as refused:
            error = refused
        else:
            error = yield from _hear(came, patience, lambda told: take(seen.take(told)))
        yield from pause(patience, error)


def _hear(came: object, patience: Attempts, take: Callable[[Any], Iterable[Step]]) -> Steps[PeerError]:
    """`take` what comes until the connection is lost; how it was."""
    try:
        while (told := (yield Next(items=came, patience=patience))) is not END:
            patience.heard()
            yield from take(told)
    except (ConnectionLost, DoesNotFit) as error:
        return error
    return ConnectionLost("the collector has ended its answer")
