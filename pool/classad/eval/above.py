"""What evaluation asks of modules that are built on it, so that none of them imports another in a circle.

Ads and expressions know how they are evaluated, and evaluation makes ads of expressions: whoever can do it says so here
when it is imported. What is seldom asked for, `pool.classad` imports at the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pool.classad.eval.ad import ClassAd
    from pool.classad.eval.frame import Frame
    from pool.classad.syntax.nodes import AdNode, Node
    from pool.classad.values.attrs import Attrs


class Above:
    """One of each; set once."""

    __slots__ = ("ad_class", "attrs_of", "enter_builtins", "evaluate", "surround")

    ad_class: type[ClassAd]
    """`ClassAd`, from `ad`."""
    attrs_of: Callable[[AdNode], Attrs]
    """The table of an ad that an expression contains, from `expression`."""
    evaluate: Callable[[Node, Frame], Any]
    """The value of a node, from `evaluate`."""
    surround: Callable[[Frame, Frame], Frame]
    """The match ad around two ads, from `surroundings`."""
    enter_builtins: Callable[[], None]
    """Enters the functions of the language into the table, from `pool.classad.builtins`."""


ABOVE: Final = Above()
