"""condor_q -better-analyze: why jobs do not run, from the matchmaker's own comparison of each job with the slots.

The slots are the collector's, or those of -slotads. The qualifier says whether the report is about each job, is a
summary, goes from slots to jobs (-reverse-analyze), or only names jobs that match nothing. Source: HTCondor's manual
page condor_q.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from minipool.cli.entry.context import short_address
from minipool.cli.output.show import long_date, wrapped
from minipool.client.job_ids import of_ad
from minipool.client.session import Session
from pool.base.errors import PeerError, PoolError, UserError
from pool.base.ids import is_number
from pool.classad import ClassAd, expr, quote
from pool.jobs.vocabulary.states import EXECUTING, JobStatus

if TYPE_CHECKING:
    from minipool.cli.queue_tools.q_asked import Asked
    from pool.explaining.analysis import Analysis

_STATES = {
    2: "Job is running.",
    3: "Job is removed.",
    4: "Job is completed.",
    5: "Job is held.",
    6: "Job is running.",
    7: "Job is suspended.",
}


_SUMMARY, _REVERSE, _UNMATCHABLE = "summary", "reverse", "unmatchable"
_DETAILS = ("priority", "noprune", "diagnostic", "show-work", "slot-exprs", "ifthenelse", "memory")


class AnalysisMode:
    """What the analysis is to be: qualifiers of -better-analyze and their like, and whether details are wanted."""

    def __init__(self, asked: Asked) -> None:
        parsed = asked.parsed
        # -better-analyze is -analyze with details, by its first letter alone (condor_q(1)).
        better = any(given.spelled.lstrip("-").lower().startswith("b") for given in parsed.given)
        self.summary = False
        self.unmatchable = parsed.has("unmatchable")
        self.reverse = parsed.has("reverse-analyze")
        for word in (asked.analyze or "").lower().replace(":", ",").split(","):
            self._take(word, asked.analyze or "")
        self.detailed = better or parsed.has("machine")

    def _take(self, word: str, whole: str) -> None:
        if word and _SUMMARY.startswith(word):
            self.summary = True
        elif word and _REVERSE.startswith(word):
            self.reverse = True
        elif word and not is_number(word) and not any(known.startswith(word) for known in _DETAILS):
            raise UserError(f"Error: -better-analyze:{whole} is not known (known: summary, reverse)")


def analyze(session: Session, asked: Asked) -> int:
    """Print the analysis of the selected jobs."""
    from minipool.cli.queue_tools.q_fetch import connected, fetch, identity

    mode = AnalysisMode(asked)
    name = asked.parsed.value("name")
    try:
        with connected(session, asked, name) as peer:
            banner, address = identity(session, peer, name)
            jobs = fetch(peer, asked, [])
        title = f"Schedd: {banner} : {short_address(address)}"
        if _asks_of_all_slots(asked, mode) and (reports := _of_all_slots(session, jobs)) is not None:
            sys.stdout.write(f"\n\n-- {title}\n" + "".join(reports))
            return 0
        slots = _slots_of_file(asked)
        if slots is None:
            slots = machine_ads(session, asked.parsed.value("mconstraint"), asked.parsed.value("machine"))
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    _write(mode, title, jobs, slots)
    return 0


MANY: Final = 64
"""From this many slots on, the negotiator compares them with the job: by columns, and no ad has to travel."""


def _asks_of_all_slots(asked: Asked, mode: AnalysisMode) -> bool:
    chosen = any(asked.parsed.value(option) for option in ("slotads", "mconstraint", "machine"))
    return not (chosen or mode.reverse or mode.summary or mode.unmatchable)


def _of_all_slots(session: Session, jobs: Sequence[ClassAd]) -> list[str] | None:
    """The reports with what the negotiator says; over many slots the comparison is its own, too. None: no answer."""
    from minipool.cli.queue_tools.explained import ask

    reports, slots = [], None
    for job in jobs:
        try:
            found = ask(session, job)
        except PoolError:  # the collector's ads are as good, if slower
            return None
        if found.analysis.slots >= MANY:
            reports.append(_written(job, found.analysis, "", found.reasons))
        else:
            # Few ads travel quickly, and the report says more of a single slot.
            slots = machine_ads(session) if slots is None else slots
            reports.append(report(job, slots, found.reasons))
    return reports


def analyze_ads(asked: Asked, jobs: Sequence[ClassAd], label: str) -> int:
    """Print the analysis of jobs out of a file."""
    mode = AnalysisMode(asked)
    slots = _slots_of_file(asked)
    if slots is None:
        from minipool.cli.entry.context import open_session

        slots = machine_ads(
            open_session(asked.parsed), asked.parsed.value("mconstraint"), asked.parsed.value("machine")
        )
    _write(mode, label, jobs, slots)
    return 0


def _slots_of_file(asked: Asked) -> list[ClassAd] | None:
    """The slots of -slotads that -mconstraint and -machine select; None without that option."""
    path = asked.parsed.value("slotads")
    if path is None:
        return None
    from minipool.cli.output.ad_files import form_of, read

    wanted = expr(asked.parsed.value("mconstraint") or "true")
    machine = asked.parsed.value("machine")
    slots = read(path, form=form_of(asked.parsed.qualifier("slotads")))
    return [
        slot
        for slot in slots
        if wanted.eval(slot) is True and (not machine or machine in (slot.eval_str("Machine"), slot.eval_str("Name")))
    ]


def _write(mode: AnalysisMode, title: str, jobs: Sequence[ClassAd], slots: Sequence[ClassAd]) -> None:
    sys.stdout.write(f"\n\n-- {title}\n")
    if mode.reverse:
        from minipool.cli.queue_tools.q_reverse import write

        write(jobs, slots, detailed=not mode.summary and (mode.detailed or len(slots) == 1))
    elif mode.unmatchable:
        sys.stdout.writelines(_unmatched(jobs, slots))
    elif mode.summary:
        sys.stdout.writelines(_summary(jobs, slots))
    else:
        for job in jobs:
            sys.stdout.write(report(job, slots))


def _unmatched(jobs: Sequence[ClassAd], slots: Sequence[ClassAd]) -> Iterable[str]:
    """A line for each group of jobs that no slot would run, not even a drained one."""
    from pool.explaining.explain import analyze as compare

    groups: dict[int, list[ClassAd]] = {}
    for at, job in enumerate(jobs):
        groups.setdefault(job.eval_int("AutoClusterId", -1 - at), []).append(job)
    for number, members in groups.items():
        found = compare(members[0], slots)
        if found.matches_nothing:
            why = "All slots reject" if found.rejected_by_job < found.slots else "No slots match"
            ids = " ".join(str(of_ad(job)) for job in members)
            yield f"{why} autocluster {max(number, -1)}, jobs : {ids}\n"


def machine_ads(session: Session, constraint: str | None = None, machine: str | None = None) -> list[ClassAd]:
    """The slots of the pool, or some of them."""
    parts = [f"({constraint})"] if constraint else []
    if machine:
        parts.append(f"(Machine == {quote(machine)} || Name == {quote(machine)})")
    return session.query("Machine", constraint=" && ".join(parts) or None)


def report(job: ClassAd, slots: Sequence[ClassAd], reasons: Sequence[str] = ()) -> str:
    """All that is said about one job; `reasons` are the negotiator's."""
    from pool.explaining.explain import analyze as compare

    return _written(job, compare(job, slots), _of_the_slot(job, slots[0]) if len(slots) == 1 else "", reasons)


