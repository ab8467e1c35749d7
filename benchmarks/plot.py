"""Draws what figures of different sizes cost: `python -m benchmarks.plot RESULT.json PICTURE.svg`.

RESULT.json is what `python -m benchmarks scale` printed. A figure whose name ends in `, N slots` is a point of the line
that its name says; both axes are logarithmic.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Final

from pool.simulate.picture import text

WIDTH: Final = 800
HEIGHT: Final = 420
LEFT: Final = 70
PLOT_WIDTH: Final = 420
BOTTOM: Final = HEIGHT - 50
TOP: Final = 40
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
SHOWN: Final = {
    "new ad": "a new ad, us",
    "whole update": "a whole update, us",
    "change": "a change, us",
    "memory an ad": "memory of an ad, bytes",
    "condor_status": "condor_status, ms",
    "cycle, all suit": "a cycle, ms",
}
"""Which figures are drawn, and what is written beside their lines."""
_UNITS: Final = {"s": 1e3, "s of CPU": 1e3}
_NAMED: Final = re.compile(r"(.*), (\d+) slots")

Line = Sequence[tuple[int, float]]


def lines_of(result: Mapping[str, object]) -> dict[str, Line]:
    """The points of each line, by size."""
    points: dict[str, list[tuple[int, float]]] = {}
    figures = result["figures"]
    assert isinstance(figures, list)
    for figure in figures:
        found = _NAMED.fullmatch(figure["name"])
        if found is not None and found[1] in SHOWN:
            value = figure["value"] * _UNITS.get(figure["unit"], 1)
            points.setdefault(SHOWN[found[1]], []).append((int(found[2]), value))
    return {name: sorted(line) for name, line in points.items()}


def svg(lines: Mapping[str, Line]) -> str:
    """The picture."""
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, *_drawn(lines), "</svg>"]) + "\n"


def _drawn(lines: Mapping[str, Line]) -> Iterator[str]:
    sizes = [size for line in lines.values() for size, _ in line]
    values = [max(value, 0.1) for line in lines.values() for _, value in line]
    left, right = _decades(sizes)
    low, high = _decades(values)

    def x(size: float) -> float:
        return LEFT + (log10(size) - left) / (right - left) * PLOT_WIDTH

    def y(value: float) -> float:
        return BOTTOM - (log10(max(value, 0.1)) - low) / (high - low) * (BOTTOM - TOP)

    yield text(10, 20, "What slots cost the central manager, by the size of the pool")
    for power in range(low, high + 1):
        at = y(10.0**power)
        yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{LEFT + PLOT_WIDTH}" y2="{at:.1f}" stroke="#ccc"/>'
        yield text(10, at + 4, f"{10.0**power:,g}")
    for power in range(left, right + 1):
        yield text(x(10.0**power) - 20, BOTTOM + 18, f"{10**power:,}")
    yield text(LEFT + PLOT_WIDTH / 2 - 20, BOTTOM + 38, "slots")
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in line)
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'
        yield from (f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for s, v in line)
        yield text(LEFT + PLOT_WIDTH + 20, TOP + 24 * number, f"{name}: {line[-1][1]:,.3g}", colour)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around these."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def main(words: Sequence[str]) -> int:
    if len(words) != 2:
        print("usage: python -m benchmarks.plot RESULT.json PICTURE.svg", file=sys.stderr)
        return 2
    Path(words[1]).write_text(svg(lines_of(json.loads(Path(words[0]).read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
