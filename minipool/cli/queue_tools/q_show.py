"""What condor_q prints about one queue: tables, whole ads, totals.

Totals alone (-totals) come first, then whole ads or rows, then batches, then a table. A table is rendered whole
before its first line is printed, for its columns grow with their values; -stream-results gives that up. Source:
HTCondor's manual page condor_q.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

from minipool.cli.entry.console import line_width
from minipool.cli.entry.context import stamp
from minipool.cli.output.print_format import Key, PrintFormat
from minipool.cli.output.show import literal, local
from minipool.cli.queue_tools import q_batch, q_totals, q_views
from minipool.cli.queue_tools.q_asked import Asked
from minipool.client.job_ids import of_ad
from pool.classad import ClassAd


def show(asked: Asked, ads: Iterable[ClassAd], everybody: q_totals.Tally, title: str, me: str) -> None:
    """Everything that goes to standard output about one queue."""
    out = sys.stdout
    if asked.only_totals:
        out.writelines(_only_totals(asked, list(ads), everybody, title, me))
    elif not asked.output.is_table:
        out.writelines(asked.output.text(ads))
    elif asked.table is None:
        found = list(ads)
        width = line_width(asked.parsed)
        out.write(_title(asked, title, found))
        out.writelines(
            q_batch.batch_lines(
                found,
                partial=asked.partial,
                width=width,
                always_held=asked.parsed.has("global"),
                dag=asked.parsed.has("dag"),
            )
        )
        out.write("\n" + _totals(asked, found, everybody, me))
    else:
        _show_table(asked, asked.table, ads, everybody, title, me)


def _show_table(
    asked: Asked, table: PrintFormat, ads: Iterable[ClassAd], everybody: q_totals.Tally, title: str, me: str
) -> None:
    out = sys.stdout
    streamed = asked.parsed.has("stream-results")
    found = [] if streamed else _in_order(asked, table, list(ads))
    width = _fitted(asked, table, found)
    if table.title:
        out.write(_title(asked, title, found))
    counts = q_totals.Counts()
    if streamed:
        out.write(table.mask.heading() if table.header and table.mask.has_heading else "")
        for ad in ads:
            counts.add_job(ad)
            out.write(table.mask.display(table.mask.render(ad)))
    else:
        rows = [table.mask.render(ad) for ad in found]
        table.mask.width = width
        out.write(table.mask.heading() if table.header and table.mask.has_heading else "")
        out.writelines(table.mask.display(row) for row in rows if table.mask)
    if table.own_summary:
        ad = _summary(asked, found, everybody, me)
        out.write(f"\n{table.summary.heading() if table.summary.has_heading else ''}")
        out.write(table.summary.display(table.summary.render(ad)) + "\n")
    elif table.summarized:
        out.write("\n" + _totals(asked, found, everybody, me, counts if streamed else None))


def _fitted(asked: Asked, table: PrintFormat, ads: Sequence[ClassAd]) -> int:
    """Make the columns of a standard table fit; the width at which lines are cut."""
    width = 0 if asked.parsed.has("aaf") else line_width(asked.parsed)
    if asked.format is None:
        table.mask.trim = not width
        if not asked.by_autocluster:
            q_views.widen(table.mask, ads, owner=max(14, width - 66) if width else 0)
    return max(0, width - 1)


def _title(asked: Asked, title: str, ads: Sequence[ClassAd]) -> str:
    times = (ad.eval_int("ServerTime", 0) for ad in ads) if asked.from_file else ()
    asked_at = next((at for at in times if at and local(at) is not None), None)
    return f"\n\n-- {title} @ {stamp(asked_at)}\n"


def _in_order(asked: Asked, table: PrintFormat, ads: list[ClassAd]) -> list[ClassAd]:
    """The rows' ads: one for each group, where the view has groups; sorted by GROUP BY."""
    if asked.by_autocluster:
        ads = grouped(ads, ("AutoClusterId",))
    elif asked.view == "hold-codes":
        return _by_hold_code(ads)
    elif table.unique:
        ads = unique(ads, table)
    elif asked.view == "dag" and asked.format is None:
        return _children_last(ads)
    return in_order(ads, table.group_by)


