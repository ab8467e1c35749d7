"""Consumption policies: what a match takes of a partitionable slot, by expressions of the slot's owner.

With CONSUMPTION_POLICY the slot's ad carries an expression ConsumptionCpus, ConsumptionMemory ... for every resource;
the negotiator carves by them while it matches, and the startd when the claim comes. Without, the job's request counts,
rounded as MODIFY_REQUEST_EXPR_* say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd, Expr, expr
from pool.slots.provision.resources import CPUS, DISK, MEMORY, SWAP, Amounts, exact

DEFAULTS: Final[Mapping[str, str]] = {
    CPUS: "quantize(target.RequestCpus,{1})",
    MEMORY: "quantize(target.RequestMemory,{128})",
    DISK: "quantize(target.RequestDisk,{1024})",
}
OTHERWISE: Final = "ifThenElse(target.Request{0} =?= undefined, 0, target.Request{0})"
"""Of custom resources. The manual says that they have no default; condor_startd gives them this one."""


def has_policy(slot: ClassAd) -> bool:
    """Whether the slot's ad says what a match takes."""
    return "ConsumptionCpus" in slot


def consumption_attributes(whole: Amounts, read: Callable[[str], Expr | None]) -> dict[str, Expr]:
    """The attributes of a slot whose owner has such a policy, WithinResourceLimits included.

    `whole` is what the slot has, `read` answers CONSUMPTION_<name> for it.
    """
    found: dict[str, Expr] = {}
    limits = []
    for name, much in whole.items():
        if name == SWAP or (not much and name not in DEFAULTS):
            continue
        rule = read(f"CONSUMPTION_{name}")
        found[f"Consumption{name}"] = expr(DEFAULTS.get(name) or OTHERWISE.format(name)) if rule is None else rule
        limits.append(f"MY.{name} >= MY.Consumption{name}")
    found["WithinResourceLimits"] = expr(" && ".join(limits))
    return found


def consumed(job: ClassAd, slot: ClassAd, names: Iterable[str]) -> Amounts:
    """What a match with `job` takes; UserError when an expression gives no amount."""
    taken = {}
    for name in names:
        if name == SWAP or f"Consumption{name}" not in slot:
            continue
        value = slot.eval(f"Consumption{name}", job)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise UserError(f"the slot's Consumption{name} gives no amount for this job")
        taken[name] = math.ceil(value) if name in (MEMORY, DISK) else exact(value)
    if not any(taken.values()):
        raise UserError("the slot's consumption policy takes nothing for this job")
    return Amounts(taken)
