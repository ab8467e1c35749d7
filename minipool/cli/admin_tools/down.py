"""`pool down`: stop the pool, or this host's part of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import HELP, VERSION_OPT, Tool, run
from minipool.client import host
from minipool.client.session import Session
from pool.base.errors import UserError

TOOL = Tool(
    "pool down",
    "Stop the pool on this host.",
    "[--dir DIR] [-fast | -graceful | -peaceful]",
    (
        Opt("dir", 1, 1, "DIR", "the directory that was given to `pool up`"),
        Opt("fast", 1, says="kill running jobs"),
        Opt("graceful", 1, says="give running jobs their vacate time (the default)"),
        Opt("peaceful", 1, says="let running jobs finish"),
        HELP,
        VERSION_OPT,
    ),
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool down`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    session = Session.open(directory=parsed.value("dir"))
    how = "fast" if parsed.has("fast") else "peaceful" if parsed.has("peaceful") else "graceful"
    if not host.stop(session, how):
        raise UserError(f"No pool runs in {session.config.path('LOCAL_DIR')}.")
    sys.stdout.write(f"The pool in {session.config.path('LOCAL_DIR')} is down.\n")
    return 0
