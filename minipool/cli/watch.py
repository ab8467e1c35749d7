"""`pool watch` and condor_watch_q: see jobs run, live, until they are done."""

from __future__ import annotations

import sys

from minipool.cli.context import open_session
from minipool.cli.options import Opt, Parsed
from minipool.cli.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, refused, run
from pool.errors import PeerError, UserError
from pool.hints import TYPE_CHECKING, Iterator, Sequence
from pool.ids import names_jobs

if TYPE_CHECKING:
    from rich.console import Group

    from minipool.progress import Batch, Progress

_ROWS = "there is one layout"
_OPTIONS = (
    Opt("clusters", 2, -1, "ID...", "these clusters"),
    Opt("users", 1, -1, "NAME...", "the jobs of these users"),
    Opt("allusers", 2, says="the jobs of all users"),
    Opt("batches", 1, -1, "NAME...", "the batches of these names"),
    Opt("forever", 2, says="go on when all jobs are done"),
    NAME,
    POOL,
    DEBUG,
    HELP,
    VERSION_OPT,
    *(
        Opt(name, len(name), says="(always so)")
        for name in ("table", "progress", "row-progress", "summary", "updated-at", "color", "refresh")
    ),
    Opt("interval", 3, 1, "SECONDS", "accepted: changes are shown as they come"),
    *refused("collector schedd", "-pool and -name say whose jobs are shown"),
    *refused("files larger-than", "the schedd is asked, not logs"),
    *refused("groupby summary-type", "jobs are shown by batch, with one summary"),
    *refused("exit", "it ends when all jobs are done; see -forever"),
    *refused("display-exited no-display-exited exited-row-decay decay-start-at-read no-decay-start-at-read", _ROWS),
    *refused("no-table no-progress no-row-progress no-summary no-updated-at abbreviate no-abbreviate", _ROWS),
    *refused("no-color no-refresh", "the terminal decides"),
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
    from minipool.progress import follow
    from pool.classad import quote
    from protocol.messages.schedd import Selection

    session = open_session(parsed)
    words = [*parsed.words, *parsed.values("clusters")]
    ids = [word for word in words if names_jobs(word)]
    users = [word for word in words if word not in ids] + parsed.values("users")
    if not ids and not users and not parsed.has("allusers"):
        users = [session.user()]
    names = parsed.values("batches")
    constraint = " || ".join(f"JobBatchName == {quote(name)}" for name in names) or None
    select = Selection(ids=ids, users=users, constraint=constraint, all=not (ids or users))
    steps = follow(session, select, name=parsed.value("name"))
    try:
        show = _live if sys.stdout.isatty() else _plain
        show(steps, forever=parsed.has("forever"))
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    return 0


def _plain(steps: Iterator[Progress], *, forever: bool) -> None:
    from minipool.progress import line

    said: dict[str, str] = {}
    for progress in steps:
        for batch in progress.batches():
            now = line(batch)
            if said.get(batch.name) != now:
                said[batch.name] = now
                sys.stdout.write(now + "\n")
        sys.stdout.flush()
        if progress.over and not forever:
            if not said:
                sys.stdout.write("No jobs to watch.\n")
            return


def _live(steps: Iterator[Progress], *, forever: bool) -> None:
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        for progress in steps:
            live.update(render(progress.batches()), refresh=True)
            if progress.over and not forever:
                return


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
        table.add_row(batch.name, *(str(count) if count else "-" for count in counts), bar)
    return Group(table if batches else Text("No jobs."))
