"""The accountant: what each submitter uses, and the priority that follows.

A submitter's real priority moves towards the number of slots (by weight) in use, and half of the distance is gone after
PRIORITY_HALFLIFE; it is never below 0.5. The effective priority is that times the submitter's factor. Smaller is
better, and shares of the pool are inverse to it. A ceiling bounds what a submitter may hold, a floor is what he gets
before all others. An accounting group has an account of its own, charged for what its submitters hold.

Source: HTCondor manual, "Configuration for Central Managers" (user priorities), "condor_userprio" (leases), and
"Configuration Macros" (PRIORITY_HALFLIFE, DEFAULT_PRIO_FACTOR, NICE_USER_PRIO_FACTOR, REMOTE_PRIO_FACTOR,
GROUP_PRIO_FACTOR_<groupname>).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pool.accounting.figures import FIGURES
from pool.accounting.groups import NO_GROUPS, GroupTree
from pool.accounting.leases import LEASED, Lease
from pool.base.errors import UserError
from pool.classad import ClassAd, Expr
from pool.slots.provision.resources import AMOUNT_MAX

PRIORITY_MIN: Final = 0.5
NO_CEILING: Final = -1.0
NICE_USER: Final = "nice-user."
SUBMITTER_CHARS_MAX: Final = 512
"""How long the name of a submitter may be: a user, his domain, and the groups that he is in."""


def may_have_account(submitter: str) -> bool:
    """Whether the name is short enough to be kept and shown."""
    return len(submitter) <= SUBMITTER_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Factors:
    """Which factor a submitter begins with."""

    default: float = 1000.0
    nice: float = 1e10
    remote: float = 1e7
    local_domain: str = ""
    groups: GroupTree = NO_GROUPS

    def of(self, submitter: str) -> float:
        """DEFAULT_PRIO_FACTOR, or NICE_USER_PRIO_FACTOR, his group's, or REMOTE_PRIO_FACTOR for another domain's."""
        if submitter.startswith(NICE_USER):
            return self.nice
        group = self.groups.of(submitter) if "@" in submitter else self.groups.named(submitter)
        if group is not None and group.factor is not None:
            return group.factor
        if "@" not in submitter:
            return self.default
        domain = submitter.rpartition("@")[2]
        if self.local_domain and domain.lower() != self.local_domain.lower():
            return self.remote
        return self.default


@dataclass(frozen=True, slots=True)
class SubmitterAccount:
    """The record of a submitter, or of a group, whose name has no @.

    Times are wall time, 0: never. Usage is in slot seconds, `weighted` by SlotWeight; so are ceiling and floor.
    """

    submitter: str
    factor: float
    priority: float = PRIORITY_MIN
    in_use: int = 0
    weighted_in_use: float = 0.0
    usage_s: float = 0.0
    weighted_usage_s: float = 0.0
    began_at: float = 0.0
    last_used_at: float = 0.0
    ceiling: float = NO_CEILING
    floor: float = 0.0
    leases: tuple[Lease, ...] = ()

    @property
    def is_group(self) -> bool:
        """Whether it is the account of an accounting group."""
        return "@" not in self.submitter

    @property
    def effective(self) -> float:
        """What shares of the pool go by."""
        return max(PRIORITY_MIN, self.priority) * self.factor

    def aged(self, passed_s: float, halflife_s: float, now: float) -> SubmitterAccount:
        """The record after `passed_s` seconds with the present use."""
        if passed_s <= 0:
            return self
        # Exact for any interval, so it does not matter how often anybody looks.
        kept = 0.5 ** (passed_s / halflife_s) if halflife_s > 0 else 0.0
        return replace(
            self,
            priority=max(PRIORITY_MIN, self.priority * kept + self.weighted_in_use * (1.0 - kept)),
            usage_s=self.usage_s + self.in_use * passed_s,
            weighted_usage_s=self.weighted_usage_s + self.weighted_in_use * passed_s,
            last_used_at=now if self.in_use else self.last_used_at,
        )

    def unleased(self, now: float) -> SubmitterAccount:
        """The record when the leases that are over have given back what was before."""
        over = [lease for lease in self.leases if lease.until <= now]
        if not over:
            return self
        before = {LEASED[lease.attribute]: lease.before for lease in over}
        left = tuple(lease for lease in self.leases if lease.until > now)
        return replace(self, leases=left, **before)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SubmitterUse:
    """What a submitter holds at a moment."""

    slots: int = 0
    weight: float = 0.0

    def __add__(self, other: SubmitterUse) -> SubmitterUse:
        return SubmitterUse(self.slots + other.slots, self.weight + other.weight)

    def without(self, other: SubmitterUse) -> SubmitterUse:
        """What is left; nothing at least, for news of the two may come at different times."""
        return SubmitterUse(max(0, self.slots - other.slots), max(0.0, self.weight - other.weight))


@dataclass
class Accountant:
    """All accounts. `updated_at` is the wall time up to which use has been charged."""

    halflife_s: float = 86400.0
    factors: Factors = field(default_factory=Factors)
    accounts: dict[str, SubmitterAccount] = field(default_factory=dict)
    updated_at: float = 0.0

    def account(self, submitter: str) -> SubmitterAccount:
        """A submitter's record; a new one when he was never seen."""
        known = self.accounts.get(submitter)
        if known is None:
            known = self.accounts[submitter] = SubmitterAccount(submitter, self.factors.of(submitter))
        return known

    def charge(self, use: Mapping[str, SubmitterUse], *, now: float) -> None:
        """Let time pass with the use noted before, then note what is in use from now on."""
        passed_s = now - self.updated_at if self.updated_at else 0.0
        held_by = self._with_groups({name: held for name, held in use.items() if may_have_account(name)})
        for submitter in {*self.accounts, *held_by}:
            account = self.account(submitter).aged(passed_s, self.halflife_s, now).unleased(now)
            held = held_by.get(submitter, SubmitterUse())
            began_at = account.began_at or (now if held.slots else 0.0)
            last = now if held.slots else account.last_used_at
            self.accounts[submitter] = replace(
                account, in_use=held.slots, weighted_in_use=held.weight, began_at=began_at, last_used_at=last
            )
        # A clock that was set back charges nothing, until it has come to where it was.
        self.updated_at = max(now, self.updated_at)

    def _with_groups(self, use: Mapping[str, SubmitterUse]) -> dict[str, SubmitterUse]:
        """The same with what each group's submitters hold together; every group has an account."""
        groups = self.factors.groups
        held_by = {group.name: SubmitterUse() for group in groups} if groups else {}
        for submitter, held in use.items():
            held_by[submitter] = held
            if groups:
                name = groups.of(submitter).name
                held_by[name] += held
        return held_by

    def set(self, submitter: str, attribute: str, value: float, *, now: float, lease_s: float = 0.0) -> None:
        """What condor_userprio's -setprio, -setfactor, -setceiling ... do, for `lease_s` seconds or, with 0, for good.

        UserError when there is no such figure, it may not have this value, or is leased already.
        """
        if not may_have_account(submitter):
            raise UserError(
                f"a submitter's name of {len(submitter)} characters", expected=f"at most {SUBMITTER_CHARS_MAX}"
            )
        figure = FIGURES.get(attribute.lower())
        if figure is None:
            raise UserError(
                f"{attribute} is not an attribute of a submitter",
                expected="Priority, PriorityFactor, AccumulatedUsage, BeginUsageTime, LastUsageTime, Ceiling or Floor",
            )
        figure.check(value)
        account = self.account(submitter).unleased(now)
        if lease_s > 0:
            account = _leased(account, attribute, now + lease_s, now)
        self.accounts[submitter] = replace(account, **dict.fromkeys(figure.fields, value))  # type: ignore[arg-type]
        if "usage_s" in figure.fields and value <= 0:
            self.accounts[submitter] = replace(self.accounts[submitter], began_at=now)

    def cancel_lease(self, submitter: str, attribute: str) -> None:
        """End a lease now: what was before it counts again. UserError when there is none."""
        account = self.accounts.get(submitter)
        leases = account.leases if account is not None else ()
        lease = next((lease for lease in leases if lease.attribute == attribute.lower()), None)
        if account is None or lease is None:
            raise UserError(f"no lease of {attribute} is in effect for {submitter}")
        left = tuple(one for one in leases if one is not lease)
        self.accounts[submitter] = replace(account, leases=left, **{LEASED[lease.attribute]: lease.before})  # type: ignore[arg-type]

    def reset_all(self) -> None:
        """Forget what everybody has used so far."""
        for name, account in self.accounts.items():
            self.accounts[name] = replace(account, usage_s=0.0, weighted_usage_s=0.0, began_at=self.updated_at)

    def delete(self, submitter: str) -> bool:
        """Forget a submitter; whether he was known."""
        return self.accounts.pop(submitter, None) is not None


