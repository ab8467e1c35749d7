"""condor_transfer_data: fetch what spooled jobs have left at the access point."""

from __future__ import annotations

import sys

from minipool.cli.options import MissingValue, Opt, Parsed, UsageError
from minipool.cli.tool import DEBUG, HELP, POOL, VERSION_OPT, Tool, run
from minipool.session import NotFound
from pool.errors import PoolError, UserError
from pool.hints import Sequence
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
    from minipool.cli.context import open_session
    from minipool.spooling import fetch_output

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
    clauses = [f"({text})" for text in parsed.values("constraint")]
    for word in parsed.words:
        cluster, dot, proc = word.partition(".")
        if cluster.isdigit():
            if int(cluster) <= 0:
                raise MissingValue(f"Invalid cluster # from {word}.")
            if dot and not proc.isdigit():
                sys.stderr.write(f'Warning: unrecognized "{word}" skipped.\n')
                continue
            clauses.append(f"(ClusterId == {int(cluster)}{f' && ProcId == {int(proc)}' if dot else ''})")
        elif word[:1].isalpha():
            clauses.append(f"(Owner == {_quoted(word)})")
        else:
            sys.stderr.write(f'Warning: unrecognized "{word}" skipped\n')
    if not clauses:
        if parsed.words:
            raise MissingValue("Unable to create a job constraint!")
        raise UsageError("You did not specify any jobs")
    return Selection(constraint=" || ".join(clauses))


def _quoted(text: str) -> str:
    from pool.classad import quote

    return quote(text)
