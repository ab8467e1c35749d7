"""The negotiator's knobs, read together at its start and at each reconfiguration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pool.config import Config
from pool.matching import Factors, Order, PreemptionPolicy, Settings
from pool.slots.carve import Rounding

_ROUNDED: Final = ("Cpus", "Memory", "Disk")


@dataclass(frozen=True, slots=True)
class Knobs:
    """Times in seconds."""

    interval_s: float
    min_interval_s: float
    timeout_s: float
    match_timeout_s: float
    update_interval_s: float
    halflife_s: float
    factors: Factors
    cycle: Settings
    ignore_priorities: bool
    inform_startds: bool

    @classmethod
    def read(cls, config: Config) -> Knobs:
        """What the configuration says."""
        return cls(
            interval_s=max(0.1, config.seconds("NEGOTIATOR_INTERVAL")),
            min_interval_s=max(0.001, config.seconds("NEGOTIATOR_MIN_INTERVAL")),
            timeout_s=config.seconds("NEGOTIATOR_TIMEOUT"),
            match_timeout_s=config.seconds("MATCH_TIMEOUT"),
            update_interval_s=config.seconds("NEGOTIATOR_UPDATE_INTERVAL"),
            halflife_s=config.float("PRIORITY_HALFLIFE"),
            factors=Factors(
                default=config.float("DEFAULT_PRIO_FACTOR"),
                nice=config.float("NICE_USER_PRIO_FACTOR"),
                remote=config.float("REMOTE_PRIO_FACTOR"),
                local_domain=config.str("ACCOUNTANT_LOCAL_DOMAIN"),
            ),
            cycle=Settings(_order(config), _rounding(config)),
            ignore_priorities=config.bool("NEGOTIATOR_IGNORE_USER_PRIORITIES"),
            inform_startds=config.bool("NEGOTIATOR_INFORM_STARTD"),
        )


def _order(config: Config) -> Order:
    return Order(
        pre=config.expr("NEGOTIATOR_PRE_JOB_RANK"),
        post=config.expr("NEGOTIATOR_POST_JOB_RANK"),
        preemption=PreemptionPolicy(
            consider=config.bool("NEGOTIATOR_CONSIDER_PREEMPTION"),
            early=config.bool("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION"),
            requirements=config.expr("PREEMPTION_REQUIREMENTS"),
            rank=config.expr("PREEMPTION_RANK"),
            together=config.bool("ALLOW_PSLOT_PREEMPTION"),
        ),
    )


def _rounding(config: Config) -> Rounding:
    """How startds round requests, as far as this host's configuration is theirs too."""
    rules = {name: config.expr(f"MODIFY_REQUEST_EXPR_REQUEST{name.upper()}") for name in _ROUNDED}
    known = {name: rule for name, rule in rules.items() if rule is not None}
    return Rounding(known, must=config.bool("MUST_MODIFY_REQUEST_EXPRS"))
