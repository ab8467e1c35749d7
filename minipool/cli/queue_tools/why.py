"""`pool why`: in plain words, why jobs do not run, or why they were held, and what would change it.

Of a job that is named, or without one of all that wait; those with the same reason are told together.

The reasons are those of condor_q -better-analyze (`pool/explaining/explain.py`); minipool's own tool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import open_session
from minipool.cli.entry.options import Opt, Parsed
from minipool.cli.entry.tool import DEBUG, HELP, NAME, POOL, VERSION_OPT, Tool, run
from minipool.cli.output.show import date
from minipool.client.job_ids import of_ad
from minipool.client.session import Session
from minipool.client.surroundings import install_surroundings
from pool.base.errors import PeerError, PoolError, UserError
from pool.classad import ClassAd
from pool.jobs.vocabulary.states import JobStatus
from pool.jobs.vocabulary.universes import AT_ACCESS_POINT, UNIVERSES, Universe

if TYPE_CHECKING:
    from pool.explaining.analysis import Analysis
    from protocol.messages.schedd import Selection
    from protocol.rpc.blocking import BlockingPeer

TOOL = Tool(
    "pool why",
    "Say in plain words why jobs do not run: these, or all of yours that wait.",
    "[CLUSTER.PROC | CLUSTER]... [options]",
    (Opt("allusers", 2, says="without a job: the jobs of all users"), NAME, POOL, DEBUG, HELP, VERSION_OPT),
)
_BRIEF: Final = (
    *("ClusterId", "ProcId", "JobStatus", "JobUniverse", "User", "AutoClusterId"),
    *("HoldReason", "HoldReasonCode", "HoldReasonSubCode"),
)
_MEND: Final = "When that is mended: condor_release; to give it up: condor_rm."
_SHOWN: Final = 6
"""How many jobs of a group are named."""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool why`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    install_surroundings()
    session = open_session(parsed)
    try:
        with session.daemon("schedd", name=parsed.value("name")) as peer:
            if parsed.words:
                _explain_each(session, peer, parsed.words)
            else:
                _explain_all(session, peer, parsed.has("allusers"))
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    return 0


def _explain_each(session: Session, peer: BlockingPeer, words: Sequence[str]) -> None:
    from protocol.messages.schedd import QueryHistory, Selection

    pool = _Pool(session, peer)
    for word in words:
        select = Selection(ids=[word])
        jobs = _queued(peer, select) or [
            ad for batch in peer.stream(QueryHistory(select=select, limit=10)) for ad in batch.ads
        ]
        if not jobs:
            raise UserError(f"There is no job {word} in the queue, and none that left it.")
        for job in jobs:
            sys.stdout.writelines(f"{_id(job)}: {sentence}\n" for sentence in explain(pool, job))


def _explain_all(session: Session, peer: BlockingPeer, everybody: bool) -> None:
    """What waits or is held, in groups of the same reason."""
    from protocol.messages.schedd import Selection

    select = Selection(
        users=[] if everybody else [session.user()],
        constraint=f"JobStatus == {JobStatus.IDLE} || JobStatus == {JobStatus.HELD}",
    )
    groups: dict[tuple[str, ...], list[str]] = {}
    pool, known = _Pool(session, peer), dict[tuple[object, ...], tuple[str, ...]]()
    for job in _queued(peer, select, _BRIEF):
        alike = _alike(job)
        if alike not in known:
            # To say why one waits takes its whole ad; one job stands for all of its autocluster.
            whole = [job] if _status(job) == JobStatus.HELD else _queued(peer, Selection(ids=[_id(job)]))
            known[alike] = tuple(_reasons(pool, whole[0])) if whole else ()
        groups.setdefault(known[alike], []).append(_id(job))
    groups.pop((), None)  # those that have begun or left meanwhile
    if not groups:
        sys.stdout.write("No job waits, and none is on hold.\n")
    for reasons, names in groups.items():
        sys.stdout.write(f"{_these(names)}:\n" + "".join(f"  {reason}\n" for reason in reasons))


def _alike(job: ClassAd) -> tuple[object, ...]:
    """What jobs have in common whose reason is the same."""
    if _status(job) == JobStatus.HELD:
        return 5, job.eval_str("HoldReason"), job.eval_int("HoldReasonCode"), job.eval_int("HoldReasonSubCode")
    group = job.eval_int("AutoClusterId")
    return 1, job.eval_str("User"), group if group is not None else _id(job)


def _these(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} job{'' if len(names) == 1 else 's'} ({shown})"


def _queued(peer: BlockingPeer, select: Selection, projection: Iterable[str] = ()) -> list[ClassAd]:
    from protocol.messages.schedd import QueryJobs

    request = QueryJobs(select=select, projection=list(projection))
    return [ad for batch in peer.stream(request) for ad in batch.ads]


def _id(job: ClassAd) -> str:
    return str(of_ad(job))


def _status(job: ClassAd) -> int:
    return job.eval_int("JobStatus", 0)


class _Pool:
    """What is asked of the pool, once and when it is needed."""

    def __init__(self, session: Session, peer: BlockingPeer) -> None:
        self._session, self._peer = session, peer
        self._slots: list[ClassAd] | None = None
        self._limit: list[str] | None = None

    def slots(self) -> list[ClassAd]:
        """The slots' ads."""
        if self._slots is None:
            from minipool.cli.queue_tools.q_analyze import machine_ads

            self._slots = machine_ads(self._session)
        return self._slots

    def explained(self, job: ClassAd) -> tuple[Analysis, list[str]]:
        """What the negotiator says of the job; without one, what slots' ads say, and that it is missing."""
        from minipool.cli.queue_tools.explained import ask

        try:
            found = ask(self._session, job)
        except PoolError as error:
            from pool.explaining.explain import analyze

            return analyze(job, self.slots()), [f"The negotiator, who gives jobs their slots, says nothing: {error}."]
        return found.analysis, found.reasons

    def limit(self) -> list[str]:
        """A sentence when the schedd runs as many jobs as it may."""
        if self._limit is None:
            from protocol.messages.common import GetAd

            ad = self._peer.call(GetAd()).ad
            running, most = ad.eval_int("ShadowsRunning", 0), ad.eval_int("MaxJobsRunning", 0)
            said = f"The schedd runs {running} jobs, and MAX_JOBS_RUNNING allows no more."
            self._limit = [said] if 0 < most <= running else []
        return self._limit


