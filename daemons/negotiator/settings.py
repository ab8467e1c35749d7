"""The negotiator's knobs, read together at its start and at each reconfiguration."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pool.accounting import Factors
from pool.accounting.configured import read_limits
from pool.classad import Expr
from pool.config import Config
from pool.hosts.daemon_names import daemon_name
from pool.jobs.match_exprs import attribute_of
from pool.matching import CycleSettings
from pool.matching.configured import cycle_settings, factors, names_read_of_jobs


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
        cycle = cycle_settings(config)
        return cls(
            interval_s=max(0.1, config.seconds("NEGOTIATOR_INTERVAL")),
            # Never zero: cycles would follow one another without letting go of the loop.
            min_interval_s=max(0.001, config.seconds("NEGOTIATOR_MIN_INTERVAL")),
            delay_s=config.seconds("NEGOTIATOR_CYCLE_DELAY"),
            timeout_s=config.seconds("NEGOTIATOR_TIMEOUT"),
            match_timeout_s=config.seconds("MATCH_TIMEOUT"),
            update_interval_s=config.seconds("NEGOTIATOR_UPDATE_INTERVAL"),
            halflife_s=config.float("PRIORITY_HALFLIFE"),
            factors=factors(config, cycle.groups),
            cycle=cycle,
            has_limits=read_limits(config).limits_anything(),
            pool_size=config.expr("NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT"),
            discounts_suspended=config.bool("NEGOTIATOR_DISCOUNT_SUSPENDED_RESOURCES"),
            ignore_priorities=config.bool("NEGOTIATOR_IGNORE_USER_PRIORITIES"),
            reads=frozenset(names_read_of_jobs(config, cycle.order)),
            match_exprs=_match_exprs(config),
            inform_startds=config.bool("NEGOTIATOR_INFORM_STARTD"),
            update_after_cycle=config.bool("NEGOTIATOR_UPDATE_AFTER_CYCLE"),
            cycles_shown=config.int("NEGOTIATION_CYCLE_STATS_LENGTH"),
        )


def _match_exprs(config: Config) -> dict[str, str]:
    """ConfigError when one of them is no expression; a name that nothing is said of is left out."""
    named = [name for name in config.list("NEGOTIATOR_MATCH_EXPRS") if config[name]]
    return {attribute_of(name): str(config.expr(name)) for name in named}


def own_name(config: Config) -> str:
    """What the negotiator calls itself."""
    # One of several of a host has a name of its own, whatever NEGOTIATOR_NAME says to all of them.
    said = config.local_name if _is_for_all(config, "NEGOTIATOR_NAME") else config.str("NEGOTIATOR_NAME")
    return daemon_name(said, config.str("FULL_HOSTNAME"))


def accounts_file(config: Config) -> str:
    """Where the accounts are; one of several negotiators of a host has its own."""
    path = config.path("ACCOUNTANT_DATABASE_FILE")
    if not _is_for_all(config, "ACCOUNTANT_DATABASE_FILE"):
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem}.{config.local_name.lower()}{suffix}"


def _is_for_all(config: Config, knob: str) -> bool:
    """Whether this is one of several negotiators, and the knob says nothing of this one alone."""
    local_name, found_as = config.local_name, config.found_as(knob).upper()
    return bool(local_name) and f"{local_name.upper()}." not in found_as
