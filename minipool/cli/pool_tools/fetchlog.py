"""condor_fetchlog: a log of a host of the pool, on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, POOL, VERSION_OPT, Tool, run
from pool.base.errors import PeerError, UserError

DAEMONS: Final = ("master", "startd", "schedd", "collector", "negotiator")

TOOL = Tool(
    "condor_fetchlog",
    "Print a log of another host's daemons.",
    "[options] MACHINE SUBSYSTEM[.EXTENSION]",
    (
        HELP,
        VERSION_OPT,
        DEBUG,
        POOL,
        *(Opt(daemon, 1, says=f"ask the {daemon} of the host") for daemon in DAEMONS),
        Opt("kbdd", 1, says="refused: there is no kbdd"),
    ),
    notes="SUBSYSTEM is the first part of a knob that names a log: MASTER, SCHEDD, STARTD, STARTER.slot1 ... It takes"
    "\nADMINISTRATOR there. The master is asked unless another daemon is named.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_fetchlog."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.common import FetchLog

    if len(parsed.words) != 2:
        raise UsageError("Say which machine, and which log")
    if parsed.has("kbdd"):
        raise UserError("There is no kbdd in this pool: the startd looks at the keyboard itself")
    machine, name = parsed.words
    if name.partition(".")[0].upper() == "HISTORY":
        raise UserError("The history of jobs is a database, and no log: use condor_history -name SCHEDD")
    daemon = next((one for one in DAEMONS if parsed.has(one)), "master")
    session = open_session(parsed)
    try:
        with session.daemon(daemon, name=machine) as peer:
            for part in peer.stream(FetchLog(name=name)):
                # Bytes as they are: a log is a file, and this is its cat.
                sys.stdout.buffer.write(part.data)
            sys.stdout.buffer.flush()
    except PeerError as error:
        raise UserError(f"Couldn't fetch the log {name} of {machine}: {error}") from None
    return 0
