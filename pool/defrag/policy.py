"""The policy of defragmentation: what the DEFRAG_* knobs say.

Source: HTCondor's manual, "Defrag Daemon Configuration Options" and "Defragmenting Dynamic Slots".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pool.classad import Expr, expr
from pool.config import Config
from pool.slots.drain import HowFast

NEVER: Final = expr("false")


@dataclass(frozen=True)
class DefragPolicy:
    """Limits of -1 are none."""

    reason: str
    """What a drain of this daemon's says in DrainReason: its drains are known by it, also after a restart."""
    interval_s: float
    machines_per_hour: float
    draining_max: int
    whole_max: int
    whole: Expr
    requirements: Expr | None
    cancel: Expr
    rank: Expr | None
    schedule: HowFast
    start: Expr | None
    """START of a machine while it is drained; None: its own configuration decides."""

    @classmethod
    def read(cls, config: Config, name: str) -> DefragPolicy:
        """What the configuration says for the defragmenter of this name; ConfigError where that is no policy."""
        return cls(
            reason=f"Defrag {name}",
            interval_s=config.seconds("DEFRAG_INTERVAL"),
            machines_per_hour=config.float("DEFRAG_DRAINING_MACHINES_PER_HOUR"),
            draining_max=config.int("DEFRAG_MAX_CONCURRENT_DRAINING"),
            whole_max=config.int("DEFRAG_MAX_WHOLE_MACHINES"),
            whole=_or_never(config, "DEFRAG_WHOLE_MACHINE_EXPR"),
            requirements=config.expr("DEFRAG_REQUIREMENTS"),
            cancel=_or_never(config, "DEFRAG_CANCEL_REQUIREMENTS"),
            rank=config.expr("DEFRAG_RANK"),
            schedule=_schedule(config),
            start=config.expr("DEFRAG_DRAINING_START_EXPR"),
        )


def _or_never(config: Config, name: str) -> Expr:
    found = config.expr(name)
    return NEVER if found is None else found


def _schedule(config: Config) -> HowFast:
    text = config.str("DEFRAG_DRAINING_SCHEDULE")
    try:
        return HowFast[text.upper()]
    except KeyError:
        expected = ", ".join(one.name.lower() for one in HowFast)
        message = f'DEFRAG_DRAINING_SCHEDULE: "{text}" is no way to drain (there are {expected})'
        raise config.error("DEFRAG_DRAINING_SCHEDULE", message) from None
