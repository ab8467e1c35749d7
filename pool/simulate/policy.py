"""The policy under which a workload is tried: what a negotiator, an accountant and a schedd read of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from pool.accounting import Factors
from pool.config import Config
from pool.matching import CycleSettings
from pool.matching.configured import cycle_settings, factors, names_read_of_jobs


@dataclass(frozen=True, slots=True)
class Policy:
    """`pause_s` is the shortest time between cycles, `worklife_s` how long claims take jobs (below 0: for ever)."""

    cycle: CycleSettings
    factors: Factors
    halflife_s: float
    pause_s: float
    worklife_s: float
    ignores_priorities: bool
    reads: frozenset[str]

    @classmethod
    def read(cls, config: Config) -> Policy:
        """What the configuration says. ConfigError when a knob has no such value."""
        # The same readers as the negotiator's own: a knob means here what it means there.
        cycle = cycle_settings(config)
        return cls(
            cycle,
            factors(config, cycle.groups),
            config.float("PRIORITY_HALFLIFE"),
            max(config.seconds("NEGOTIATOR_MIN_INTERVAL"), config.seconds("NEGOTIATOR_CYCLE_DELAY")),
            float(config.int("CLAIM_WORKLIFE")),
            config.bool("NEGOTIATOR_IGNORE_USER_PRIORITIES"),
            frozenset(names_read_of_jobs(config, cycle.order)),
        )
