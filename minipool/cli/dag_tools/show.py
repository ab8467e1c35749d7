"""`pool dag show`: a graph's layers and longest way, and what became of its nodes.

Beside the DAG file are looked for its newest rescue file, the nodes' log, and the node status file that it names.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from minipool.cli.dag_tools.graph_files import end_of, newest_rescue, text_of
from minipool.cli.entry.options import Opt, Parsed, UsageError
from minipool.cli.entry.tool import HELP, JSON, Tool, run
from pool.base.errors import UserError
from pool.dag.graph import Path, critical_path, layers
from pool.dag.model import Dag
from pool.dag.show.past import NodePast, State, look_back, of_layers
from pool.dag.show.picture import svg

TOOL: Final = Tool(
    "pool dag show",
    "Show a graph's layers, its longest way, and what failed and why.",
    "FILE... [-rescue FILE] [-log FILE] [-usedagdir] [-json] [-svg FILE]",
    (
        Opt("rescue", 1, 1, "FILE", "this rescue or save file instead of the newest"),
        Opt("log", 1, 1, "FILE", "this nodes' log instead of FILE.nodes.log"),
        Opt("usedagdir", 1, says="each file is read in its own directory"),
        JSON,
        Opt("svg", 1, 1, "FILE", "write a picture there"),
        HELP,
    ),
)
_STATES: Final[tuple[State, ...]] = ("done", "running", "held", "failed", "never", "waiting")
_NAMES_MAX: Final = 6
"""How many nodes of a layer, or of a long way, are named."""


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool dag show`."""
    return run(TOOL, _main, argv)


def _main(parsed: Parsed) -> int:
    # Here, as it brings modules along that other tools have no use for.
    from pool.config import load_config
    from pool.dag.language.reader import Options, read, refuse_circles

    files = parsed.words
    if not files:
        raise UsageError("Give the DAG file.")
    config = load_config()
    # Without join nodes, whatever DAGMan has: the graph is shown as it is written.
    options = Options(
        munge=config.bool("DAGMAN_MUNGE_NODE_NAMES"),
        use_dag_dir=parsed.has("usedagdir"),
        any_characters=config.bool("DAGMAN_ALLOW_ANY_NODE_NAME_CHARACTERS"),
    )
    rescue = parsed.value("rescue") or newest_rescue(files)
    dag = read(files, text_of, options, rescue=rescue)
    refuse_circles(dag, files, text_of, options)
    past = look_back(
        dag,
        rescue=text_of(rescue) if rescue else "",
        events=_events(parsed.value("log"), files[0]),
        status=_status(dag),
        log=lambda: end_of(f"{files[0]}.dagman.out"),
    )
    # Before anything has run each node counts as one; what stands outside of the graph is on no way.
    timed = any(one.seconds for one in past)
    inside = [node.kind in ("JOB", "SUBDAG") for node in dag.nodes]
    costs = [(one.seconds if timed else 1.0) * among for one, among in zip(past, inside, strict=True)]
    path = critical_path(dag, costs)
    if (picture := parsed.value("svg")) is not None:
        _write(picture, svg(dag, past, path.nodes))
    if parsed.has("json"):
        import json

        print(json.dumps(_data(dag, past, path), indent=1))
    else:
        sys.stdout.write("\n".join(_told(dag, past, path, timed=timed)) + "\n")
    return 0


def _write(file: str, text: str) -> None:
    try:
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from None


def _events(asked: str | None, first: str) -> Iterator[dict[str, Any]]:
    # A graph that has not run has no log; one that was asked for has to be there.
    log = asked or f"{first}.nodes.log"
    if asked is None and not os.path.exists(log):
        return
    from pool.jobs.userlog.requests import events_of

    try:
        text = text_of(log)
    except OSError as error:
        raise UserError(f"{log} cannot be read: {error.strerror}") from None
    yield from events_of(text, year=time.localtime().tm_year)


def _status(dag: Dag) -> list[dict[str, Any]]:
    """The nodes of the node status file, if the graph names one and it is there."""
    if dag.status_file is None or not os.path.exists(dag.status_file.path):
        return []
    from io import StringIO

    from pool.classad.forms.lists import read_ads

    ads = read_ads(StringIO(text_of(dag.status_file.path)), form="new")
    return [{name: ad.get(name) for name in ("Node", "NodeStatus", "StatusDetails")} for ad in ads]


def _told(dag: Dag, past: list[NodePast], path: Path, *, timed: bool) -> Iterator[str]:
    ordered = of_layers(dag)
    outside = bool(ordered) and dag.nodes[ordered[-1][0]].kind not in ("JOB", "SUBDAG")
    took = f"{path.cost:.0f} s" if timed else _count(len(path.nodes), "node")
    yield f"{dag.file}: {_count(len(dag.nodes), 'node')} in {_count(len(ordered) - outside, 'layer')}"
    yield f"Longest way: {_names([dag.nodes[number].name for number in path.nodes], ' -> ')} ({took})"
    # A column for each state that some node is in.
    there = [state for state in _STATES if any(one.state == state for one in past)]
    yield ""
    yield f"{'LAYER':>5} {'NODES':>6} " + "".join(f"{state.upper():>8}" for state in there) + "  NAMES"
    for deep, layer in enumerate(ordered, 1):
        counts = Counter(past[number].state for number in layer)
        numbers = "".join(f"{counts[state] or '':>8}" for state in there)
        label = "-" if outside and layer is ordered[-1] else deep
        yield f"{label:>5} {len(layer):>6} {numbers}  {_names([_called(dag, number) for number in layer], ' ')}"
    for state, headline in (("failed", "Failed:"), ("held", "Held:")):
        numbers_of = [number for number, one in enumerate(past) if one.state == state]
        if numbers_of:
            yield ""
            yield headline
            yield from (_why(dag, past, number) for number in numbers_of)
    yield from (f"warning: {odd.text}" for odd in dag.warnings)


def _called(dag: Dag, number: int) -> str:
    node = dag.nodes[number]
    return node.name if node.kind == "JOB" else f"{node.name} ({node.kind})"


def _why(dag: Dag, past: list[NodePast], number: int) -> str:
    node, one = dag.nodes[number], past[number]
    # What the first of its failed ancestors keeps from running is told there only.
    never = sum(1 for other in past if other.why == f"waits for {node.name}")
    parts = [one.why or "no reason is known"]
    if one.runs > 1 or node.retry.times:
        parts.append(f"run {max(one.runs, 1)} of {node.retry.times + 1}")
    if never:
        parts.append(f"{_count(never, 'node')} will not run")
    return f"    {node.name} ({node.place}): {'; '.join(parts)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _names(names: list[str], between: str) -> str:
    # The last one shows how far the numbers in the names go.
    if len(names) <= _NAMES_MAX:
        return between.join(names)
    return between.join([*names[: _NAMES_MAX - 2], "...", names[-1]])


def _data(dag: Dag, past: list[NodePast], path: Path) -> dict[str, Any]:
    # Special nodes are in the first layer here: nothing holds them back.
    depth = {number: deep for deep, layer in enumerate(layers(dag), 1) for number in layer}
    nodes = [
        {
            "name": node.name,
            "kind": node.kind,
            "place": str(node.place),
            "layer": depth[number],
            "children": [dag.nodes[child].name for child in dag.children[number]],
            **past[number]._asdict(),
        }
        for number, node in enumerate(dag.nodes)
    ]
    way = [dag.nodes[number].name for number in path.nodes]
    return {"file": dag.file, "nodes": nodes, "critical_path": way, "critical_path_cost": path.cost}