def explain(pool: _Pool, job: ClassAd) -> list[str]:
    """Sentences about the job."""
    since = job.eval_int("EnteredCurrentStatus", 0)
    when = f" since {date(since).strip()}" if since else ""
    match _status(job):
        case 1:
            return [f"It waits{when}.", *_waits(pool, job)]
        case 2 | 6:
            return [f"It runs on {job.eval_str('RemoteHost', 'a machine')}{when}."]
        case 3:
            return [f"It was removed: {job.eval_str('RemoveReason', 'no reason is known')}."]
        case 5:
            return [f"It is on hold{when}: {_held(job)}.", _MEND]
        case 7:
            return [f"It is suspended on {job.eval_str('RemoteHost', 'a machine')}{when}; condor_continue wakes it."]
    if job.eval_bool("ExitBySignal"):
        return [f"It has run, and was ended by signal {job.eval_int('ExitSignal', 0)}."]
    return [f"It has run, and exited with status {job.eval_int('ExitCode', 0)}."]


def _reasons(pool: _Pool, job: ClassAd) -> list[str]:
    """Why a job does not run, without the time; nothing when it does by now."""
    if _status(job) == JobStatus.HELD:
        return [f"On hold: {_held(job)}.", _MEND]
    return _waits(pool, job) if _status(job) == JobStatus.IDLE else []


def _held(job: ClassAd) -> str:
    code, subcode = job.eval_int("HoldReasonCode", 0), job.eval_int("HoldReasonSubCode", 0)
    return f"{job.eval_str('HoldReason', 'no reason is known')} (code {code}, subcode {subcode})"


_AT_ACCESS_POINT: Final[Mapping[int, str]] = {number: UNIVERSES[number].upper() for number in AT_ACCESS_POINT}


def _waits(pool: _Pool, job: ClassAd) -> list[str]:
    """Why an idle job has not begun: what came of its last attempt, and what slots say."""
    tried, failed = job.eval_int("NumShadowExceptions", 0), job.eval_str("LastShadowException")
    said = [f"It could not be run {tried} times; the last time: {failed}"] if tried and failed else []
    return said + _unmatched(pool, job)


def _unmatched(pool: _Pool, job: ClassAd) -> list[str]:
    universe = _AT_ACCESS_POINT.get(job.eval_int("JobUniverse", Universe.VANILLA))
    if universe is not None:
        return [
            f"It runs at the access point, as soon as START_{universe}_UNIVERSE and its own Requirements hold there."
        ]
    if limit := pool.limit():
        return limit
    found, reasons = pool.explained(job)
    refused, matched = job.eval_int("LastRejMatchTime", 0), job.eval_int("LastMatchTime", 0)
    reason = job.eval_str("LastRejMatchReason", "no reason is known")
    sentences = found.sentences()
    if not sentences:
        willing = f"{found.takers} of {found.slots} slots meet its conditions and have room for it"
        if refused > matched:
            return [f"By their ads {willing}, but it got none at {date(refused).strip()}: {reason}.", *reasons]
        return [f"{willing[0].upper()}{willing[1:]}.", *reasons]
    # By the ads it should run: then what a startd said to the last attempt is the better clue.
    if refused > matched and " refused the job" in reason:
        sentences.append(f"At {date(refused).strip()} {reason}.")
    return sentences + reasons