def _leased(account: SubmitterAccount, attribute: str, until: float, now: float) -> SubmitterAccount:
    """The account with a lease of one of its figures, whose value before it keeps; UserError when there is one."""
    name = attribute.lower()
    field_of = LEASED.get(name)
    if field_of is None:
        raise UserError(f"{attribute} cannot be set for a time", expected="Ceiling, Floor or PriorityFactor")
    known = next((lease for lease in account.leases if lease.attribute == name), None)
    if known is not None:
        raise UserError(
            f"a lease of {attribute} is in effect for {account.submitter}, for {known.until - now:.0f} s more",
            expected="that it is cancelled first",
        )
    return replace(account, leases=(*account.leases, Lease(name, until, getattr(account, field_of))))


def weight_of(slot: ClassAd) -> float:
    """What a slot counts for: its SlotWeight, which is its Cpus unless the owner says otherwise.

    What is no number to count with counts as one: the accounts of whoever is said to hold the slot stay sound.
    """
    for name in ("SlotWeight", "Cpus"):
        weight = slot.eval_float(name)
        if weight is not None and 0 <= weight < AMOUNT_MAX:
            return float(weight)
    return 1.0


def weight_by(own: Expr) -> Callable[[ClassAd], float]:
    """What a slot counts for where FORCE_NEGOTIATOR_SLOT_WEIGHT is true: the negotiator's SLOT_WEIGHT, as above."""

    def weigh(slot: ClassAd) -> float:
        return weight_of(ClassAd({"SlotWeight": own.eval(slot)}, parent=slot))

    return weigh


def counts_as_one(slot: ClassAd) -> float:
    """What every slot counts for where NEGOTIATOR_USE_SLOT_WEIGHTS is false."""
    return 1.0
