"""Graphs of 100,000 nodes: how long their files take to load, how much memory that takes, what they cost.

Each shape is read in a process of its own, whose processor time counts. By turns with it, the same text is parted into
lines and words and no more, which is what any reader would have to do: the ratio of the two says what the reader costs
on a machine of any speed. Graphs that run are in `dag_run.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Final

from benchmarks import dag_run
from benchmarks.measure import Figure

NODES: Final = 100_000
TURNS: Final = 3


def tree(count: int) -> str:
    """JOB, VARS and RETRY of each node, and an edge from its parent."""
    lines = [f'JOB n{n} job.sub\nVARS n{n} index="{n}" name="node {n}"\nRETRY n{n} 3\n' for n in range(count)]
    return "".join([*lines, *(f"PARENT n{n // 2} CHILD n{n + 1}\n" for n in range(count - 1))])


def edges_first(count: int) -> str:
    """The edges of a chain before its nodes, so that each line has to wait."""
    edges = [f"PARENT n{n} CHILD n{n + 1}\n" for n in range(count - 1)]
    return "".join([*edges, *(f"JOB n{n} job.sub\n" for n in range(count))])


def layers(count: int) -> str:
    """Layers of a hundred nodes, with a join between each two, as minipool.dag writes them."""
    lines = [f"JOB n{n} job.sub\n" for n in range(count)]
    for at in range(0, count - 100, 100):
        before, behind = (" ".join(f"n{n}" for n in range(of, of + 100)) for of in (at, at + 100))
        lines.append(f"JOB join{at} none NOOP\nPARENT {before} CHILD join{at}\nPARENT join{at} CHILD {behind}\n")
    return "".join(lines)


SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "a tree with VARS and RETRY": tree,
    "a chain whose edges come first": edges_first,
    "layers of 100 with joins": layers,
}


def figures() -> Iterator[Figure]:
    """The suite."""
    for name in SHAPES:
        found = [_measured(name) for _ in range(TURNS)]
        loading, parting, questions = (median(column) for column in list(zip(*found, strict=True))[:3])
        how = f"{NODES} nodes, median of {TURNS} runs, CPU time"
        yield Figure(f"load {name}", loading, "s", how, "< 3")
        yield Figure(f"load {name}, to parting its words", loading / parting, "", how)
        yield Figure(f"layers, longest way and circles of {name}", questions, "s", how)
        yield Figure(
            f"memory for {name}", max(one[3] for one in found), "MB", "what it takes more than before", "< 120"
        )
    yield from dag_run.figures()


def _measured(name: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dag", name], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    return [float(word) for word in done.stdout.split()]


def _measure(name: str) -> None:
    from pool.dag import graph
    from pool.dag.language.reader import read

    text = SHAPES[name](NODES)
    start = process_time()
    parted = sum(len(line.split()) for line in text.split("\n"))
    parting = process_time() - start
    assert parted > NODES
    before, start = _resident(), process_time()
    dag = read(["x.dag"], lambda _: text)
    loading, after = process_time() - start, _resident()
    start = process_time()
    assert graph.circles(dag) == []
    assert graph.critical_path(dag).nodes
    assert graph.layers(dag)
    print(loading, parting, process_time() - start, (after - before) / 1e6)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    _measure(sys.argv[1])
