"""Conformance cases: what HTCondor 25.14 answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from pool.classad import ClassAd, Expr, parse_ad
from pool.classad.syntax.nodes import AdNode, Lit
from pool.classad.syntax.unparse import unparse

CASES = Path(__file__).parents[2] / "cases"


def load(path: str) -> list[dict[str, Any]]:
    """The cases of a file of JSON lines."""
    return [json.loads(line) for line in (CASES / path).read_text().splitlines()]


def ad(text: str | None) -> ClassAd | None:
    """An ad in the new form, or None."""
    return None if text is None else parse_ad(text)


def ordered(node: Any) -> Any:
    """A node with the attributes of its ads in order."""
    if isinstance(node, AdNode):
        return AdNode(tuple(sorted(((name, ordered(inner)) for name, inner in node.items), key=lambda p: p[0].lower())))
    if isinstance(node, tuple):
        return tuple(ordered(one) for one in node)
    if hasattr(node, "__match_args__") and not isinstance(node, Lit):
        return type(node)(*(ordered(getattr(node, part)) for part in node.__match_args__))
    return node


def alike(a: object, b: object) -> bool:
    """Whether two values are the same, the last digits of reals and the order of attributes left aside."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        return isinstance(a, Expr) and isinstance(b, Expr) and unparse(ordered(a.node)) == unparse(ordered(b.node))
    if isinstance(a, bool) or isinstance(b, bool) or type(a) is not type(b):
        return type(a) is type(b) and a == b
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-14) or (math.isnan(a) and math.isnan(b)) or a == b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, ClassAd) and isinstance(b, ClassAd):
        return {n.lower() for n in a} == {n.lower() for n in b} and all(alike(a[n], b[n]) for n in a)
    return a == b
