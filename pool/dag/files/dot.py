"""DOT: a picture of the graph as it is, for Graphviz, to the character as condor_dagman draws it."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from pool.dag.files.node_status import DONE, ERROR, POSTRUN, PRERUN, SUBMITTED
from pool.dag.model import Dag

_WAITS: Final = ("ellipse", "I", "")
_LOOKS: Final = {
    PRERUN: ("ellipse", "Pre", " style=dotted"),
    SUBMITTED: ("ellipse", "R", " peripheries=2"),
    POSTRUN: ("ellipse", "Post", " style=dotted"),
    DONE: ("ellipse", "Done", " style=bold"),
    ERROR: ("box", "E", ""),
}


def dot_text(dag: Dag, states: Sequence[int], at: int, include: str | None = None) -> str:
    """The picture. `include`: the text of the file that DOT's INCLUDE names."""
    return "".join(dot_lines(dag, states, at, include))


def dot_lines(dag: Dag, states: Sequence[int], at: int, include: str | None) -> Iterator[str]:
    """The same, a line or two at a time."""
    yield f'digraph DAG {{\n    label="DAGMan Job status at {time.asctime(time.localtime(at))}";\n\n'
    if include is not None and dag.dot is not None:
        file = dag.dot.include
        yield f"// Beginning of commands included from {file}.\n{include}"
        yield f"// End of commands included from {file}.\n\n"
    shown = [node for node, one in enumerate(dag.nodes) if one.kind != "SERVICE"]
    for node in shown:
        name = dag.nodes[node].name
        shape, word, style = _LOOKS.get(states[node], _WAITS)
        yield f'    "{name}" [shape={shape} label="{name} ({word})"{style}];\n'
    yield "\n"
    for node in shown:
        weak = dag.weak[node] if dag.weak else ()
        for child in sorted({*dag.children[node], *weak}):
            yield f'    "{dag.nodes[node].name}" -> "{dag.nodes[child].name}";\n'
    yield "}\n"
