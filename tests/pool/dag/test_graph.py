"""Order, layers, circles and longest paths of graphs."""

from __future__ import annotations

from random import Random

import pytest

from pool.dag import graph
from pool.dag.language.errors import DagError
from pool.dag.language.reader import read, refuse_circles
from pool.dag.model import Dag
from tests.pool.dag.cases import reader

DIAMOND = "JOB A a\nJOB B a\nJOB C a\nJOB D a\nPARENT A CHILD B C\nPARENT B C CHILD D\n"


def a_dag(text: str) -> Dag:
    return read(["x.dag"], reader({"x.dag": text}))


def drawn(rng: Random, nodes: int, count: int, *, acyclic: bool) -> Dag:
    """A graph with edges drawn at random."""
    lines = [f"JOB n{number} a" for number in range(nodes)]
    for _ in range(count):
        a, b = rng.randrange(nodes), rng.randrange(nodes)
        if acyclic and a == b:
            continue
        a, b = (min(a, b), max(a, b)) if acyclic else (a, b)
        lines.append(f"{'WEAK ' if rng.random() < 0.2 else ''}PARENT n{a} CHILD n{b}")
    return a_dag("\n".join(lines))


def test_a_diamond() -> None:
    dag = a_dag(DIAMOND)
    assert graph.layers(dag) == [[0], [1, 2], [3]]
    assert graph.critical_path(dag) == ((0, 1, 3), 3.0)
    assert graph.critical_path(dag, [1, 1, 5, 2]) == ((0, 2, 3), 8)
    assert (graph.ancestors(dag, 3), graph.descendants(dag, 1), graph.ancestors(dag, 0)) == ({0, 1, 2}, {3}, set())
    assert graph.circles(dag) == []


def test_a_graph_of_nothing() -> None:
    dag = a_dag("")
    assert (graph.layers(dag), graph.critical_path(dag), graph.circles(dag)) == ([], ((), 0.0), [])


def test_a_weak_edge_is_an_edge() -> None:
    dag = a_dag("JOB A a\nJOB B a\nWEAK PARENT A CHILD B\n")
    assert graph.layers(dag) == [[0], [1]]
    assert graph.parents(dag) == [[], [0]]


def test_a_chain_may_be_long() -> None:
    lines = ["JOB n0 a", *(f"JOB n{i} a\nPARENT n{i - 1} CHILD n{i}" for i in range(1, 20_000))]
    dag = a_dag("\n".join(lines))
    assert len(graph.layers(dag)) == 20_000
    assert graph.critical_path(dag).cost == 20_000


@pytest.mark.parametrize("seed", range(40))
def test_what_is_drawn_is_ordered(seed: int) -> None:
    dag = drawn(Random(seed), 12, 25, acyclic=True)
    order = graph.order(dag)
    place = {node: at for at, node in enumerate(order)}
    forward = graph.edges(dag)
    assert sorted(order) == list(range(12))
    assert all(place[parent] < place[child] for parent in range(12) for child in forward[parent])
    costs = [Random(seed * 100 + node).randrange(1, 9) for node in range(12)]

    def longest(node: int) -> float:
        return costs[node] + max(map(longest, forward[node]), default=0)

    path = graph.critical_path(dag, costs)
    assert path.cost == max(map(longest, range(12))) == sum(costs[node] for node in path.nodes)
    assert all(child in forward[parent] for parent, child in zip(path.nodes, path.nodes[1:], strict=False))


@pytest.mark.parametrize("seed", range(40))
def test_a_circle_is_a_way_from_a_node_to_itself_and_none_is_missed(seed: int) -> None:
    dag = drawn(Random(seed), 10, 14, acyclic=False)
    forward = graph.edges(dag)
    circles = graph.circles(dag)
    for circle in circles:
        assert all(b in forward[a] for a, b in zip(circle, (*circle[1:], circle[0]), strict=True))
    on_some = {node for node in range(10) if node in graph.descendants(dag, node)}
    knots = {frozenset({node, *graph.descendants(dag, node) & graph.ancestors(dag, node)}) for node in on_some}
    assert {frozenset(next(k for k in knots if circle[0] in k)) for circle in circles} == knots
    assert len(circles) == len(knots)


def test_a_circle_is_refused_with_its_nodes_and_the_line_that_closes_it() -> None:
    text = DIAMOND + "JOB E a\nPARENT D CHILD B\nPARENT E CHILD E\n"
    files = reader({"x.dag": text})
    dag = read(["x.dag"], files)
    with pytest.raises(DagError) as caught:
        refuse_circles(dag, ["x.dag"], files)
    assert str(caught.value).splitlines() == [
        "x.dag:8: these nodes wait for one another: B -> D -> B (expected no way from a node to itself)",
        "x.dag:9: these nodes wait for one another: E -> E (expected no way from a node to itself)",
    ]
    refuse_circles(a_dag(DIAMOND), ["x.dag"], files)
