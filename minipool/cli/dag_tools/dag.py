"""`pool dag`: looks at graphs of jobs; its first word says how."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from minipool.cli.dag_tools import show, watch

VERBS: Final[dict[str, tuple[Callable[[str, Sequence[str]], int], str]]] = {
    "show": (show.main, show.TOOL.summary),
    "watch": (watch.main, watch.TOOL.summary),
}
"""What `pool dag` can do."""
TOOLS: Final = (show.TOOL, watch.TOOL)


def main(verb: str, argv: Sequence[str]) -> int:
    """Run `pool dag VERB`."""
    if argv and argv[0] in VERBS:
        return VERBS[argv[0]][0](verb, argv[1:])
    asked = not argv or argv[0] in ("-help", "--help", "-h")
    lines = ["Usage: pool dag VERB ...", "", *(f"    {name:<10}  {says}" for name, (_, says) in VERBS.items())]
    if not asked:
        lines.insert(0, f"pool dag: {argv[0]} is not one of its verbs")
    (sys.stdout if asked else sys.stderr).write("\n".join(lines) + "\n")
    return 0 if asked else 1
