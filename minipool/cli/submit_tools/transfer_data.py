"""condor_transfer_data: fetch what spooled jobs have left at the access point."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.entry.options import MissingValue, Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, POOL, VERSION_OPT, Tool, run
from minipool.client.job_ids import clause
from minipool.client.session import NotFound
from pool.base.errors import PoolError, UserError
from pool.base.ids import names_jobs
from protocol.messages.schedd import Selection

TOOL = Tool(
    "condor_transfer_data",
    "Fetch the output of jobs that were submitted with -spool.",
    "[options] [constraints]",
    (
        HELP,
        VERSION_OPT,
        POOL,
        Opt("name", 1, 1, "NAME", "the schedd of this name instead of the local one"),
        Opt("addr", 2, 1, "ADDRESS", "the schedd at this address"),
        Opt("all", 1, says="the output of all your jobs"),
        Opt("constraint", 1, 1, "EXPRESSION", "of jobs for which the expression is true; may be repeated"),
        DEBUG,
    ),
    notes="Where constraints are: CLUSTER, CLUSTER.PROC, or the name of a user; a job needs to match one of them.\n"
    "Files go where the job's description says, but only beneath the directory in which this is run.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_transfer_data."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    select = selection(parsed)
    from minipool.cli.entry.context import open_session
    from minipool.client.spooling import fetch_output

    session = open_session(parsed)
    try:
        with session.daemon("schedd", name=parsed.value("name"), addr=parsed.value("addr")) as peer:
            sys.stdout.write("Fetching data files...\n")
            sys.stdout.flush()
            fetch_output(session, peer, select)
    except NotFound as error:
        raise UserError(f"transfer_data: {error}") from None
    except PoolError as error:
        raise UserError(f"\n{error}\nERROR: Failed to spool job files.") from None
    return 0


def selection(parsed: Parsed) -> Selection:
    """Which jobs; a job that matches any of the constraints is meant."""
    if parsed.has("all"):
        if parsed.words or parsed.has("constraint"):
            raise UsageError("-all stands alone")
        return Selection(all=True)
    # Joined by "or", unlike those of condor_rm: HTCondor's tool fetches what any of them names.
    clauses = [f"({text})" for text in parsed.values("constraint")]
    for word in parsed.words:
        if names_jobs(word):
            if not int(word.partition(".")[0]):
                raise MissingValue(f"Invalid cluster # from {word}.")
            clauses.append(f"({clause(word)})")
        elif word[:1].isalpha():
            clauses.append(f"({clause(word)})")
        else:
            sys.stderr.write(f'Warning: unrecognized "{word}" skipped\n')
    if not clauses:
        if parsed.words:
            raise MissingValue("Unable to create a job constraint!")
        raise UsageError("You did not specify any jobs")
    return Selection(constraint=" || ".join(clauses))
