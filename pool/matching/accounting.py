"""The accountant: what each submitter uses, and the priority that follows.

A submitter's real priority moves towards the number of slots (by weight) in use, and half of the distance is gone after
PRIORITY_HALFLIFE; it is never below 0.5. The effective priority is that times the submitter's factor. Smaller is
better, and shares of the pool are inverse to it.

Source: HTCondor manual, "Configuration for Central Managers" (user priorities), and "Configuration Macros"
(PRIORITY_HALFLIFE, DEFAULT_PRIO_FACTOR, NICE_USER_PRIO_FACTOR, REMOTE_PRIO_FACTOR).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.slots.provision.resources import AMOUNT_MAX

PRIORITY_MIN: Final = 0.5
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

    def of(self, submitter: str) -> float:
        """DEFAULT_PRIO_FACTOR, or NICE_USER_PRIO_FACTOR, or REMOTE_PRIO_FACTOR for another domain's users."""
        if submitter.startswith(NICE_USER):
            return self.nice
        domain = submitter.rpartition("@")[2]
        if self.local_domain and domain.lower() != self.local_domain.lower():
            return self.remote
        return self.default


@dataclass(frozen=True, slots=True)
class SubmitterAccount:
    """One submitter's record. Times are wall time, 0: never. Usage is in slot seconds, `weighted` by SlotWeight."""

    submitter: str
    factor: float
    priority: float = PRIORITY_MIN
    in_use: int = 0
    weighted_in_use: float = 0.0
    usage_s: float = 0.0
    weighted_usage_s: float = 0.0
    began_at: float = 0.0
    last_used_at: float = 0.0

    @property
    def effective(self) -> float:
        """What shares of the pool go by."""
        return self.priority * self.factor

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


@dataclass(frozen=True, slots=True)
class SubmitterUse:
    """What a submitter holds at a moment."""

    slots: int = 0
    weight: float = 0.0

    def __add__(self, other: SubmitterUse) -> SubmitterUse:
        return SubmitterUse(self.slots + other.slots, self.weight + other.weight)


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
        for submitter in {*self.accounts, *filter(may_have_account, use)}:
            account = self.account(submitter).aged(passed_s, self.halflife_s, now)
            held = use.get(submitter, SubmitterUse())
            began_at = account.began_at or (now if held.slots else 0.0)
            last = now if held.slots else account.last_used_at
            self.accounts[submitter] = replace(
                account, in_use=held.slots, weighted_in_use=held.weight, began_at=began_at, last_used_at=last
            )
        # A clock that was set back charges nothing, until it has come to where it was.
        self.updated_at = max(now, self.updated_at)

    def set(self, submitter: str, attribute: str, value: float, *, now: float) -> None:
        """What `condor_userprio -setprio` (of the real priority), `-setfactor`, `-setaccum` do; a usage that is not
        positive begins anew."""
        if not may_have_account(submitter):
            raise UserError(
                f"a submitter's name of {len(submitter)} characters", expected=f"at most {SUBMITTER_CHARS_MAX}"
            )
        if not math.isfinite(value):
            raise UserError(f"{value:g} is no figure of an account", expected="a number")
        account = self.account(submitter)
        match attribute.lower():
            case "priorityfactor":
                if value < 1:
                    raise UserError(f"a priority factor of {value:g} is too small", expected="at least 1")
                account = replace(account, factor=value)
            case "priority":
                account = replace(account, priority=max(PRIORITY_MIN, value))
            case "accumulatedusage" | "weightedaccumulatedusage":
                began = now if value <= 0 else account.began_at
                account = replace(account, usage_s=max(0.0, value), weighted_usage_s=max(0.0, value), began_at=began)
            case "beginusagetime":
                account = replace(account, began_at=value)
            case "lastusagetime":
                account = replace(account, last_used_at=value)
            case _:
                expected = "Priority, PriorityFactor, AccumulatedUsage, BeginUsageTime or LastUsageTime"
                raise UserError(f"{attribute} is not an attribute of a submitter", expected=expected)
        self.accounts[submitter] = account

    def reset_all(self) -> None:
        """Forget what everybody has used so far."""
        for name, account in self.accounts.items():
            self.accounts[name] = replace(account, usage_s=0.0, weighted_usage_s=0.0, began_at=self.updated_at)

    def delete(self, submitter: str) -> bool:
        """Forget a submitter; whether he was known."""
        return self.accounts.pop(submitter, None) is not None

    def ads(
        self, *, limits: Mapping[str, float] | None = None, shares: Mapping[str, float] | None = None
    ) -> list[ClassAd]:
        """The Accounting ads, one per submitter."""
        return [
            account_ad(account, self.updated_at, (limits or {}).get(name, 0.0), (shares or {}).get(name, 0.0))
            for name, account in sorted(self.accounts.items())
        ]


def account_ad(account: SubmitterAccount, updated_at: float, limit: float, share: float) -> ClassAd:
    """An account as `condor_userprio` shows it."""
    return ClassAd(
        {
            "MyType": "Accounting",
            "Name": account.submitter,
            "AccountingGroup": "<none>",
            "IsAccountingGroup": False,
            "Priority": round(account.effective, 6),
            "PriorityFactor": account.factor,
            "ResourcesUsed": account.in_use,
            "WeightedResourcesUsed": account.weighted_in_use,
            "AccumulatedUsage": account.usage_s,
            "WeightedAccumulatedUsage": account.weighted_usage_s,
            "HierWeightedResourcesUsed": 0.0,
            "UnchargedTime": 0,
            "WeightedUnchargedTime": 0.0,
            "BeginUsageTime": int(account.began_at),
            "LastUsageTime": int(account.last_used_at),
            "SubmitterLimit": limit,
            "SubmitterShare": share,
            "Ceiling": -1,
            "Floor": 0,
            "LastUpdate": int(updated_at),
        }
    )


def weight_of(slot: ClassAd) -> float:
    """What a slot counts for: its SlotWeight, which is its Cpus unless the owner says otherwise.

    What is no number to count with counts as one: the accounts of whoever is said to hold the slot stay sound.
    """
    for name in ("SlotWeight", "Cpus"):
        weight = slot.eval_float(name)
        if weight is not None and 0 <= weight < AMOUNT_MAX:
            return float(weight)
    return 1.0
