"""condor_prio: change the priority of one's jobs among themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.client.job_ids import split
from pool.base.errors import PeerError, UserError

if TYPE_CHECKING:
    from protocol.rpc.blocking import BlockingPeer

TOOL = Tool(
    "condor_prio",
    "Change the priority of jobs.",
    "{-p N | +N | -N} {CLUSTER | CLUSTER.PROC | OWNER | -a}...",
    (
        Opt("p", 1, 1, "N", "the new priority; larger is better, 0 is usual"),
        Opt("a", 1, says="all jobs"),
        NAME,
        Opt("pool", 2, 1, "HOST", POOL.says),
        HELP,
        VERSION_OPT,
        DEBUG,
    ),
    notes="+N and -N raise and lower the priority that each job has.",
)

_STEP = r"[-+]\d+\Z"


def main(verb: str, argv: Sequence[str]) -> int:
    """Run condor_prio."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    from protocol.messages.schedd import QueryJobs, Selection

    # `-5` is no option of this tool but five less (condor_prio(1)).
    steps = [int(word) for word in parsed.words if re.match(_STEP, word)]
    names = [word for word in parsed.words if not re.match(_STEP, word)]
    fixed = parsed.number("p", 0) if parsed.has("p") else None
    if (fixed is None) == (not steps) or not (names or parsed.has("a")):
        raise UsageError("You must say a priority (-p N, +N or -N) and which jobs")
    session = open_session(parsed)
    ids, users = split(names)
    select = Selection(ids=ids, users=users, all=parsed.has("a"))
    try:
        with session.daemon("schedd", name=parsed.value("name")) as peer:
            request = QueryJobs(select=select, projection=["ClusterId", "ProcId", "JobPrio"])
            jobs = [ad for batch in peer.stream(request) for ad in batch.ads]
            # One edit for all jobs of the same priority, and not one for each job.
            groups: dict[int, list[str]] = {}
            found = set()
            for ad in jobs:
                cluster = ad.eval_int("ClusterId", 0)
                job = f"{cluster}.{ad.eval_int('ProcId', 0)}"
                found |= {str(cluster), job}
                prio = fixed if fixed is not None else ad.eval_int("JobPrio", 0) + sum(steps)
                groups.setdefault(prio, []).append(job)
            for job in ids:
                if "." in job and job not in found:
                    sys.stderr.write(f"Couldn't retrieve current priority for {job}.\n")
            for prio, chosen in groups.items():
                _set(peer, prio, chosen)
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    return 0


def _set(peer: BlockingPeer, prio: int, jobs: list[str]) -> None:
    from protocol.messages.schedd import EditJobs, Outcome, Selection

    answer = peer.call(EditJobs(select=Selection(ids=jobs), assignments={"JobPrio": str(prio)}))
    for one in answer.results:
        if one.outcome is not Outcome.DONE:
            sys.stderr.write(f"Couldn't set new priority for {one.job_id}.\n")