def _written(job: ClassAd, found: Analysis, of_the_slot: str, reasons: Sequence[str]) -> str:
    cluster, proc = of_ad(job)
    name, short = f"{cluster:03d}.{proc:03d}", f"{cluster}.{proc:03d}"
    return "".join(
        [
            f"The Requirements expression for job {short} is\n\n    {wrapped(found.requirements)}\n\n",
            *(f"    {f'[{clause.number}]':<7}: {clause.text}\n" for clause in found.clauses),
            f"\nJob {short} defines the following attributes:\n\n",
            *(f"    {key} = {text}{f' ({unit})' if unit else ''}\n" for key, text, unit in found.attributes),
            of_the_slot,
            f"\nThe Requirements expression for job {short} reduces to these conditions:\n\n",
            _table(found, found.may_drain),
            _counts(name, found),
            _warning(found),
            _negotiators(job, reasons),
            "\n",
            _state(name, job),
            _matches(job),
        ]
    )


def _of_the_slot(job: ClassAd, slot: ClassAd) -> str:
    """What a single slot has of the attributes that the job's Requirements ask about."""
    from pool.explaining.analysis import UNITS

    if "Requirements" not in job:
        return ""
    names = expr(job.text("Requirements"), old=True).references(job)[1]
    lines = [
        f"    TARGET.{name} = {slot.text(name)}{f' ({unit})' if unit else ''}\n"
        for name in sorted(names, key=str.lower)
        if name in slot
        for unit in [UNITS.get(f"request{name}".lower(), UNITS.get(name.lower(), ""))]
    ]
    return f"\n{slot.eval_str('Name', '')} has the following attributes:\n\n{''.join(lines)}" if lines else ""


def _table(found: Analysis, may_drain: bool) -> str:
    lines = ["         Slots      If    ", "Step   Matched   Drained  Condition", "----- --------- --------- ---------"]
    if not may_drain:
        lines = ["        Slots", "Step   Matched  Condition", "----- --------- ---------"]
    for row in found.table:
        label = f"[{row.number}]".ljust(5)
        if row.matched is None:
            lines.append(f"{label} {'always' if row.always else 'never':>9}  {row.condition}")
        else:
            if_drained = f" {row.drained or 0:9d}" if may_drain else ""
            lines.append(f"{label} {row.matched:9d}{if_drained}  {row.condition}")
    return "\n".join(lines) + "\n\n"


