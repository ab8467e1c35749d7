"""What the negotiator puts into the ads of jobs that it has matched: NEGOTIATOR_MATCH_EXPRS, and whose turn that was.

It goes with the match to the schedd, is kept with the slot's ad, and stands in each job that runs in the slot: so a
startd that serves several pools can tell by whose word a job comes, and the slot's ad says under which accounting group
its holder was given it.

Source: HTCondor manual, "Configuration Macros" (NEGOTIATOR_MATCH_EXPRS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd, Member, expr
from pool.classad.syntax.unparse import quote

PREFIX: Final = "NegotiatorMatchExpr"
TURN: Final = ("RemoteNegotiatingGroup", "RemoteAutoregroup")
_TURN: Final = frozenset(name.lower() for name in TURN)


def attribute_of(knob: str) -> str:
    """The attribute for a knob that NEGOTIATOR_MATCH_EXPRS names."""
    return knob if knob.lower().startswith(PREFIX.lower()) else f"{PREFIX}{knob}"


def read_exprs(texts: Mapping[str, str]) -> dict[str, Member]:
    """Such attributes as they came with a match, less what is none: a negotiator may say nothing else of a job."""
    read: dict[str, Member] = {}
    for name, text in texts.items():
        if _is_one(name):
            try:
                read[name] = expr(text)
            except UserError:
                continue
    return read


def exprs_of(slot: ClassAd) -> dict[str, Member]:
    """The same, of the ad of a slot with which they were kept."""
    return {name: value for name, value in slot.items() if _is_one(name)}


def _is_one(name: str) -> bool:
    return name.lower().startswith(PREFIX.lower()) or name.lower() in _TURN


def of_turn(group: str, *, regrouped: bool) -> dict[str, str]:
    """What is said of a match that was made in a group's turn: the submitter's own, or with those of no group."""
    if not group:
        return {}
    return dict(zip(TURN, (quote(group), "true" if regrouped else "false"), strict=True))


def with_exprs(job: ClassAd, exprs: Mapping[str, Member]) -> ClassAd:
    """The job's own ad with them."""
    job.update(exprs)
    return job
