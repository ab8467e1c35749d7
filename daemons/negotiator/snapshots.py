"""What a cycle decides from, put together: the slots, what waits, and how each submitter stands.

What a submitter holds is what the schedds say that are connected, with the matches that they were offered and have not
spoken of yet; of a schedd that is gone, it is the slots that it last held, by their ads. So nobody gets more than a
quota, ceiling or concurrency limit allows while news are on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from daemons.daemon_core.run import DaemonStart
from daemons.negotiator.accounts import Accounts
from daemons.negotiator.schedds import ScheddConnection
from daemons.negotiator.settings import NegotiatorKnobs
from pool.accounting import SubmitterUse
from pool.accounting.limits import limits_of
from pool.matching import JobRequest, Offers, SlotHolders, Snapshot, Standing
from pool.matching.preempt import may_be_preempted


class Snapshots:
    """Takes them. `schedds` are those that are connected, by name."""

    def __init__(
        self,
        start: DaemonStart,
        offers: Offers,
        holders: SlotHolders,
        accounts: Accounts,
        schedds: Mapping[str, ScheddConnection],
    ) -> None:
        self._start, self._offers, self._holders = start, offers, holders
        self._accounts, self._schedds = accounts, schedds

    def take(self, requests: list[JobRequest], knobs: NegotiatorKnobs, left_out: Callable[[str], bool]) -> Snapshot:
        """The snapshot for these requests, without the slots of startds, by address, that are left out."""
        policy = knobs.cycle.order.preemption
        slots = [
            slot
            for slot in self._offers.current()
            if not (slot.claimed and not may_be_preempted(slot, policy)) and not left_out(slot.address)
        ]
        return Snapshot(
            slots,
            requests,
            self._standings({request.submitter for request in requests}, ignore=knobs.ignore_priorities),
            knobs.cycle,
            self._start.world.wall(),
            self._offers.partitionable() if policy.together else [],
            self._offers.weight(),
            self._limits_used() if knobs.has_limits else {},
        )

    def _standings(self, wanting: Iterable[str], *, ignore: bool) -> dict[str, Standing]:
        """Of all who are known, not only of those who want: preemption compares with who holds a slot now."""
        held = self._use()
        standings = {}
        for name in {**dict.fromkeys(self._accounts.known()), **dict.fromkeys(wanting), **held}:
            account, use = self._accounts.of(name), held.get(name, SubmitterUse())
            priority = 1.0 if ignore else account.effective
            standings[name] = Standing(priority, use.weight, use.slots, account.ceiling, account.floor)
        return standings

    def _use(self) -> dict[str, SubmitterUse]:
        held: dict[str, SubmitterUse] = {}
        for schedd in self._schedds.values():
            for name, use in schedd.use().items():
                held[name] = held.get(name, SubmitterUse()) + use
        for slot, submitter in self._holders.of_gone_schedds():
            if (weight := self._offers.held_weight(slot, submitter)) is not None:
                held[submitter] = held.get(submitter, SubmitterUse()) + SubmitterUse(1, weight)
        for submitter, use in self._offers.not_charged(self._holders):
            held[submitter] = held.get(submitter, SubmitterUse()).without(use)
        return held

    def _limits_used(self) -> dict[str, float]:
        """Also of slots of which no schedd has spoken since this negotiator began, as their ads say it."""
        used: dict[str, float] = {}
        parts = [schedd.limits_used() for schedd in self._schedds.values()]
        known = self._holders.of_present_schedds()
        parts += [limits_of(ad, None) for name, ad in self._offers.held() if name not in known]
        for part in parts:
            for name, amount in part.items():
                used[name] = used.get(name, 0.0) + amount
        return used
