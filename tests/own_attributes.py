"""The mark of attributes that no pool puts into an ad by itself: a test that sets one says so."""

from __future__ import annotations


def own(**attributes: object) -> dict[str, object]:
    """What a user puts into a job (`+Name = value`), or an owner into his machine's ad (STARTD_ATTRS)."""
    return attributes