def _children_last(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """DAGs, each followed by its nodes; a node's name is set off by a mark for each DAG above it."""
    present = {ad.eval_int("ClusterId", 0) for ad in ads}
    nodes: dict[int, list[ClassAd]] = {}
    for ad in ads:
        dag = ad.eval_int("DAGManJobId", 0)
        nodes.setdefault(dag if dag in present and dag != ad.eval_int("ClusterId", 0) else 0, []).append(ad)
    out: list[ClassAd] = []

    def visit(dag: int, depth: int) -> None:
        for ad in nodes.get(dag, []):
            name = ad.eval_str("DAGNodeName")
            if "DAGManJobId" in ad and name is not None:
                ad = ad.copy()
                ad["DAGNodeName"] = f"{' ' * depth}|-{name}"
            out.append(ad)
            cluster = ad.eval_int("ClusterId", 0)
            if cluster in nodes and cluster:
                visit(cluster, depth + 1)
                # A DAG whose node is itself (an ad can say so) is shown once.
                del nodes[cluster]

    visit(0, 0)
    return out


def grouped(ads: Sequence[ClassAd], keys: Sequence[str]) -> list[ClassAd]:
    """An ad for each combination of the keys' values, with the number of jobs as JobCount."""
    groups: dict[tuple[object, ...], ClassAd] = {}
    for ad in ads:
        key = tuple(ad.eval_int(name, -1) for name in keys)
        if key not in groups:
            groups[key] = ad.copy()
            groups[key]["JobCount"] = 0
            groups[key]["JobIds"] = ""
        _count_in(groups[key], ad)
    return sorted(groups.values(), key=lambda ad: -ad.eval_int("JobCount", 0))


def _by_hold_code(ads: Sequence[ClassAd]) -> list[ClassAd]:
    """The oldest job of each reason to be held, with how many there are; reasons are in the order of their digits."""
    names = ("HoldReasonCode", "HoldReasonSubCode")
    out: list[ClassAd] = []
    last: tuple[int, int] | None = None
    # By their digits and not by value, as HTCondor's -hold-codes orders them: 13 comes before 6.
    for ad in sorted(ads, key=lambda ad: [literal(ad.eval(name)) for name in names]):
        code = ad.eval_int(names[0])
        both = None if code is None else (code, ad.eval_int(names[1], 0))
        if both is None or both != last:
            out.append(ad.copy())
            out[-1]["JobCount"] = 0
        out[-1]["JobCount"] = out[-1].eval_int("JobCount", 0) + 1
        last = both
    return out


def unique(ads: Sequence[ClassAd], table: PrintFormat) -> list[ClassAd]:
    """An ad for each combination of what the columns show."""
    # These two are made of the group, and do not tell its members apart.
    names = [name for name in table.names() if name.lower() not in ("jobcount", "jobids")]
    groups: dict[tuple[str, ...], ClassAd] = {}
    for ad in ads:
        key = tuple(literal(ad.eval(name)) for name in names)
        if key not in groups:
            groups[key] = ad.project(names)
            groups[key]["JobCount"] = 0
            groups[key]["JobIds"] = ""
        _count_in(groups[key], ad)
    return list(groups.values())


def _count_in(group: ClassAd, ad: ClassAd) -> None:
    """One more job in a group; its id joins the ids, as a range where they follow each other."""
    group["JobCount"] = group.eval_int("JobCount", 0) + 1
    cluster, proc = of_ad(ad)
    ids = group.eval_str("JobIds", "")
    before, _, last = ids.rpartition(" ")
    first, _, end = last.partition("-")
    if (end or first) == f"{cluster}.{proc - 1}":
        group["JobIds"] = f"{before} {first}-{cluster}.{proc}".strip()
    else:
        group["JobIds"] = f"{ids} {cluster}.{proc}".strip()


def in_order(ads: list[ClassAd], keys: Sequence[Key]) -> list[ClassAd]:
    """The ads by the keys of GROUP BY, the first one counting most."""
    for key in reversed(keys):
        ads = sorted(ads, key=lambda ad: _comparable(key.source.value(ad)), reverse=key.descending)
    return ads


def _comparable(value: object) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return (1, float(value), "")
    return (2, 0.0, value) if isinstance(value, str) else (0, 0.0, "")


def _totals(
    asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally, me: str, counts: q_totals.Counts | None = None
) -> str:
    if asked.from_file:
        return q_totals.of_a_file(counts or q_totals.Counts(ads))
    mine = None if asked.always_all else everybody.counts(asked.me)
    return q_totals.totals_lines(counts or _of_query(asked, ads, everybody), everybody.counts(), mine, me)


def _of_query(asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally) -> q_totals.Counts:
    """The jobs that were asked for; where those are all, or all of one's own, they have been counted already."""
    if not asked.counts_suffice:
        return q_totals.Counts(ads)
    return everybody.counts() if asked.always_all else everybody.counts(asked.me)


def _summary(asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally, me: str) -> ClassAd:
    query, mine = _of_query(asked, ads, everybody), everybody.counts(asked.me)
    if asked.from_file:
        return q_totals.file_ad(query)
    return q_totals.summary_ad(query, everybody.counts(), mine, me, int(time.time()))


def _only_totals(asked: Asked, ads: Sequence[ClassAd], everybody: q_totals.Tally, title: str, me: str) -> Iterable[str]:
    if asked.output.is_table:
        yield _title(asked, title, ads) + _totals(asked, ads, everybody, me)
        return
    ad = _summary(asked, ads, everybody, me)
    yield from asked.output.text([ad])
    if not asked.output.whole:
        yield "\n"
