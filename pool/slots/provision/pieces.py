"""Which pieces of a custom resource a slot or a job gets: GPUs above all.

A job may say which it wants: `require_gpus` becomes RequireGPUs, an expression that is evaluated for each piece with
the piece's properties at hand, as countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) does when matching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pool.classad import ClassAd, Expr, expr
from pool.classad.values.truth import is_true

_SUITS: Final = expr("countMatches(MY.RequiredPieces, { TARGET.OnePiece }) > 0")


def answers(which: Expr, piece: ClassAd) -> bool:
    """Whether a slot type's constraint means this piece: a string is its id, all else is asked of its properties."""
    value = which.eval(piece)
    if isinstance(value, str):
        return value == piece.eval_str("Id")
    return is_true(value)


def suits(job: ClassAd, required: object, piece: ClassAd) -> bool:
    """Whether the job's Require<name> is true for this piece."""
    # As its own attribute of an ad below the job: the expression then reads MY as the job, as countMatches has it.
    asker = ClassAd({"RequiredPieces": required}, parent=job)
    return _SUITS.eval(asker, ClassAd({"OnePiece": piece})) is True


def take_distinct(ids: Sequence[str], count: int) -> tuple[str, ...]:
    """The first `count` of the ids; one that is there twice is taken twice only when there are no others."""
    first = list(dict.fromkeys(ids))
    if count > len(first):
        first += without(ids, first)
    return tuple(first[:count])


def without(ids: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """The ids that are left; of one that is there twice only as many are gone as were taken."""
    left = list(ids)
    for one in taken:
        left.remove(one)
    return tuple(left)


def choose(
    name: str, ids: Sequence[str], count: int, job: ClassAd | None, properties: Mapping[str, ClassAd]
) -> tuple[str, ...] | None:
    """The pieces for a job that wants `count` of them; None when too few suit it."""
    required = job.get(f"Require{name}") if job is not None else None
    if job is not None and required is not None:
        known = {one: suits(job, required, properties.get(one) or ClassAd({"Id": one})) for one in set(ids)}
        ids = [one for one in ids if known[one]]
    return take_distinct(ids, count) if count <= len(ids) else None
