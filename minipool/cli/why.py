"""`pool why JOB`: in plain words, why a job does not run, or why it was held, and what would change it."""

from __future__ import annotations

import sys

from minipool.cli.context import install_clock, open_session
from minipool.cli.options import Parsed, UsageError
from minipool.cli.show import date
from minipool.cli.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.session import Session
from pool.classad import ClassAd
from pool.errors import PeerError, UserError
from pool.hints import Sequence

TOOL = Tool(
    "pool why",
    "Say in plain words why a job does not run.",
    "CLUSTER.PROC | CLUSTER",
    (NAME, POOL, DEBUG, HELP, VERSION_OPT),
)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool why`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    if not parsed.words:
        raise UsageError("pool why: say which job")
    install_clock()
    session = open_session(parsed)
    try:
        for word in parsed.words:
            jobs = _jobs(session, word, parsed.value("name"))
            if not jobs:
                raise UserError(f"There is no job {word} in the queue, and none that left it.")
            for job in jobs:
                name = f"{job.eval_int('ClusterId', 0)}.{job.eval_int('ProcId', 0)}"
                sys.stdout.writelines(f"{name}: {sentence}\n" for sentence in explain(session, job))
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    return 0


def _jobs(session: Session, word: str, name: str | None) -> list[ClassAd]:
    from protocol.messages.schedd import QueryHistory, QueryJobs, Selection

    select = Selection(ids=[word])
    with session.daemon("schedd", name=name) as peer:
        queued = [ad for batch in peer.stream(QueryJobs(select=select)) for ad in batch.ads]
        return queued or [ad for batch in peer.stream(QueryHistory(select=select, limit=10)) for ad in batch.ads]


def explain(session: Session, job: ClassAd) -> list[str]:
    """Sentences about the job."""
    status = job.eval_int("JobStatus", 0)
    since = job.eval_int("EnteredCurrentStatus", 0)
    when = f" since {date(since).strip()}" if since else ""
    if status == 1:
        return _idle(session, job, when)
    if status == 5:
        code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
        reason = job.eval_str("HoldReason", "no reason is known")
        return [
            f"It is on hold{when}: {reason} (code {code}, subcode {subcode}).",
            "When that is mended: condor_release; to give it up: condor_rm.",
        ]
    if status in (2, 6):
        return [f"It runs on {job.eval_str('RemoteHost', 'a machine')}{when}."]
    if status == 7:
        return [f"It is suspended on {job.eval_str('RemoteHost', 'a machine')}{when}; condor_continue wakes it."]
    if status == 3:
        return [f"It was removed: {job.eval_str('RemoveReason', 'no reason is known')}."]
    if job.eval_bool("ExitBySignal"):
        return [f"It has run, and was ended by signal {job.eval_int('ExitSignal', 0)}."]
    return [f"It has run, and exited with status {job.eval_int('ExitCode', 0)}."]


def _idle(session: Session, job: ClassAd, when: str) -> list[str]:
    from minipool.cli.q_analyze import machine_ads
    from pool.matching.explain import analyze

    sentences = analyze(job, machine_ads(session)).sentences()
    if sentences:
        return [f"It waits{when}.", *sentences]
    reason = job.eval_str("LastRejMatchReason")
    return [f"It waits{when}: a slot is willing, and the next match cycle should start it."] + (
        [f"At the last cycle: {reason}."] if reason else []
    )
