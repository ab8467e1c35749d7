"""Outcomes as a picture: use of the pool over time, and each submitter's waits, one policy beside the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from pool.simulate.figures import Figures

WIDTH, HEIGHT, LEFT, ROW = 800, 220, 60, 18
COLOURS = ("#1f77b4", "#d62728")


def svg(outcomes: Sequence[tuple[str, Figures]]) -> str:
    """The picture of one policy or two, with their names."""
    names = sorted({user.submitter for _, figures in outcomes for user in figures.users})
    height = HEIGHT + 110 + len(names) * (ROW * len(outcomes) + 8)
    size = f'width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, *_use(outcomes), *_waits(outcomes, names), "</svg>"]) + "\n"


def text(x: float, y: float, said: str, colour: str = "#000") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{escape(said)}</text>'


def _use(outcomes: Sequence[tuple[str, Figures]]) -> Iterator[str]:
    longest = max((figures.took_s for _, figures in outcomes), default=0.0) or 1.0
    yield text(LEFT, 16, "Part of the pool in use")
    for part in (0.0, 0.5, 1.0):
        y = HEIGHT - part * (HEIGHT - 40)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="#ccc"/>'
        yield text(10, y + 4, f"{part:.0%}")
    yield text(WIDTH - 120, HEIGHT + 16, f"{longest / 3600:.1f} hours")
    for number, (name, figures) in enumerate(outcomes):
        colour, wide = COLOURS[number], (WIDTH - 20 - LEFT) * figures.took_s / longest
        count = len(figures.over_time)
        points = " ".join(
            f"{LEFT + wide * (at + 0.5) / count:.1f},{HEIGHT - used * (HEIGHT - 40):.1f}"
            for at, used in enumerate(figures.over_time)
        )
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'
        yield text(LEFT, HEIGHT + 34 + number * 16, f"{name}: {figures.utilisation:.1%} in use", colour)


def _waits(outcomes: Sequence[tuple[str, Figures]], names: Sequence[str]) -> Iterator[str]:
    most = max((user.waits.mean for _, figures in outcomes for user in figures.users), default=0.0) or 1.0
    y = HEIGHT + 90.0
    yield text(LEFT, y, "Mean wait of each submitter")
    for submitter in names:
        y += 8
        for number, (_, figures) in enumerate(outcomes):
            y += ROW
            mean = next((user.waits.mean for user in figures.users if user.submitter == submitter), 0.0)
            wide = mean / most * 320
            yield f'<rect x="300" y="{y - 12:.1f}" width="{wide:.1f}" height="14" fill="{COLOURS[number]}"/>'
            yield text(306 + wide, y, f"{mean:.0f} s")
            if number == 0:
                yield text(10, y, submitter)
