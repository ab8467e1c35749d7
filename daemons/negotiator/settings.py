"""The negotiator's knobs, read together at its start and at each reconfiguration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from daemons.daemon_core.rounding import rounding
from daemons.negotiator.bounds import read_groups, read_limits, read_quotas
from pool.accounting import Factors
from pool.accounting.accounts import counts_as_one, weight_by, weight_of
from pool.classad import ClassAd, Expr, expr
from pool.config import Config
from pool.jobs.match_exprs import attribute_of
from pool.matching import CycleSettings, PreemptionPolicy, RankOrder
from pool.matching.reads import read_of_jobs
from pool.matching.snapshot import TimeLimits

ANY: Final = expr("true")
"""PREEMPTION_REQUIREMENTS that are there and empty require nothing, as in HTCondor."""


@dataclass(frozen=True, slots=True)
class NegotiatorKnobs:
    """Times in seconds."""

    interval_s: float
    min_interval_s: float
    delay_s: float
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
    reads: frozenset[str]
    """What the negotiator's expressions read of jobs."""
    match_exprs: dict[str, str]
    """By attribute, as NEGOTIATOR_MATCH_EXPRS says."""
    inform_startds: bool
    update_after_cycle: bool
    cycles_shown: int

    @classmethod
    def read(cls, config: Config) -> NegotiatorKnobs:
        """What the configuration says."""
        groups, limits, order = read_groups(config), read_limits(config), _order(config)
        return cls(
            interval_s=max(0.1, config.seconds("NEGOTIATOR_INTERVAL")),
            # Never zero: cycles would follow one another without letting go of the loop.
            min_interval_s=max(0.001, config.seconds("NEGOTIATOR_MIN_INTERVAL")),
            delay_s=config.seconds("NEGOTIATOR_CYCLE_DELAY"),
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
                order,
                rounding(config),
                groups,
                read_quotas(config),
                limits.capacity,
                _weight(config),
                config.bool("USE_GLOBAL_JOB_PRIOS"),
                _times(config),
            ),
            has_limits=limits.limits_anything(),
            pool_size=config.expr("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT"),
            discounts_suspended=config.bool("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES"),
            ignore_priorities=config.bool("NEGOTIATOR_IGNORE_USER_PRIORITIES"),
            reads=frozenset(_reads(config, order)),
            match_exprs=_match_exprs(config),
            inform_startds=config.bool("NEGOTIATOR_INFORM_STARTD"),
            update_after_cycle=config.bool("NEGOTIATOR_UPDATE_AFTER_CYCLE"),
            cycles_shown=config.int("NEGOTIATION_CYCLE_STATS_LENGTH"),
        )


def _times(config: Config) -> TimeLimits:
    return TimeLimits(
        config.seconds("NEGOTIATOR_MAX_TIME_PER_CYCLE"),
        config.seconds("NEGOTIATOR_MAX_TIME_PER_SUBMITTER"),
        config.seconds("NEGOTIATOR_MAX_TIME_PER_SCHEDD"),
        config.seconds("NEGOTIATOR_MAX_TIME_PER_PIESPIN"),
    )


def _weight(config: Config) -> Callable[[ClassAd], float]:
    if not config.bool("NEGOTIATOR_USE_SLOT_WEIGHTS"):
        return counts_as_one
    own = config.expr("SLOT_WEIGHT") if config.bool("FORCE_NEGOTIATOR_SLOT_WEIGHT") else None
    return weight_of if own is None else weight_by(own)


def _reads(config: Config, order: RankOrder) -> set[str]:
    policy = order.preemption
    of_slots = (order.pre, order.post, policy.requirements, policy.rank)
    return read_of_jobs(of_slots, config.expr("NEGOTIATOR_JOB_CONSTRAINT"))


def _match_exprs(config: Config) -> dict[str, str]:
    """ConfigError when one of them is no expression; a name that nothing is said of is left out."""
    named = [name for name in config.list("NEGOTIATOR_MATCH_EXPRS") if config[name]]
    return {attribute_of(name): str(config.expr(name)) for name in named}


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
