"""Do two ads want each other, and how much."""

from __future__ import annotations

from pool.classad.eval.ad import ClassAd
from pool.classad.eval.expression import Expr
from pool.classad.values.attrs import MISSING
from pool.classad.values.value import RelTime


def accepts(ad: ClassAd, other: ClassAd) -> bool:
    """Whether the Requirements of `ad` hold against `other`.

    A number other than zero counts, and a span of time that is not nothing; absence does not.
    """
    # The short way for what nearly all ads have, an expression; this is the innermost loop of a negotiation.
    stored = ad.attrs["requirements"]
    if stored.__class__ is Expr:
        stored = stored.value(ad.attrs, other.attrs)
    elif stored is MISSING or type(stored) not in (bool, int, float):
        stored = ad.eval("Requirements", other)
    if type(stored) is RelTime:
        return stored.secs != 0
    return stored is True or (type(stored) in (int, float) and stored != 0)


def is_match(job: ClassAd, machine: ClassAd) -> bool:
    """Whether each ad's Requirements hold against the other."""
    return accepts(job, machine) and accepts(machine, job)


def rank(ad: ClassAd, other: ClassAd) -> float:
    """The Rank that `ad` gives to `other`; 0.0 for anything that is no number."""
    value = ad.eval("Rank", other)
    return float(value) if type(value) in (int, float, bool) else 0.0  # type: ignore[arg-type]
