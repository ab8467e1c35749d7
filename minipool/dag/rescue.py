"""What a rescue file says is done, told to the graph that it belongs to."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from minipool.dag.exceptions import NoRescueFileFound
from minipool.dag.formatter import NodeNameFormatter, SimpleFormatter
from minipool.dag.graph import DAG
from minipool.dag.writer import DEFAULT_DAG_FILE_NAME


def rescue(dag: DAG, rescue_file: str | PathLike[str], formatter: NodeNameFormatter | None = None) -> None:
    """Let the graph's nodes be done that a rescue file names, and no others."""
    names = formatter or SimpleFormatter()
    done: dict[str, dict[int, bool]] = {}
    for line in Path(rescue_file).read_text().splitlines():
        # Lines of RETRY and comments say nothing that a layer could keep.
        words = line.split()
        if len(words) == 2 and words[0].upper() == "DONE":
            layer, number = names.parse(words[1])
            done.setdefault(layer, {})[number] = True
    for node in dag.nodes:
        node.done = done.get(node.name, {})


def find_rescue_file(dag_dir: str | PathLike[str], dag_file_name: str = DEFAULT_DAG_FILE_NAME) -> Path:
    """The newest rescue file of a DAG file: the one that DAGMan would take."""
    found = sorted(Path(dag_dir).glob(f"{dag_file_name}.rescue[0-9]*"))
    if not found:
        raise NoRescueFileFound(f"{dag_dir} has no rescue file of {dag_file_name}")
    return found[-1]
