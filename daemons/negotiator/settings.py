"""The negotiator's knobs, read together at its start and at each reconfiguration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daemons.daemon_core.rounding import rounding
from daemons.negotiator.bounds import read_groups, read_limits, read_quotas
from pool.accounting import Factors
from pool.accounting.accounts import counts_as_one, weight_of
from pool.classad import Expr, expr
from pool.config import Config
from pool.matching import CycleSettings, PreemptionPolicy, RankOrder

ANY: Final = expr("true")
"""PREEMPTION_REQUIREMENTS that are there and empty require nothing, as in HTCondor."""


@dataclass(frozen=True, slots=True)
class NegotiatorKnobs:
    """Times in seconds."""

    interval_s: float
    min_interval_s: float
    timeout_s: float
    match_timeout_s: float
    update_interval_s: float
    halflife_s: float
    factors: Factors
    cycle: CycleSettings
    has_limits: bool
    """Whether any concurrency limit is configured."""
    pool_size: Expr | None
    """Which slots count for the size of the pool."""
    discounts_suspended: bool
    ignore_priorities: bool
    inform_startds: bool
    update_after_cycle: bool
    cycles_shown: int

    @classmethod
    def read(cls, config: Config) -> NegotiatorKnobs:
        """What the configuration says."""
        groups, limits = read_groups(config), read_limits(config)
        return cls(
            interval_s=max(0.1, config.seconds("NEGOTIATOR_INTERVAL")),
            # Never zero: cycles would follow one another without letting go of the loop.
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
                groups=groups,
            ),
            cycle=CycleSettings(
                _order(config),
                rounding(config),
                groups,
                read_quotas(config),
                limits.capacity,
                weight_of if config.bool("NEGOTIATOR_USE_SLOT_WEIGHTS") else counts_as_one,
                config.bool("USE_GLOBAL_JOB_PRIOS"),
            ),
            has_limits=limits.limits_anything(),
            pool_size=config.expr("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT"),
            discounts_suspended=config.bool("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES"),
            ignore_priorities=config.bool("NEGOTIATOR_IGNORE_USER_PRIORITIES"),
            inform_startds=config.bool("NEGOTIATOR_INFORM_STARTD"),
            update_after_cycle=config.bool("NEGOTIATOR_UPDATE_AFTER_CYCLE"),
            cycles_shown=config.int("NEGOTIATION_CYCLE_STATS_LENGTH"),
        )


def _order(config: Config) -> RankOrder:
    requirements = config.expr("PREEMPTION_REQUIREMENTS")
    return RankOrder(
        pre=config.expr("NEGOTIATOR_PRE_JOB_RANK"),
        post=config.expr("NEGOTIATOR_POST_JOB_RANK"),
        preemption=PreemptionPolicy(
            consider=config.bool("NEGOTIATOR_CONSIDER_PREEMPTION"),
            early=config.bool("NEGOTIATOR_CONSIDER_EARLY_PREEMPTION"),
            requirements=ANY if requirements is None else requirements,
            rank=config.expr("PREEMPTION_RANK"),
            stable=config.bool("PREEMPTION_REQUIREMENTS_STABLE") and config.bool("PREEMPTION_RANK_STABLE"),
            together=config.bool("ALLOW_PSLOT_PREEMPTION"),
        ),
        depth_first=config.bool("NEGOTIATOR_DEPTH_FIRST"),
    )


def own_name(config: Config) -> str:
    """What the negotiator calls itself."""
    return config.str("NEGOTIATOR_NAME") or config.str("FULL_HOSTNAME")
