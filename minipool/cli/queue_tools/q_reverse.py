"""condor_q -better-analyze:reverse and -reverse-analyze: why slots do not run jobs, seen from the slots."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from minipool.client.job_ids import of_ad
from pool.base.errors import ClassAdError
from pool.classad import ClassAd, accepts

if TYPE_CHECKING:
    from pool.explaining.analysis import Analysis


def summary(jobs: Sequence[ClassAd], slots: Sequence[ClassAd]) -> Iterable[str]:
    """A line for each slot: how many jobs it would have, how many would have it, and how many both."""
    if len(jobs) == 1:
        yield f"{_id(jobs[0])}: Analyzing matches for 1 job\n"
    else:
        yield f"Analyzing matches for {len(jobs)} jobs\n"
    wide = max(16, *(len(slot.eval_str("Name", "")) for slot in slots)) if slots else 16
    line = "{:<" + str(wide) + "} {:>4} {:>12.12} {:>12.12} {:>10.10}\n"
    yield line.format("", "Slot", "Slot's Req ", "  Job's Req ", "Both   ")
    yield line.format("Name", "Type", "Matches Job", "Matches Slot", "Match %")
    yield line.format("-" * min(24, wide), "----", "-" * 12, "-" * 12, "-" * 10)
    for slot in slots:
        offered, wanted, both = _counts(slot, jobs)
        share = 100 * both / len(jobs) if jobs else 0.0
        name = slot.eval_str("Name", "")
        yield line.format(name, _type(slot), str(offered), str(wanted), f"{share:.2f}")


def _type(slot: ClassAd) -> str:
    if slot.eval_bool("PartitionableSlot"):
        return "Part"
    return "Dyn" if slot.eval_bool("DynamicSlot") else "Stat"


def _counts(slot: ClassAd, jobs: Sequence[ClassAd]) -> tuple[int, int, int]:
    offered = [accepts(slot, job) for job in jobs]
    wanted = [accepts(job, slot) for job in jobs]
    return sum(offered), sum(wanted), sum(one and other for one, other in zip(offered, wanted, strict=True))


def _id(job: ClassAd) -> str:
    return str(of_ad(job))


def report(slot: ClassAd, jobs: Sequence[ClassAd]) -> str:
    """All that is said about one slot."""
    from minipool.cli.output.show import wrapped
    from pool.explaining.explain import analyze as compare

    name = slot.eval_str("Name", "")
    # A job that no negotiator has seen is an autocluster of its own.
    groups = {(ad.eval_int("AutoClusterId", -1), _id(ad) if "AutoClusterId" not in ad else "") for ad in jobs}
    start = slot.text("START") if "START" in slot else None
    requirements = slot.text("Requirements") if "Requirements" in slot else "undefined"
    found = compare(_with_start(slot, requirements, start), jobs)
    offered, wanted, both = _counts(slot, jobs)
    share = 100 * both / len(jobs) if jobs else 0.0
    said = [f"\n-- Slot: {name} : Analyzing matches for {len(jobs)} Jobs in {len(groups)} autoclusters\n\n"]
    said.append(f"The Requirements expression for this slot is\n\n    {wrapped(requirements)}\n\n")
    if start is not None:
        said.append(f"  START is\n    {wrapped(start)}\n\n")
    said += [f"    {f'[{clause.number}]':<7}: {clause.text}\n" for clause in found.clauses]
    said.append("\nThis slot defines the following attributes:\n\n")
    said += [f"    {key} = {text}\n" for key, text, _ in found.attributes if key.upper() != "START"]
    said.append("\n")
    if len(jobs) == 1:
        said.append(_job_attributes(slot, requirements, start, jobs[0]))
    said.append("The Requirements expression for this slot reduces to these conditions:\n\n")
    said.append(_table(found))
    said.append(
        f"\n{name}: Run analysis summary of {len(jobs)} jobs.\n"
        f"{both:5d} ({share:.2f} %) match both slot and job requirements.\n"
        f"{offered:5d} match the requirements of this slot.\n"
        f"{wanted:5d} have job requirements that match this slot.\n"
    )
    return "".join(said)


def _with_start(slot: ClassAd, requirements: str, start: str | None) -> ClassAd:
    """The slot with START put in the place of its name, so that its conditions are seen one by one."""
    if start is None:
        return slot
    words, out, at = requirements, [], 0
    # By text, and not by the expression's tree: the conditions are shown as the administrator wrote them.
    while (found := words.upper().find("START", at)) >= 0:
        before, after = words[found - 1 : found], words[found + 5 : found + 6]
        whole = not (before.isalnum() or before in ("_", ".")) and not (after.isalnum() or after == "_")
        out.append(words[at:found] + (f"({start})" if whole else words[found : found + 5]))
        at = found + 5
    copy = slot.copy()
    try:
        copy.insert("Requirements", "".join(out) + words[at:])
    except ClassAdError:
        return slot
    return copy


def _job_attributes(slot: ClassAd, requirements: str, start: str | None, job: ClassAd) -> str:
    from pool.classad import expr

    names: set[str] = set()
    for text in (requirements, start or "true"):
        names.update(expr(text, old=True).references(slot)[1])
    known = sorted((name for name in names if name in job), key=str.lower)
    if not known:
        return ""
    lines = "".join(f"    TARGET.{name} = {job.text(name)}\n" for name in known)
    return f"Job {_id(job)} has the following attributes:\n\n{lines}\n"


def _table(found: Analysis) -> str:
    lines = ["       Clusters", "Step   Matched  Condition", "----- --------- ---------"]
    for row in found.table:
        label = f"[{row.number}]".ljust(5)
        if row.matched is None:
            lines.append(f"{label} {'always' if row.always else 'never':>9}  {row.condition}")
        else:
            lines.append(f"{label} {row.matched:9d}  {row.condition}")
    return "\n".join(lines) + "\n"


def write(jobs: Sequence[ClassAd], slots: Sequence[ClassAd], *, detailed: bool) -> None:
    """The whole analysis; with details where they are asked for."""
    if not slots:
        return
    if detailed:
        sys.stdout.writelines(report(slot, jobs) for slot in slots)
    else:
        sys.stdout.writelines(summary(jobs, slots))
