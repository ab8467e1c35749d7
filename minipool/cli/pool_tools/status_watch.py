"""condor_status -watch: the table of what is there, then a line for each ad whose row is new, another one, or gone.

    17:03:12 changed slot1@node7.pool.test      LINUX      X86_64 Claimed   Busy      1.000 2048  0+00:00:03

It goes on when the collector restarts, and says of that time what is different after it, once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import open_session
from minipool.client import core
from minipool.client.lines import Lines
from minipool.client.patience import Attempts
from minipool.client.steps import Tell
from pool.ads.seen import AdNews, SeenAds
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from minipool.cli.pool_tools.status import StatusQuery
    from pool.classad import ClassAd

_NOT_BESIDE: Final = (
    "ads", "direct", "merge", "diagnose", "totals", "compact", "long", "xml", "json", "print-format", "limit", "sort",
)  # fmt: skip


def watch(asked: StatusQuery) -> int:
    """Show what changes, until somebody ends it."""
    for key in _NOT_BESIDE:
        if asked.parsed.has(key):
            raise UserError(f"Error: -watch does not go with -{key}")
    session = open_session(asked.parsed)
    seen = SeenAds()
    view = WatchedRows(asked, seen)
    projection = asked.output.projection([*asked.table.names(), "Name", "Machine"], ("Name", "Machine"))
    # No schedd is asked, and none need run here.
    lines = Lines(session, None, for_ads=True)
    steps = core.watched_ads(
        asked.ad_type, asked.constraint(session), projection, seen, Attempts(0, None), lambda news: (Tell(value=news),)
    )
    try:
        for news in lines.stream(steps):
            sys.stdout.writelines(view.take(news, time.time()))
            sys.stdout.flush()
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    finally:
        lines.close()
    return 0


class WatchedRows:
    """The rows of the ads that `seen` has been told of, as they are printed."""

    def __init__(self, asked: StatusQuery, seen: SeenAds) -> None:
        self._asked, self._seen = asked, seen
        self._began = False

    def take(self, news: Iterable[AdNews], now: float) -> Iterable[str]:
        """What is printed of the news; the table, as soon as all that is there has been told."""
        if self._began:
            yield from (line for one in news if (line := self._line(one, now)))
        # Only then: the widths of columns depend on all rows, and the rows on their order.
        elif self._seen.synced:
            self._began = True
            yield from self._asked.text(self._asked.ordered(list(self._seen)), counted=False)

    def _line(self, news: AdNews, now: float) -> str:
        # What is fetched is more than what a row shows (names to sort by, what a column is made of), so that a change
        # of an ad may leave its row as it was.
        row = self._row(news.ad)
        if news.before is not None and not news.gone and self._row(news.before) == row:
            return ""
        what = "gone" if news.gone else "new" if news.before is None else "changed"
        return f"{time.strftime('%H:%M:%S', time.localtime(now))} {what:<7} {row}"

    def _row(self, ad: ClassAd) -> str:
        if not self._asked.output.is_table:
            return "".join(self._asked.text([ad]))
        table = self._asked.table.mask
        return table.display(table.render(ad))
