"""`pool dag watch`: see a graph run, live on a terminal, or a line for each change."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.dag_tools.graph_files import text_of
from minipool.cli.entry.console import plain, screen
from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, Tool, run
from pool.base.errors import PeerError, UserError
from pool.base.ids import is_number

if TYPE_CHECKING:
    from minipool.cli.dag_tools.following import Followed

TOOL: Final = Tool(
    "pool dag watch",
    "Watch a graph run: how far it is, what runs, what has failed and why, how long it takes yet.",
    "FILE | CLUSTER [-lines]",
    (Opt("lines", 1, says="a line for each change, as where no terminal reads it"), HELP),
)
REDRAWN_HZ: Final = 2


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool dag watch`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if len(parsed.words) != 1:
        raise UsageError("Give the DAG file, or the cluster of DAGMan's job.")
    # Here, as it brings modules along that other tools have no use for.
    from minipool.cli.dag_tools.following import Followed

    (word,) = parsed.words
    followed = Followed(open_session(parsed), int(word) if is_number(word) else _cluster_of(word))
    try:
        (_live if sys.stdout.isatty() and not parsed.has("lines") else _plain)(followed)
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    return 0 if followed.dagman.eval_int("ExitCode", 1) == 0 else 1


def _cluster_of(file: str) -> int:
    """DAGMan's newest job for the file, by the log that condor_submit_dag gives that job."""
    from pool.jobs.userlog.requests import events_of

    log = f"{file}.dagman.log"
    try:
        events = events_of(text_of(log), year=time.localtime().tm_year)
        clusters = [int(event["cluster"]) for event in events if event["type"] == 0]
    except OSError as error:
        raise UserError(f"{log} cannot be read: {error.strerror} (expected a graph that has been submitted)") from None
    if not clusters:
        raise UserError(f"{log} tells of no job (expected the log of a graph that has been submitted)")
    return clusters[-1]


def _plain(followed: Followed) -> None:
    from minipool.cli.dag_tools.watch_view import change, headline, standing

    stood = ""
    for changes in followed.steps():
        if followed.nodes is not None:
            sys.stdout.write("".join(change(followed.nodes.past, one) + "\n" for one in changes))
        # How far it is, the lines of nodes say; that none will come has a reason of its own.
        stands = standing(followed)
        if (stands and stands != stood) or followed.over:
            sys.stdout.write(headline(followed) + "\n")
        stood = stands
        sys.stdout.flush()


def _live(followed: Followed) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from minipool.cli.dag_tools.watch_view import screen_of

    # Drawn by a thread of rich's: how long something runs changes while nothing else does.
    def drawn() -> Text:
        with followed.lock:
            return Text("\n".join(plain(line) for line in screen_of(followed, time.time())))

    with Live(get_renderable=drawn, refresh_per_second=REDRAWN_HZ, console=Console(file=screen())):
        for _ in followed.steps():
            pass
