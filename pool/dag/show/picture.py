"""A graph as a picture: its layers from the top down, what became of each node in colours, the longest way in bold.

A graph of more nodes than anybody could tell apart is drawn by layers: a bar for each, parted by what became of its
nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from pool.dag.graph import Edges, edges
from pool.dag.model import Dag
from pool.dag.show.past import NodePast, State, of_layers

NODES_MAX: Final = 300
COLOURS: Final[dict[State, str]] = {
    "done": "#b7e1b0",
    "failed": "#f4a6a0",
    "running": "#a9cdf0",
    "held": "#f6cf8e",
    "never": "#e3c5e8",
    "waiting": "#eeeeee",
}
_WIDE, _HIGH, _GAP_X, _GAP_Y, _EDGE = 120, 30, 20, 46, 20


def svg(dag: Dag, past: Sequence[NodePast], path: Sequence[int]) -> str:
    """The picture. `path` is the longest way."""
    ordered = of_layers(dag)
    small = len(dag.nodes) <= NODES_MAX
    most = max(map(len, ordered), default=1) if small else 5
    width = 2 * _EDGE + most * (_WIDE + _GAP_X) - _GAP_X
    height = 2 * _EDGE + len(ordered) * (_HIGH + _GAP_Y) + 24
    body = _nodes(dag, past, path, ordered, width) if small else _bars(past, ordered, width)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, *body, *_key(past, height - 14), "</svg>"]) + "\n"


def _nodes(
    dag: Dag, past: Sequence[NodePast], path: Sequence[int], ordered: Sequence[Sequence[int]], width: int
) -> Iterator[str]:
    places: dict[int, tuple[float, float]] = {}
    for deep, layer in enumerate(ordered):
        left = (width - len(layer) * (_WIDE + _GAP_X) + _GAP_X) / 2
        for at, node in enumerate(layer):
            places[node] = left + at * (_WIDE + _GAP_X), _EDGE + deep * (_HIGH + _GAP_Y)
    yield from _edges(edges(dag), places, set(pairwise(path)))
    bold = set(path)
    for node, (x, y) in places.items():
        name, what = dag.nodes[node].name, past[node]
        told = f"{name}: {what.state}" + (f", {what.why}" if what.why else "")
        stroke = 'stroke="#000" stroke-width="2"' if node in bold else 'stroke="#777"'
        yield f'<g><title>{escape(told)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{_WIDE}" height="{_HIGH}" rx="4"'
        yield f' fill="{COLOURS[what.state]}" {stroke}/>'
        short = name if len(name) <= 16 else name[:15] + "…"
        yield f'<text x="{x + _WIDE / 2:.0f}" y="{y + 19:.0f}" text-anchor="middle">{escape(short)}</text></g>'


def _edges(forward: Edges, places: dict[int, tuple[float, float]], bold: set[tuple[int, int]]) -> Iterator[str]:
    for parent, (x, y) in places.items():
        for child in forward[parent]:
            to_x, to_y = places[child]
            stroke = 'stroke="#000" stroke-width="2"' if (parent, child) in bold else 'stroke="#aaa"'
            ends = f'x1="{x + _WIDE / 2:.0f}" y1="{y + _HIGH:.0f}" x2="{to_x + _WIDE / 2:.0f}" y2="{to_y:.0f}"'
            yield f"<line {ends} {stroke}/>"


def _bars(past: Sequence[NodePast], ordered: Sequence[Sequence[int]], width: int) -> Iterator[str]:
    most = max(map(len, ordered), default=1)
    for deep, layer in enumerate(ordered):
        x, y = float(_EDGE), _EDGE + deep * (_HIGH + _GAP_Y)
        counts = Counter(past[node].state for node in layer)
        yield f'<text x="{x:.0f}" y="{y - 4:.0f}">layer {deep + 1}: {len(layer)} nodes</text>'
        for state, colour in COLOURS.items():
            wide = counts[state] / most * (width - 2 * _EDGE)
            if wide:
                yield f'<rect x="{x:.1f}" y="{y:.0f}" width="{wide:.1f}" height="{_HIGH}" fill="{colour}"/>'
            x += wide


def _key(past: Sequence[NodePast], y: float) -> Iterator[str]:
    """What the colours mean, of those that are there."""
    counts = Counter(one.state for one in past)
    x = _EDGE
    for state, colour in COLOURS.items():
        if counts[state]:
            yield f'<rect x="{x}" y="{y - 10:.0f}" width="12" height="12" fill="{colour}" stroke="#777"/>'
            yield f'<text x="{x + 16}" y="{y:.0f}">{counts[state]} {state}</text>'
            x += 90
