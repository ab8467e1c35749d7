"""A job's request becomes a dynamic slot and the rest of its partitionable slot; and back.

What a job asks for may be rounded up by MODIFY_REQUEST_EXPR_REQUEST<NAME>, so that later jobs fit the slot as well; it
is never rounded down. A request that fits only unrounded is taken unrounded, unless MUST_MODIFY_REQUEST_EXPRS says no.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd, Expr
from pool.slots.provision.consumption import consumed, has_policy
from pool.slots.provision.pieces import choose, without
from pool.slots.provision.resources import CPUS, DISK, MEMORY, STANDARD, SWAP, Amount, Amounts, exact

DEFAULT_REQUEST: Final = {CPUS: 1, MEMORY: 1, DISK: 1}
"""What a job takes that does not say what it needs; nothing of a custom resource."""

_WHOLE: Final = frozenset((MEMORY, DISK, SWAP))


@dataclass(frozen=True)
class Holding:
    """What a slot has: amounts, and which pieces of the custom resources whose pieces have names."""

    amounts: Amounts
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rounding:
    """How requests are rounded up: an expression by resource; `must`: even when only the plain request fits."""

    exprs: Mapping[str, Expr] = field(default_factory=dict)
    must: bool = False


def request_of(job: ClassAd, slot: ClassAd, names: Iterable[str]) -> Amounts:
    """What `job` asks for of these resources; UserError when that is no amount."""
    asked: dict[str, Amount] = {}
    for name in names:
        if name == SWAP:  # follows memory, see `carve`
            continue
        value = job.eval(f"Request{name}", slot)
        if isinstance(value, bool) or not isinstance(value, int | float):
            asked[name] = DEFAULT_REQUEST.get(name, 0)
        else:
            asked[name] = _amount(name, value)
    return Amounts(asked)


def rounded(request: Amounts, job: ClassAd, slot: ClassAd, rounding: Rounding) -> Amounts:
    """The request as MODIFY_REQUEST_EXPR_REQUEST<NAME> makes it; an expression without a number changes nothing."""
    scratch = ClassAd({f"Request{name}": _number(much) for name, much in request.items()}, parent=job)
    made: dict[str, Amount] = {}
    for name, much in request.items():
        made[name] = much
        rule = rounding.exprs.get(name)
        value = rule.eval(scratch, slot) if rule is not None else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            made[name] = max(much, _amount(name, value))
    return Amounts(made)


def fit_request(job: ClassAd, slot: ClassAd, free: Amounts, rounding: Rounding) -> Amounts:
    """What to carve for `job` out of `free`; UserError says what there is too little of."""
    if has_policy(slot):
        wanted = consumed(job, slot, free)
        if short := free.short_of(wanted):
            raise UserError(f"not enough {', '.join(short)}")
        return wanted
    plain = request_of(job, slot, free)
    wanted = rounded(plain, job, slot, rounding)
    # Better a slot that later jobs do not fit than a job that never starts on a machine which has room for it.
    if not free.fits(wanted) and not rounding.must:
        wanted = plain
    if short := free.short_of(wanted):
        raise UserError(f"not enough {', '.join(short)}")
    return wanted


def carve(
    parent: Holding,
    wanted: Amounts,
    whole: Amounts,
    job: ClassAd | None = None,
    properties: Mapping[str, Mapping[str, ClassAd]] | None = None,
) -> tuple[Holding, Holding]:
    """A dynamic slot of the wanted size, and what `parent` has left. `whole` is what the parent had at first.

    Swap is not asked for: a slot has the same share of it as of the memory. Of resources whose pieces have names the
    slot gets pieces that the job's Require<name> is true for, given their `properties`.
    """
    # A fraction: with floats, slots that are carved and given back a thousand times would no longer add up.
    share = Fraction(wanted.of(MEMORY)) / whole.of(MEMORY) if whole.of(MEMORY) else Fraction(0)
    swap = min(math.floor(whole.of(SWAP) * share), parent.amounts.of(SWAP))
    child = Amounts({name: swap if name == SWAP else wanted.of(name) for name in parent.amounts})
    rest = parent.amounts - child
    given = pieces_for(parent, child, job, properties)
    kept = {name: without(ids, given[name]) for name, ids in parent.ids.items()}
    return Holding(child, given), Holding(rest, kept)


def pieces_for(
    parent: Holding,
    wanted: Amounts,
    job: ClassAd | None,
    properties: Mapping[str, Mapping[str, ClassAd]] | None = None,
) -> dict[str, tuple[str, ...]]:
    """The pieces that a dynamic slot of the wanted size gets; UserError when too few suit the job."""
    given: dict[str, tuple[str, ...]] = {}
    for name, ids in parent.ids.items():
        count = math.ceil(wanted.of(name))
        chosen = choose(name, ids, count, job, (properties or {}).get(name, {}))
        if chosen is None:
            raise UserError(f"not enough {name} that the job takes ({count} wanted, {len(ids)} free)")
        given[name] = chosen
    return given


def give_back(parent: Holding, child: Holding) -> Holding:
    """The partitionable slot after a dynamic slot of it is gone."""
    ids = {name: (*child.ids.get(name, ()), *kept) for name, kept in parent.ids.items()}
    return Holding(parent.amounts + child.amounts, ids)


def set_aside(
    parent: Holding, aside: Mapping[str, tuple[str, ...]], offline: Mapping[str, Collection[str]]
) -> tuple[Holding, dict[str, tuple[str, ...]]]:
    """A partitionable slot without its free pieces that are out of use; and those, until they are in use again.

    `aside` is what was taken from it before. Pieces that dynamic slots have are not touched.
    """
    ids, gone, amounts = dict(parent.ids), dict[str, tuple[str, ...]](), parent.amounts
    for name, kept in parent.ids.items():
        out = offline.get(name, ())
        everything = (*kept, *aside.get(name, ()))
        ids[name] = tuple(one for one in everything if one not in out)
        gone[name] = tuple(one for one in everything if one in out)
        amounts = amounts.replaced(**{name: amounts.of(name) + len(ids[name]) - len(kept)})
    return Holding(amounts, ids), gone


def carvable(free: Amounts) -> int:
    """How many more dynamic slots there can be, at most: each takes a core, memory and disk."""
    if not all(free.of(name) > 0 for name in (CPUS, MEMORY, DISK)):
        return 0
    return min(math.ceil(free.of(CPUS)), int(free.of(MEMORY)), int(free.of(DISK)))


def _amount(name: str, value: float) -> Amount:
    if not math.isfinite(value) or value < 0:
        raise UserError(f"the job's Request{name} is {value}", expected="an amount of 0 or more")
    return math.ceil(value) if name in _WHOLE else exact(value)


def _number(much: Amount) -> int | float:
    return much if isinstance(much, int) else float(much)


def resource_names(customs: Iterable[str]) -> tuple[str, ...]:
    """All resources of a machine, the usual ones first."""
    return (*STANDARD, *customs)
