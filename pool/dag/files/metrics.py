"""The metrics of a run, `x.dag.metrics`, as condor_dagman writes them: of version 2, and of version 1 if asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from pool.base.version import SPEAKS
from pool.dag.course.course import Course, S
from pool.dag.graph import edges, layers
from pool.dag.model import Dag

Count: TypeAlias = Callable[..., int]
_FIRST_VERSIONS: Final = {
    "nodes": "jobs",
    "nodes_failed": "jobs_failed",
    "nodes_succeeded": "jobs_succeeded",
    "dag_nodes": "dag_jobs",
    "dag_nodes_failed": "dag_jobs_failed",
    "dag_nodes_succeeded": "dag_jobs_succeeded",
    "total_nodes": "total_jobs",
    "total_nodes_run": "total_jobs_run",
}
"""What nodes are called in version 1."""
_JOBS: Final = ("JOB", "FINAL", "PROVISIONER")
_NESTED: Final = ("SUBDAG",)
_COUNTED: Final = (*_JOBS, *_NESTED)
"""What version 1 counts: version 2 has SERVICE nodes in its totals, too."""
_SINCE_SECOND: Final = (
    *("metrics_version", "has_final_node", "provisioner_nodes", "jobs_submitted", "jobs_succeeded", "jobs_failed"),
    *("service_nodes", "service_nodes_failed", "service_nodes_succeeded"),
)


class RunFacts(NamedTuple):
    """What the process knows of its run."""

    started_at: float
    ended_at: float
    exit_code: int
    dag_id: str
    parent_id: str
    rescue_number: int


def metrics_text(course: Course, run: RunFacts, *, of_graph: bool = False, version: int = 2) -> str:
    """The file's text; `of_graph`: with the graph's own figures (DAGMAN_REPORT_GRAPH_METRICS)."""
    # Once, as a look at each node of a large graph for each figure holds up the process.
    found = Counter(zip((node.kind for node in course.dag.nodes), course.states, strict=True))

    def count(kinds: tuple[str, ...], *states: int) -> int:
        return sum(many for (kind, state), many in found.items() if kind in kinds and (not states or state in states))

    figures = _figures(course, run, count)
    if version == 1:
        figures["total_nodes"] = len(course.states) - count(("SERVICE",))
        figures["total_nodes_run"] = count(_COUNTED, S.DONE, S.ERROR)
        figures = {
            _FIRST_VERSIONS.get(name, name): value for name, value in figures.items() if name not in _SINCE_SECOND
        }
    if of_graph:
        status = figures.pop("DagStatus")  # which is the last of all
        figures |= {**_graph(course.dag), "DagStatus": status}
    lines = [f'    "{name}":{_shown(value)}' for name, value in figures.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _figures(course: Course, run: RunFacts, count: Count) -> dict[str, object]:
    jobs, nested, services = _JOBS, _NESTED, ("SERVICE",)
    return {
        "client": "condor_dagman",
        "version": SPEAKS,
        "type": "metrics",
        "metrics_version": 2,
        "start_time": run.started_at,
        "end_time": run.ended_at,
        "duration": run.ended_at - run.started_at,
        "exitcode": run.exit_code,
        "dagman_id": run.dag_id,
        "parent_dagman_id": run.parent_id,
        "rescue_dag_number": run.rescue_number,
        "has_final_node": course.final is not None,
        "nodes": count(jobs),
        "nodes_failed": count(jobs, S.ERROR),
        "nodes_succeeded": count(jobs, S.DONE),
        "dag_nodes": count(nested),
        "dag_nodes_failed": count(nested, S.ERROR),
        "dag_nodes_succeeded": count(nested, S.DONE),
        "provisioner_nodes": count(("PROVISIONER",)),
        "service_nodes": count(services),
        "service_nodes_failed": count(services, S.ERROR),
        "service_nodes_succeeded": count(services, S.DONE),
        "total_nodes": len(course.states),
        "total_nodes_run": count((*jobs, *nested, *services), S.DONE, S.ERROR),
        "jobs_submitted": course.jobs_submitted,
        # HTCondor counts those that ended by themselves, whatever their exit codes.
        "jobs_succeeded": course.jobs_ended,
        "jobs_failed": course.jobs_submitted - course.jobs_ended,
        "DagStatus": int(course.status),
    }


def _graph(dag: Dag) -> dict[str, object]:
    widths = [len(layer) for layer in layers(dag)]
    arcs = sum(map(len, edges(dag)))
    return {
        "graph_height": len(widths),
        "graph_width": max(widths, default=0),
        "graph_num_edges": arcs,
        "graph_num_vertices": len(dag.nodes),
    }


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else json.dumps(value)