def _counts(name: str, found: Analysis) -> str:
    of = f"Of {found.slots} slots on {found.machines} machines,"
    lines = [
        f"\n{name}:  Run analysis summary ignoring user priority.  {of}",
        f"  {found.rejected_by_job:5d} slots are rejected by your job's requirements",
        f"  {found.reject_job:5d} slots reject your job because of their own requirements",
        f"  {found.willing:5d} slots match and are willing to run your job",
    ]
    if found.if_drained:
        lines.append(f"  {found.if_drained:5d} slots would match if drained")
    return "\n".join(lines) + "\n"


def _warning(found: Analysis) -> str:
    if not found.matches_nothing:
        return ""
    by_job = found.reject_job == 0
    said = "No machines matched the job's constraints" if by_job else "Job did not match any machines' constraints"
    sentences = [said, *(() if by_job else found.refusals), *([found.change] if found.change else [])]
    return "\nWARNING:  Be advised:\n" + "".join(f"   {sentence}\n" for sentence in sentences)


def _negotiators(job: ClassAd, reasons: Sequence[str]) -> str:
    """What HTCondor's table has not: share, priority, quota, limit and preemption, of a job that waits."""
    # Of a job that runs or is held the negotiator knows nothing that matters.
    if not reasons or job.eval_int("JobStatus") != JobStatus.IDLE:
        return ""
    return "\nThe negotiator says:\n" + "".join(f"   {sentence}\n" for sentence in reasons)


def _state(name: str, job: ClassAd) -> str:
    status = job.eval_int("JobStatus", 0)
    if status not in _STATES:
        return ""
    why = f"\n\nHold reason: {job.eval_str('HoldReason', '')}" if status == JobStatus.HELD else ""
    return f"\n{name}:  {_STATES[status]}{why}\n\n"


def _matches(job: ClassAd) -> str:
    matched, rejected = job.eval_int("LastMatchTime", 0), job.eval_int("LastRejMatchTime", 0)
    said = ""
    if matched:
        said += f"Last successful match: {long_date(matched)}\n"
    elif rejected:
        said += "No successful match recorded.\n"
    if rejected > matched:
        who = job.eval_str("LastRejMatchNegotiator")
        said += f"Last failed match: {long_date(rejected)}{f' from {who}' if who else ''}\n"
        reason = job.eval_str("LastRejMatchReason")
        said += f"Reason for last match failure: {reason}\n" if reason else ""
    return said


def unmatchable(session: Session, jobs: Iterable[ClassAd]) -> list[ClassAd]:
    """The idle jobs that no slot would run, not even a drained one."""
    from pool.explaining.explain import analyze as compare

    slots = machine_ads(session)
    return [job for job in jobs if job.eval_int("JobStatus") == JobStatus.IDLE and compare(job, slots).matches_nothing]


def _summary(jobs: Sequence[ClassAd], slots: Sequence[ClassAd]) -> Iterable[str]:
    from pool.explaining.explain import analyze as compare

    groups: dict[tuple[int, str], list[ClassAd]] = {}
    for job in jobs:
        known = job.eval_int("AutoClusterId")
        alone = str(of_ad(job)) if known is None else ""
        groups.setdefault((-1 if known is None else known, job.eval_str("User", "") + alone), []).append(job)
    yield f"Analyzing matches for {len(slots)} slots\n"
    heading = "{:<13} {:>12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n"
    yield heading.format("", " Autocluster", "   Matches  ", "  Machine  ", "  Running  ", "  Serving ", "", "")
    yield heading.format(
        " JobId", "Members/Idle", "Requirements", "Rejects Job", " Users Job ", "Other User", "Available", "Owner"
    )
    yield heading.format("-" * 13, "-" * 12, "-" * 12, "-" * 11, "-" * 11, "-" * 10, "-" * 9, "-" * 5)
    for (number, _), members in groups.items():
        job = members[0]
        user = job.eval_str("User", "")
        found = compare(job, slots)
        idle = sum(one.eval_int("JobStatus") == JobStatus.IDLE for one in members)
        running = sum(one.eval_int("JobStatus") in EXECUTING for one in members)
        users = [slot.eval_str("RemoteUser") for slot in slots if slot.eval_str("RemoteUser")]
        mine = users.count(user)
        count = f"{len(members)}/{idle}" if number >= 0 else ""
        # A job that the negotiator has not seen yet stands for itself, and its state says nothing of others.
        running = running if number >= 0 else 0
        yield (
            str(of_ad(job)).ljust(13)
            + f" {count:<12} {found.slots - found.rejected_by_job:12d} {found.reject_job:11d}"
            + f" {f'{running}/{mine}' if running else str(mine):>11} {len(users) - mine:10d} {found.willing:9d}"
            + f" {job.eval_str('Owner', '')}\n"
        )
