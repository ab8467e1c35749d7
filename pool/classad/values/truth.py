"""What a value means where a policy or a constraint is asked: true, or any number but zero, counts as true.

The language itself is stricter about texts and undefined values: see `pool.classad.eval.operators.truth`.
"""

from __future__ import annotations


def truth_of(value: object) -> bool | None:
    """True or false; None for what is neither (undefined, error, texts, lists, ads)."""
    return bool(value) if isinstance(value, bool | int | float) else None


def is_true(value: object) -> bool:
    """Whether it is true, or a number that is not zero."""
    return isinstance(value, bool | int | float) and bool(value)
