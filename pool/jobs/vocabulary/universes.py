"""The universes of jobs: the values of JobUniverse, HTCondor's numbers, and the names people read.

Source: HTCondor manual, "Job ClassAd Attributes", JobUniverse; "Choosing an HTCondor Universe".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Universe(IntEnum):
    """JobUniverse. No queue here takes jobs of those that are not in SUPPORTED."""

    STANDARD = 1
    PIPE = 2
    LINDA = 3
    PVM = 4
    VANILLA = 5
    PVMD = 6
    SCHEDULER = 7
    MPI = 8
    GRID = 9
    JAVA = 10
    PARALLEL = 11
    LOCAL = 12
    VM = 13
    CONTAINER = 14
    """What some submitters call a vanilla job in a container; no job in a queue has it."""


_CAPITALS: Final = frozenset({Universe.PVM, Universe.PVMD, Universe.MPI, Universe.VM})
UNIVERSES: Final[Mapping[int, str]] = {
    one.value: one.name if one in _CAPITALS else one.name.capitalize()
    for one in Universe
    if one is not Universe.CONTAINER
}
"""Each universe's name as people read it."""
AT_ACCESS_POINT: Final = frozenset({Universe.SCHEDULER, Universe.LOCAL})
"""Universes whose jobs run where they were submitted, without a slot."""
SUPPORTED: Final = AT_ACCESS_POINT | {Universe.VANILLA, Universe.JAVA, Universe.PARALLEL, Universe.VM}
"""Universes of jobs that a queue takes."""
