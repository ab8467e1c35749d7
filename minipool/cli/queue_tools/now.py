"""condor_now: run a job at once, in the slots of other jobs of the same owner."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Parsed
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, Tool, run, usage
from minipool.client.job_ids import one_job
from pool.base.errors import PeerError, UserError

TOOL = Tool(
    "condor_now",
    "Run a job now, in place of others.",
    "[-name <scheduler> [-pool <central-manager>]] [-debug] <job-to-run-now> <job-to-vacate> [<job-to-vacate>...]",
    (HELP, NAME, POOL, DEBUG),
    notes="Jobs are CLUSTER.PROC. All must be yours; the first idle, the others running.",
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_now."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    ids = [one_job(word) for word in parsed.words]
    jobs = [one for one in ids if one is not None]
    if len(jobs) < 2 or len(jobs) != len(ids):
        sys.stderr.write(usage(TOOL))
        return 1
    session, name = open_session(parsed), parsed.value("name")
    try:
        schedd = session.daemon("schedd", name=name)
    except PeerError:
        where = parsed.value("pool") or "local pool"
        raise UserError(f"Unable to locate schedd '{name or 'default'}' in {where}, aborting.") from None
    from protocol.messages.schedd import RunNow

    try:
        with schedd as peer:
            peer.call(RunNow(job=jobs[0], instead_of=jobs[1:]))
    except PeerError as error:
        raise UserError(f"Unable to reassign slot: {error}.") from None
    return 0
