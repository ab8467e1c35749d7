"""The place of an ad among others: its type and its name, compared without case."""

from __future__ import annotations

Key = tuple[str, str]


def key_of(ad_type: str, name: str) -> Key:
    """Where an ad of this type and name is; it replaces the one that is there."""
    return ad_type.lower(), name.lower()
