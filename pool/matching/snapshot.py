"""What a negotiation decides from, and what it comes to: values that no step of it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from pool.accounting.account_ads import NO_FIGURES, CycleFigures
from pool.accounting.accounts import NO_CEILING, PRIORITY_MIN, weight_of
from pool.accounting.groups import NO_GROUPS, GroupTree
from pool.accounting.limits import NONE, Limits
from pool.accounting.quotas import QuotaSettings
from pool.classad import ClassAd
from pool.matching.candidates import RankOrder
from pool.matching.offers import Offer, Pieces
from pool.slots.provision.carve import Rounding
from pool.slots.provision.resources import Amounts


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Jobs of one submitter at one schedd that look alike."""

    schedd: str
    submitter: str
    autocluster: int
    ad: ClassAd
    count: int
    prio: int = 0
    leftovers: bool = True
    """Whether the schedd wants more of a partitionable slot in the cycle in which it got a part."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A submitter when a cycle begins: his effective priority, what he holds by weight and by slots, and his bounds."""

    priority: float = PRIORITY_MIN
    use: float = 0.0
    slots: int = 0
    ceiling: float = NO_CEILING
    floor: float = 0.0


NEWCOMER = Standing()


def no_capacity_is_known(name: str) -> float:
    """Where nothing is configured, nothing is limited."""
    return float("inf")


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """NEGOTIATOR_MAX_TIME_PER_CYCLE, _SUBMITTER, _SCHEDD and _PIESPIN, in seconds by `clock`."""

    cycle_s: float = inf
    submitter_s: float = inf
    schedd_s: float = inf
    spin_s: float = inf
    clock: Callable[[], float] = monotonic


@dataclass(frozen=True, slots=True)
class CycleSettings:
    """How slots are ordered, how a startd will round requests, and what bounds submitters and groups.

    `capacity` says how much there is of a concurrency limit, `weight` what a slot counts for.
    """

    order: RankOrder = field(default_factory=RankOrder)
    rounding: Rounding = field(default_factory=Rounding)
    groups: GroupTree = NO_GROUPS
    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    capacity: Callable[[str], float] = no_capacity_is_known
    weight: Callable[[ClassAd], float] = weight_of
    global_prios: bool = False
    """Whether JobPrio counts across the schedds of one submitter (USE_GLOBAL_JOB_PRIOS)."""
    times: TimeLimits = field(default_factory=TimeLimits)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a cycle decides from."""

    slots: Sequence[Offer]
    requests: Sequence[JobRequest]
    """Of each submitter and schedd, those first that go first."""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    """Of all who hold slots or want some, as far as they are known."""
    settings: CycleSettings = field(default_factory=CycleSettings)
    now: float = 0.0
    parents: Sequence[Offer] = ()
    """All partitionable slots, where dynamic slots may be preempted together."""
    pool_weight: float = 0.0
    """The weight of all slots, which groups' quotas are parts of."""
    limits_used: Limits = field(default_factory=lambda: NONE)
    """Of concurrency limits, by name."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A slot for one job of a request; `taken` is what is carved for it from a partitionable slot."""

    request: JobRequest
    slot: str
    claim_id: str
    address: str
    slot_ad: ClassAd
    weight: float
    taken: Amounts | None = None
    pieces: Pieces = field(default_factory=dict)
    room: tuple[Offer, ...] = ()
    """The dynamic slots that have to end for it."""
    limits: Limits = field(default_factory=lambda: NONE)
    """What it uses of concurrency limits."""
    group: str = ""
    """The accounting group in whose turn it was made; empty where there are none."""
    regrouped: bool = False
    """Whether that is not the submitter's own, but the turn of those in no group."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Jobs that got no slot, or not enough of them."""

    request: JobRequest
    unmatched: int
    reason: str
    dear: str = ""
    """The job's attribute that costs too much processor time, if that is why."""


@dataclass(slots=True)
class CyclePlan:
    """What a cycle came to. `charges` is the weight that each submitter was given."""

    matches: list[Matched] = field(default_factory=list)
    rejections: list[Rejected] = field(default_factory=list)
    wanted: list[Matched] = field(default_factory=list)
    """Slots of machines that sleep which jobs would have been given that got none."""
    charges: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """The startds, by address, of which a slot's expressions cost too much, and which one."""
    at_limit: set[str] = field(default_factory=set)
    """The submitters who have got all that their quota or ceiling allows, and want more."""
    out_of_time: set[str] = field(default_factory=set)
    """Submitters whose requests wait for the next cycle, for this one has spent on them what it may."""
    schedds_out_of_time: set[str] = field(default_factory=set)
    turns: int = 0
    rounds: int = 0
    """How many times groups were allocated slots; 0 where there are none."""
    figures: CycleFigures = NO_FIGURES
    """What accounts show of it: shares, quotas."""
