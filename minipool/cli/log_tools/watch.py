"""`pool watch` and condor_watch_q: see jobs run, live, until they are done."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.console import plain, screen
from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from minipool.client.job_ids import split
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from rich.console import Group

    from minipool.client.progress import Batch, Progress

_ROWS = "there is one layout"
_OPTIONS = (
    Opt("clusters", 2, -1, "ID...", "these clusters"),
    Opt("users", 1, -1, "NAME...", "the jobs of these users"),
    Opt("allusers", 2, says="the jobs of all users"),
    Opt("batches", 1, -1, "NAME...", "the batches of these names"),
    Opt("forever", 2, says="go on when all jobs are done"),
    Opt("larger-than", 3, 1, "CLUSTER", "clusters from this one on"),
    Opt("exit", 4, 1, "GROUPER,STATUS[,EXIT]", "end when all, any or none of the jobs are active, done, idle or held"),
    Opt("no-display-exited", 13, says="not the batches whose jobs are all done"),
    Opt("no-color", 8, says="without colours"),
    Opt("name schedd", 1, 1, NAME.metavar, NAME.says),
    Opt("pool collector", 1, 1, POOL.metavar, POOL.says),
    DEBUG,
    HELP,
    VERSION_OPT,
    *(
        Opt(name, len(name), says="(always so)")
        for name in ("table", "progress", "row-progress", "summary", "updated-at", "color", "refresh")
    ),
    Opt("interval", 3, 1, "SECONDS", "accepted: changes are shown as they come"),
    *refused("files", "the schedd is asked, not logs"),
    *refused("groupby summary-type", "jobs are shown by batch, with one summary"),
    *refused("display-exited exited-row-decay decay-start-at-read no-decay-start-at-read", _ROWS),
    *refused("no-table no-progress no-row-progress no-summary no-updated-at abbreviate no-abbreviate", _ROWS),
    *refused("no-refresh", "the terminal decides"),
    *refused("exit-on-key-press no-exit-on-key-press", "it ends with the jobs, or at Ctrl-C"),
)
WATCH = Tool(
    "pool watch", "Watch jobs run, until they are done.", "[CLUSTER | CLUSTER.PROC | OWNER]... [options]", _OPTIONS
)
WATCH_Q = WATCH._replace(name="condor_watch_q")
TOOLS = (WATCH, WATCH_Q)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run the program of this verb."""
    return run(WATCH_Q if verb == "watch_q" else WATCH, _main, argv)


def _main(parsed: Parsed) -> int:
    from minipool.client.progress import follow
    from pool.classad import quote
    from protocol.messages.schedd import Selection

    session = open_session(parsed)
    words = [*parsed.words, *parsed.values("clusters")]
    ids, users = split(words)
    users += parsed.values("users")
    # As condor_watch_q: without a word about which, one's own jobs.
    if not ids and not users and not parsed.has("allusers"):
        users = [session.user()]
    names = parsed.values("batches")
    clauses = [" || ".join(f"JobBatchName == {quote(name)}" for name in names)]
    clauses += [f"ClusterId >= {parsed.number('larger-than', 0)}"] if parsed.has("larger-than") else []
    constraint = " && ".join(f"({text})" for text in clauses if text) or None
    watched = WatchView(parsed)
    select = Selection(ids=ids, users=users, constraint=constraint, all=not (ids or users))
    steps = follow(session, select, name=parsed.value("name"))
    try:
        return (_live if sys.stdout.isatty() else _plain)(steps, watched)
    except PeerError as error:
        raise UserError(f"Error: {error}") from None


class WatchView:
    """What is shown of the jobs, and when the watch is over."""

    def __init__(self, parsed: Parsed) -> None:
        from minipool.cli.log_tools import watch_exit

        self.conditions = [watch_exit.read(text) for text in parsed.values("exit")]
        self.forever = parsed.has("forever")
        self.exited = not parsed.has("no-display-exited")
        self.color = not parsed.has("no-color")

    def shown(self, progress: Progress) -> list[Batch]:
        """The batches to show."""
        return [batch for batch in progress.batches() if self.exited or not batch.over]

    def status(self, progress: Progress) -> int | None:
        """The exit status, when this is the end."""
        from minipool.cli.log_tools.watch_exit import status_of

        met = status_of(self.conditions, progress.batches())
        return met if met is not None else 0 if progress.over and not self.forever else None


def _plain(steps: Iterator[Progress], watched: WatchView) -> int:
    from minipool.client.progress import line

    said: dict[str, str] = {}
    for progress in steps:
        for batch in watched.shown(progress):
            now = line(batch)
            # A pipe or a log file gets a line when something has changed, and not at each look.
            if said.get(batch.name) != now:
                said[batch.name] = now
                sys.stdout.write(now + "\n")
        sys.stdout.flush()
        status = watched.status(progress)
        if status is not None:
            if not said and not progress.ads:
                sys.stdout.write("No jobs to watch.\n")
            return status
    return 0


def _live(steps: Iterator[Progress], watched: WatchView) -> int:
    from rich.console import Console
    from rich.live import Live

    with Live(auto_refresh=False, console=Console(file=screen(), no_color=not watched.color)) as live:
        for progress in steps:
            live.update(render(watched.shown(progress)), refresh=True)
            status = watched.status(progress)
            if status is not None:
                return status
    return 0


def render(batches: Sequence[Batch]) -> Group:
    """The batches as a table with bars: done, running, held."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("BATCH", "IDLE", "RUN", "HOLD", "DONE", "TOTAL", "", box=None, pad_edge=False)
    for batch in batches:
        bar = Text()
        width = 40
        for count, style in ((batch.done, "green"), (batch.running, "cyan"), (batch.held, "red"), (batch.idle, "dim")):
            bar.append(("━" if style != "dim" else "─") * round(width * count / (batch.total or 1)), style=style)
        counts = (batch.idle, batch.running, batch.held, batch.done, batch.total)
        table.add_row(Text(plain(batch.name)), *(str(count) if count else "-" for count in counts), bar)
    return Group(table if batches else Text("No jobs."))
