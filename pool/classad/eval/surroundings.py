"""The match ad that HTCondor puts around the two ads of a match. Rarely looked at, but visible to expressions."""

from __future__ import annotations

from pool.classad.eval.expression import expr
from pool.classad.eval.frame import Frame
from pool.classad.values.attrs import Attrs

_MATCH = {
    "symmetricMatch": "RIGHT.requirements && LEFT.requirements",
    "leftMatchesRight": "RIGHT.requirements",
    "rightMatchesLeft": "LEFT.requirements",
    "leftRankValue": "LEFT.rank",
    "rightRankValue": "RIGHT.rank",
}
_LEFT = {"other": ".RIGHT", "target": ".RIGHT", "my": ".LEFT", "ad": ".LEFT"}
_RIGHT = {"other": ".LEFT", "target": ".LEFT", "my": ".RIGHT", "ad": ".RIGHT"}


def surround(left: Frame, right: Frame) -> Frame:
    """The frame of a match ad around two ads."""
    root = Frame(_attrs(_MATCH), None, left.budget)
    members = {
        "lCtx": Frame(_attrs(_LEFT), root, left.budget),
        "rCtx": Frame(_attrs(_RIGHT), root, left.budget),
        "LEFT": left,
        "RIGHT": right,
    }
    for name, member in members.items():
        root.attrs.spell(name.lower(), name)
        root.attrs[name.lower()] = member
    return root


def _attrs(texts: dict[str, str]) -> Attrs:
    attrs = Attrs()
    for name, text in texts.items():
        attrs.spell(name.lower(), name)
        attrs[name.lower()] = expr(text)
    return attrs
