"""What lies before a slot: what its owner's policy must know besides the ads, and when its deadlines come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from daemons.startd.slots.ads import Ads
from daemons.startd.slots.slot import NEVER, Slot, Slots
from pool.slots.policy import Eviction, PolicyFacts, eviction
from pool.slots.state_machine import Activity, EvictionCause, State

CLOSE_S: Final = 0.001
"""A deadline this near has come: what is left of it is lost in the clock's rounding."""
WORKLIFE_S: Final = 1200.0
"""CLAIM_WORKLIFE where the expression has no value."""


class Outlook:
    """Reads slots; of them it sets only the deadlines."""

    def __init__(self, slots: Slots, ads: Ads, client_runs: Callable[[], bool]) -> None:
        self._slots = slots
        self._ads = ads
        self._client_runs = client_runs

    def facts(self, slot: Slot) -> PolicyFacts:
        """What the policy is asked with."""
        now = trio.current_time()
        over = False
        if slot.state.leaving is not EvictionCause.NO and slot.state.activity in (
            Activity.RETIRING,
            Activity.SUSPENDED,
        ):
            over = self.eviction(slot).soft_in_s <= CLOSE_S
        return PolicyFacts(
            retirement_over=over,
            vacate_over=slot.hard_at <= now,
            match_over=slot.match_at <= now,
            worklife_over=self._worklife_over(slot, now),
            draining=self._ads.drain is not None and not _welcome(slot),
            backfill=not slot.children and self._slots.ending is None,
            no_client=slot.state.state is State.BACKFILL and not self._client_runs() and not slot.claims_coming,
            never_measured=not self._ads.benchmarked_at,
            benchmarks=slot.state.state is State.UNCLAIMED and not self._benchmarking(),
        )

    def _worklife_over(self, slot: Slot, now: float) -> bool:
        """Whether the claim takes no further job; asked only where the policy wants to know it."""
        claim = slot.claim
        if claim is None or slot.state.where != (State.CLAIMED, Activity.IDLE):
            return False
        worklife = slot.policy.number("CLAIM_WORKLIFE", self._ads.matching(slot), slot.job, WORKLIFE_S)
        return claim.worklife_over(worklife, now=now)

    def _benchmarking(self) -> bool:
        return any(slot.state.activity is Activity.BENCHMARKING for slot in self._slots)

    def eviction(self, slot: Slot) -> Eviction:
        """When the job is asked to leave, and how long it then has."""
        job, claim = slot.job, slot.claim
        if job is None or claim is None or claim.activation is None:
            return Eviction(0.0, 0.0)
        ran_s = claim.activation.ran_s(now=trio.current_time())
        return eviction(slot.policy, self._ads.matching(slot), job, ran_s=ran_s, retirement=self._ads.retirement(slot))

    def set_deadlines(self, slot: Slot) -> None:
        """Those that depend on where the slot is."""
        now, activity = trio.current_time(), slot.state.activity
        slot.soft_at = now + self.eviction(slot).soft_in_s if activity is Activity.RETIRING and slot.busy else NEVER
        if activity is not Activity.VACATING:
            slot.hard_at = NEVER
        if not slot.promised:
            slot.match_at = NEVER
        elif slot.match_at == NEVER:
            slot.match_at = now + self._ads.settings.match_timeout_s


def _welcome(slot: Slot) -> bool:
    """Whether the slot's job was let in because START while draining allows it."""
    return slot.claim is not None and slot.claim.while_draining
