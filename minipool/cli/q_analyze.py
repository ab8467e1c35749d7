"""condor_q -better-analyze: why jobs do not run, from the matchmaker's own comparison of each job with the slots."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from minipool.cli.context import short_address
from minipool.session import Session
from pool.classad import ClassAd, quote
from pool.errors import PeerError, UserError

if TYPE_CHECKING:
    from minipool.cli.q import Asked
    from pool.matching.explain import Analysis

_STATES = {
    2: "Job is running.",
    3: "Job is removed.",
    4: "Job is completed.",
    5: "Job is held.",
    6: "Job is running.",
    7: "Job is suspended.",
}
_WIDTH = 80


def analyze(session: Session, asked: Asked) -> int:
    """Print the analysis of the selected jobs."""
    from minipool.cli.q import connected, fetch, identity

    qualifier = (asked.analyze or "").lower()
    if qualifier not in ("", "summary", "sum"):
        raise UserError(f"Error: -better-analyze:{qualifier} is not known (known: summary)")
    name = asked.parsed.value("name")
    try:
        with connected(session, asked, name) as peer:
            banner, address = identity(session, peer, name)
            jobs = fetch(peer, asked, [])
        slots = machine_ads(session, asked.parsed.value("mconstraint"), asked.parsed.value("machine"))
    except PeerError as error:
        raise UserError(f"Error: {error}") from None
    sys.stdout.write(f"\n\n-- Schedd: {banner} : {short_address(address)}\n")
    if qualifier:
        sys.stdout.writelines(_summary(jobs, slots))
    else:
        for job in jobs:
            sys.stdout.write(report(job, slots))
    return 0


def machine_ads(session: Session, constraint: str | None = None, machine: str | None = None) -> list[ClassAd]:
    """The slots of the pool, or some of them."""
    parts = [f"({constraint})"] if constraint else []
    if machine:
        parts.append(f"(Machine == {quote(machine)} || Name == {quote(machine)})")
    return session.query("Machine", constraint=" && ".join(parts) or None)


def report(job: ClassAd, slots: Sequence[ClassAd]) -> str:
    """All that is said about one job."""
    from pool.matching.explain import analyze as compare

    found = compare(job, slots)
    name = f"{job.eval_int('ClusterId', 0):03d}.{job.eval_int('ProcId', 0):03d}"
    return "".join(
        [
            f"The Requirements expression for job {name} is\n\n    {wrapped(found.requirements)}\n\n",
            *(f"    {f'[{clause.number}]':<7}: {clause.text}\n" for clause in found.clauses),
            f"\nJob {name} defines the following attributes:\n\n",
            *(f"    {key} = {text}{f' ({unit})' if unit else ''}\n" for key, text, unit in found.attributes),
            f"\nThe Requirements expression for job {name} reduces to these conditions:\n\n",
            _table(found),
            _counts(name, found),
            _warning(found),
            "\n",
            _state(name, job),
            _matches(job),
        ]
    )


def _table(found: Analysis) -> str:
    lines = ["         Slots      If    ", "Step   Matched   Drained  Condition", "----- --------- --------- ---------"]
    for row in found.table:
        label = f"[{row.number}]".ljust(5)
        if row.matched is None:
            lines.append(f"{label} {'always' if row.always else 'never':>9}  {row.condition}")
        else:
            lines.append(f"{label} {row.matched:9d} {row.drained or 0:9d}  {row.condition}")
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
    if found.reject_job == 0:
        return "\nWARNING:  Be advised:\n   No machines matched the job's constraints\n"
    return "\nWARNING:  Be advised:\n   Job did not match any machines' constraints\n" + "".join(
        f"   {sentence}\n" for sentence in found.refusals
    )


def _state(name: str, job: ClassAd) -> str:
    status = job.eval_int("JobStatus", 0)
    if status not in _STATES:
        return ""
    why = f"\n\nHold reason: {job.eval_str('HoldReason', '')}" if status == 5 else ""
    return f"\n{name}:  {_STATES[status]}{why}\n\n"


def _matches(job: ClassAd) -> str:
    matched, rejected = job.eval_int("LastMatchTime", 0), job.eval_int("LastRejMatchTime", 0)
    said = ""
    if matched:
        said += f"Last successful match: {time.ctime(matched)}\n"
    elif rejected:
        said += "No successful match recorded.\n"
    if rejected > matched:
        who = job.eval_str("LastRejMatchNegotiator")
        said += f"Last failed match: {time.ctime(rejected)}{f' from {who}' if who else ''}\n"
        reason = job.eval_str("LastRejMatchReason")
        said += f"Reason for last match failure: {reason}\n" if reason else ""
    return said


def wrapped(text: str, indent: int = 4, width: int = _WIDTH) -> str:
    """An expression over several lines, broken after `&&` and `||` and indented by its parentheses."""
    lines: list[str] = []
    line_start, break_at, break_indent, column, depth = 0, 0, indent, indent, indent
    margin = ""
    for at, letter in enumerate(text):
        after_operator = at >= 2 and text[at - 2 : at] in ("&&", "||")
        if letter == "(":
            depth += 2
        elif letter == ")":
            depth -= 2
        if column >= width and break_at > line_start:
            lines.append(margin + text[line_start:break_at])
            margin = " " * break_indent
            line_start = break_at + 1
            column = len(margin) + at - line_start
            break_at, break_indent = line_start, depth
        if after_operator:
            break_at, break_indent = at, depth
        column += 1
    lines.append(margin + text[line_start:])
    return "\n".join(lines)


def unmatchable(session: Session, jobs: Iterable[ClassAd]) -> list[ClassAd]:
    """The idle jobs that no slot would run, not even a drained one."""
    from pool.matching.explain import analyze as compare

    slots = machine_ads(session)
    return [job for job in jobs if job.eval_int("JobStatus") == 1 and compare(job, slots).matches_nothing]


def _summary(jobs: Sequence[ClassAd], slots: Sequence[ClassAd]) -> Iterable[str]:
    from pool.matching.explain import analyze as compare

    groups: dict[tuple[int, str], list[ClassAd]] = {}
    for job in jobs:
        groups.setdefault((job.eval_int("AutoClusterId", -1), job.eval_str("User", "")), []).append(job)
    yield f"Analyzing matches for {len(slots)} slots\n"
    heading = "{:<13} {:>12} {:>12} {:>11} {:>11} {:>10} {:>9} {}\n"
    yield heading.format("", " Autocluster", "   Matches  ", "  Machine  ", "  Running  ", "  Serving ", "", "")
    yield heading.format(
        " JobId", "Members/Idle", "Requirements", "Rejects Job", " Users Job ", "Other User", "Available", "Owner"
    )
    yield heading.format("-" * 13, "-" * 12, "-" * 12, "-" * 11, "-" * 11, "-" * 10, "-" * 9, "-" * 5)
    for (_, user), members in groups.items():
        job = members[0]
        found = compare(job, slots)
        idle = sum(one.eval_int("JobStatus") == 1 for one in members)
        running = sum(one.eval_int("JobStatus") in (2, 6, 7) for one in members)
        users = [slot.eval_str("RemoteUser") for slot in slots if slot.eval_str("RemoteUser")]
        mine = users.count(user)
        yield (
            f"{job.eval_int('ClusterId', 0)}.{job.eval_int('ProcId', 0)}".ljust(13)
            + f" {f'{len(members)}/{idle}':<12} {found.slots - found.rejected_by_job:12d} {found.reject_job:11d}"
            + f" {f'{running}/{mine}' if running else str(mine):>11} {len(users) - mine:10d} {found.willing:9d}"
            + f" {job.eval_str('Owner', '')}\n"
        )
