"""What an administrator sets for a time: when the lease is over, the value before it counts again.

Source: HTCondor manual, "condor_userprio" (-duration, -cancelceilinglease ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEASED: Final[Mapping[str, str]] = {"ceiling": "ceiling", "floor": "floor", "priorityfactor": "factor"}
"""Attributes, in lower case, that can be set for a time, with the account's fields."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One value that counts until a wall time, and what it was before."""

    attribute: str
    until: float
    before: float
