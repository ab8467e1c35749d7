"""What the configuration says of a cycle and of the accountant, for a negotiator and for one that is simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pool.accounting import Factors
from pool.accounting.accounts import counts_as_one, weight_by, weight_of
from pool.accounting.configured import read_groups, read_limits, read_quotas
from pool.accounting.groups import GroupTree
from pool.classad import ClassAd, expr
from pool.config import Config
from pool.matching.candidates import RankOrder
from pool.matching.preempt import PreemptionPolicy
from pool.matching.reads import read_of_jobs
from pool.matching.rounding import rounding
from pool.matching.snapshot import CycleSettings, TimeLimits

ANY: Final = expr("true")
"""PREEMPTION_REQUIREMENTS that are there and empty require nothing, as in HTCondor."""


def cycle_settings(config: Config) -> CycleSettings:
    """How a cycle goes. ConfigError when a knob has no such value."""
    return CycleSettings(
        _order(config),
        rounding(config),
        read_groups(config),
        read_quotas(config),
        read_limits(config).capacity,
        _weight(config),
        config.bool("USE_GLOBAL_JOB_PRIOS"),
        _times(config),
    )


def factors(config: Config, groups: GroupTree) -> Factors:
    """Which priority factor a submitter begins with."""
    return Factors(
        default=config.float("DEFAULT_PRIO_FACTOR"),
        nice=config.float("NICE_USER_PRIO_FACTOR"),
        remote=config.float("REMOTE_PRIO_FACTOR"),
        local_domain=config.str("ACCOUNTANT_LOCAL_DOMAIN"),
        groups=groups,
    )


def names_read_of_jobs(config: Config, order: RankOrder) -> set[str]:
    """What the negotiator's expressions read of jobs."""
    policy = order.preemption
    of_slots = (order.pre, order.post, policy.requirements, policy.rank)
    return read_of_jobs(of_slots, config.expr("NEGOTIATOR_JOB_CONSTRAINT"))


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
