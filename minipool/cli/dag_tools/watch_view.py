"""What `pool dag watch` shows: a screen that is drawn again and again, or a line for each change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pool.base.ids import JobId
from pool.classad import ClassAd
from pool.dag.course.states import DagStatus
from pool.dag.show.past import NodePast, Past
from pool.dag.show.rest import rest
from pool.jobs.vocabulary.states import EXECUTING, JobStatus

if TYPE_CHECKING:
    from minipool.cli.dag_tools.following import Change, Followed

FIGURES: Final = (
    ("Done", "DAG_NodesDone"), ("Pre", "DAG_NodesPrerun"), ("Queued", "DAG_NodesQueued"),
    ("Post", "DAG_NodesPostrun"), ("Ready", "DAG_NodesReady"), ("Un-Ready", "DAG_NodesUnready"),
    ("Failed", "DAG_NodesFailed"), ("Futile", "DAG_NodesFutile"),
)  # fmt: skip
"""The columns of the table in condor_dagman's log, and the attributes of its job that have them."""
BAR: Final = 60
ROWS_MAX: Final = 6
"""How many nodes of a kind are named at once."""
NAMES_MAX: Final = 5


def screen_of(followed: Followed, now: float) -> Iterator[str]:
    """The graph as it is now."""
    dagman, jobs = followed.dagman, sorted(followed.jobs.items())
    yield headline(followed)
    if followed.nodes is None:
        return  # DAGMan has not begun
    yield _bar(dagman)
    yield ""
    yield "".join(f"{name:>10}" for name, _ in FIGURES)
    yield "".join(f"{dagman.eval_int(attribute, 0):>10}" for _, attribute in FIGURES)
    past = followed.nodes.past
    if not followed.over and (coming := rest(past, now)) is not None and coming.way:
        names = [past.dag.nodes[number].name for number in coming.way]
        shown = names if len(names) <= NAMES_MAX else [*names[: NAMES_MAX - 1], "...", names[-1]]
        yield f"\nAt least {span(coming.seconds)} more: {' -> '.join(shown)}"
    running = (_where(id, ad, now) for id, ad in jobs if ad.eval_int("JobStatus") in EXECUTING)
    yield from _rows("Running", running)
    held = (
        f"{_name(ad)} ({id}): {ad.eval_str('HoldReason') or ''}"
        for id, ad in jobs
        if ad.eval_int("JobStatus") == JobStatus.HELD
    )
    yield from _rows("Held", held)
    failed = (number for number, one in enumerate(past.nodes) if one.state == "failed")
    yield from _rows(
        "Failed", (f"{past.dag.nodes[number].name}: {_why(past, number, past.nodes[number])}" for number in failed)
    )


def headline(followed: Followed) -> str:
    """The graph, and how far it is."""
    dagman = followed.dagman
    parts = [] if followed.nodes is not None or followed.over else ["DAGMan has not begun"]
    if "DAG_NodesTotal" in dagman:
        parts.append(f"{dagman.eval_int('DAG_NodesDone', 0)} of {dagman.eval_int('DAG_NodesTotal', 0)} nodes done")
    if failed := dagman.eval_int("DAG_NodesFailed", 0):
        parts.append(f"{failed} failed")
    name = "DAGMan" if followed.nodes is None else followed.nodes.files[0]
    return f"{name} ({followed.cluster}): {', '.join(filter(None, [*parts, standing(followed)]))}"


def standing(followed: Followed) -> str:
    """Why nothing more happens now, if so."""
    dagman = followed.dagman
    status = dagman.eval_int("JobStatus", JobStatus.IDLE)
    if status == JobStatus.HELD:
        return f"DAGMan is held: {dagman.eval_str('HoldReason') or 'no reason is known'}"
    if status == JobStatus.REMOVED:
        return "removed"
    if followed.over:
        return f"DAGMan has ended with exit code {dagman.eval_int('ExitCode', 1)}"
    return "halted" if dagman.eval_int("DAG_Status") == DagStatus.HALTED else ""


def _bar(dagman: ClassAd) -> str:
    def part(*attributes: str) -> int:
        # Rounded up: of a thousand nodes the one that has failed must be seen.
        return -(-BAR * sum(dagman.eval_int(name, 0) for name in attributes) // dagman.eval_int("DAG_NodesTotal", 1))

    failed = "!" * part("DAG_NodesFailed", "DAG_NodesFutile")
    under_way = "-" * part("DAG_NodesPrerun", "DAG_NodesQueued", "DAG_NodesPostrun")
    done = "=" * min(part("DAG_NodesDone"), BAR - len(failed) - len(under_way))
    return f"[{(done + under_way + failed)[:BAR]:<{BAR}}]"


def _rows(title: str, rows: Iterable[str]) -> Iterator[str]:
    shown = list(rows)
    if shown:
        yield f"\n{title}:"
        yield from (f"    {row}" for row in shown[:ROWS_MAX])
    if len(shown) > ROWS_MAX:
        yield f"    and {len(shown) - ROWS_MAX} more"


def _name(ad: ClassAd) -> str:
    return ad.eval_str("DAGNodeName") or "?"


def _where(id: JobId, ad: ClassAd, now: float) -> str:
    on = f" on {host}" if (host := ad.eval_str("RemoteHost")) else ""
    begun = ad.eval_int("JobCurrentStartDate", 0)
    return f"{_name(ad)} ({id}){on}{f' for {span(max(now - begun, 0))}' if begun else ''}"


def _why(past: Past, number: int, one: NodePast) -> str:
    again = f", run {max(one.runs, 1)} of {times + 1}" if (times := past.dag.nodes[number].retry.times) else ""
    # What becomes of scripts, DAGMan's own log alone has.
    return f"{one.why or f'see {past.dag.file}.dagman.out'}{again}"


def change(past: Past, one: Change) -> str:
    """A line about a node that is in another state now."""
    now = one.now
    match now.state:
        case "running" if one.was == "held":
            said = "released"
        case "running":
            said = f"submitted, cluster {one.cluster}" if one.cluster else "begins; it has no job"
        case "done":
            said = f"done in {span(now.seconds)}" if now.runs else "skipped"
        case "failed":
            said = f"failed: {_why(past, one.node, now)}"
        case _:
            said = f"{now.state}: {now.why}"
    moment = time.strftime("%H:%M:%S", time.localtime(one.at))
    return f"{moment} [{one.done}/{len(past.nodes)}] {past.dag.nodes[one.node].name}: {said}"


def span(seconds: float) -> str:
    """`0:01:31`."""
    return str(timedelta(seconds=int(seconds)))
