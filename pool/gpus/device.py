"""One GPU, or one part (MIG instance) of a GPU, and what is known of it under HTCondor's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

Fact = str | int | float | bool
Say = Callable[[str], object]
"""Takes what a look at the hardware came upon, for whoever wants to follow it."""

MIB: Final = 1024 * 1024

CORES_PER_UNIT: Final = {
    "1.0": 8, "1.1": 8, "1.2": 8, "1.3": 8, "2.0": 32, "2.1": 48, "3.0": 192, "3.2": 192, "3.5": 192, "3.7": 192,
    "5.0": 128, "5.2": 128, "5.3": 128, "6.0": 64, "6.1": 128, "6.2": 128, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64,
}  # fmt: skip
"""Cores of a compute unit by CUDA's compute capability; later ones have 128."""


class Megahertz(float):
    """A clock rate; it is written with two decimals."""


@dataclass(frozen=True)
class Device:
    """A device: its index, its UUID (empty: it has none), and three tables of facts.

    `properties` are good for matching, `extra` is shown on demand, and `dynamic` changes while the device works.
    """

    index: int
    uuid: str
    properties: Mapping[str, Fact]
    extra: Mapping[str, Fact] = field(default_factory=dict)
    dynamic: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def is_part(self) -> bool:
        """Whether it is an instance of a GPU that was divided; such have no index and no short name."""
        return self.uuid.startswith("MIG-")

    def ident(self, style: str, prefix: str) -> str:
        """The id under which slots and jobs know it; `style` is short, uuid or index."""
        # A part has its UUID alone: several share an index, and a short name would be the same for some.
        if self.is_part:
            return self.uuid
        if style == "index" or not self.uuid:
            return f"{prefix}{self.index}"
        # Eight digits tell the devices of a machine apart, and are what HTCondor's slots show.
        return f"GPU-{self.uuid}" if style == "uuid" else f"GPU-{self.uuid[:8]}"


def cores_per_unit(capability: str) -> int:
    """How many cores a compute unit of this capability has."""
    return CORES_PER_UNIT.get(capability, 128)
