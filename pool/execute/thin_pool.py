"""A thin pool promises its space many times over: when it is too full for more jobs, and when for those that run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pool.base.errors import ConfigError

REFUSE_PERCENT: Final = 95.0
"""No more jobs come then."""
FULL_PERCENT: Final = 99.5
"""What jobs write is about to be lost then."""


@dataclass(frozen=True)
class PoolUse:
    """How full a pool is: what jobs have written, and what it knows of that."""

    data: float
    metadata: float

    def trouble(self, name: str, percent: float) -> str:
        """That the pool is as full as that, in words; empty while it is not."""
        if max(self.data, self.metadata) < percent:
            return ""
        return f"the thin pool {name} is full (data {self.data:.1f} %, metadata {self.metadata:.1f} %)"


def read_use(printed: str) -> PoolUse:
    """What `lvs -o data_percent,metadata_percent` printed, with `|` between."""
    try:
        data, metadata = (float(field) for field in printed.strip().split("|"))
    except ValueError:
        raise ConfigError(f"lvs says of a thin pool {printed.strip()[:80]!r}") from None
    return PoolUse(data, metadata)
