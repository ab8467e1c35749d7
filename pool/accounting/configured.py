"""What bounds submitters, as the configuration says it: accounting groups with their quotas, and concurrency limits."""

from __future__ import annotations

import math

from pool.accounting.groups import Group, GroupTree
from pool.accounting.limits import LimitTable
from pool.accounting.quotas import QuotaSettings
from pool.config import Config
from pool.config.knobs import find

_SUBSYSTEM = "NEGOTIATOR."


def read_groups(config: Config) -> GroupTree:
    """GROUP_NAMES, and each group's knobs. ConfigError when one of them is no number or no truth value."""
    surplus, regroup = config.bool("GROUP_ACCEPT_SURPLUS"), config.bool("GROUP_AUTOREGROUP")
    return GroupTree(_group(config, name, surplus, regroup) for name in config.list("GROUP_NAMES"))


def _group(config: Config, name: str, surplus: bool, regroup: bool) -> Group:
    static, dynamic = f"GROUP_QUOTA_{name}", f"GROUP_QUOTA_DYNAMIC_{name}"
    is_static = bool(config[static])
    quota = config.float(static) if is_static else config.float(dynamic, 0.0)
    if quota < 0 or (not is_static and quota > 1):
        knob = static if is_static else dynamic
        raise config.error(knob, f"{knob} = {quota:g} is out of range ({'0..' if is_static else '0..1'})")
    factor = f"GROUP_PRIO_FACTOR_{name}"
    return Group(
        name,
        quota,
        is_static,
        config.bool(f"GROUP_ACCEPT_SURPLUS_{name}", surplus),
        config.bool(f"GROUP_AUTOREGROUP_{name}", regroup),
        max(1.0, config.float(factor)) if config[factor] else None,
    )


def without_quota(config: Config) -> list[str]:
    """Groups that nobody has given a quota; theirs is nothing."""
    knobs = ("GROUP_QUOTA_", "GROUP_QUOTA_DYNAMIC_")
    return [name for name in config.list("GROUP_NAMES") if not any(config[f"{knob}{name}"] for knob in knobs)]


def read_quotas(config: Config) -> QuotaSettings:
    """How quotas are kept."""
    return QuotaSettings(
        oversubscribe=config.bool("NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION"),
        strict=config.bool("NEGOTIATOR_STRICT_ENFORCE_QUOTA"),
        rounds=config.int("GROUP_QUOTA_MAX_ALLOCATION_ROUNDS"),
        rate=config.float("GROUP_QUOTA_ROUND_ROBIN_RATE"),
        sort=config.expr("GROUP_SORT_EXPR"),
        weighted_demand=config.bool("NEGOTIATOR_USE_WEIGHTED_DEMAND"),
    )


def read_limits(config: Config) -> LimitTable:
    """<NAME>_LIMIT of all names, and the defaults of sets and of all others."""
    limits, sets = {}, {}
    for name in config.names(with_defaults=False):
        bare = name[len(_SUBSYSTEM) :] if name.upper().startswith(_SUBSYSTEM) else name
        # A set's member has a point in its name, as a knob of another daemon has: SCHEDD.X_LIMIT is X_LIMIT there.
        knob = find(bare.rpartition(".")[2])
        if not config[bare] or knob is None:
            continue
        if knob.name == "<LIMIT>_LIMIT":
            limits[bare[: -len("_LIMIT")].lower()] = max(0.0, config.float(bare))
        elif knob.name == "CONCURRENCY_LIMIT_DEFAULT_<PREFIX>":
            sets[bare[len("CONCURRENCY_LIMIT_DEFAULT_") :].lower()] = config.float(bare)
    default = config.float("CONCURRENCY_LIMIT_DEFAULT") if config.is_set("CONCURRENCY_LIMIT_DEFAULT") else math.inf
    return LimitTable(limits, sets, default)
