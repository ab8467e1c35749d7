"""What the negotiator puts into the ads of jobs that it has matched (NEGOTIATOR_MATCH_EXPRS).

It goes with the match to the schedd, is kept with the slot's ad, and stands in each job that runs in the slot: so a
startd that serves several pools can tell by whose word a job comes.

Source: HTCondor manual, "Configuration Macros" (NEGOTIATOR_MATCH_EXPRS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd, Member, expr

PREFIX: Final = "NegotiatorMatchExpr"


def attribute_of(knob: str) -> str:
    """The attribute for a knob that NEGOTIATOR_MATCH_EXPRS names."""
    return knob if knob.lower().startswith(PREFIX.lower()) else f"{PREFIX}{knob}"


def read_exprs(texts: Mapping[str, str]) -> dict[str, Member]:
    """Such attributes as they came with a match, less what is none: a negotiator may say nothing else of a job."""
    read: dict[str, Member] = {}
    for name, text in texts.items():
        if name.lower().startswith(PREFIX.lower()):
            try:
                read[name] = expr(text)
            except UserError:
                continue
    return read


def exprs_of(slot: ClassAd) -> dict[str, Member]:
    """The same, of the ad of a slot with which they were kept."""
    return {name: value for name, value in slot.items() if name.lower().startswith(PREFIX.lower())}


def with_exprs(job: ClassAd, exprs: Mapping[str, Member]) -> ClassAd:
    """The job's own ad with them."""
    job.update(exprs)
    return job
