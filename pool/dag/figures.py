"""The figures of a graph that condor_dag_checker prints, under HTCondor's names."""

from pool.dag.graph import edges, layers
from pool.dag.model import Dag, is_join


def statistics(dag: Dag) -> dict[str, object]:
    """Counts of nodes by kind, and the shape of the graph. Figures that are zero are left out, as by HTCondor."""
    kinds = [node.kind for node in dag.nodes]
    joins = sum(node.noop and is_join(node.name) for node in dag.nodes)
    # FINAL and SERVICE nodes stand beside the graph, and are in no layer of it.
    inside = {node for node, kind in enumerate(kinds) if kind in ("JOB", "SUBDAG", "PROVISIONER")}
    widths = [width for layer in layers(dag) if (width := sum(node in inside for node in layer))]
    figures: dict[str, object] = {
        "GraphHeight": len(widths),
        "GraphWidth": max(widths, default=0),
        "NumArcs": sum(map(len, edges(dag))),
        "NumJoinNodes": joins,
        "NumNodes": kinds.count("JOB") - joins,
        "NumServiceNodes": kinds.count("SERVICE"),
        "NumSplices": len(_splices(dag)),
        "NumSubDAGs": kinds.count("SUBDAG"),
        "TotalNodes": len(kinds),
    }
    shown = {name: figure for name, figure in figures.items() if figure}
    for kind, name in (("FINAL", "FinalNode"), ("PROVISIONER", "ProvisionerNode")):
        if kind in kinds:
            shown[name] = dag.nodes[kinds.index(kind)].name
    if widths:
        shown["WidthByDepth"] = widths
    return dict(sorted(shown.items()))


def _splices(dag: Dag) -> set[str]:
    """Splices by their names, which the names of all of their nodes begin with."""
    found: set[str] = set()
    for node in dag.nodes:
        *parts, _ = node.name.split("+")
        found.update("+".join(parts[: end + 1]) for end in range(len(parts)))
    return found
