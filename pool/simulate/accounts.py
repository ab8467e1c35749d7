"""The submitters' accounts: each charged when what its submitter holds changes, and looked at when it is asked for.

So it makes no difference how often anybody looks; a cycle that matches nothing leaves no trace.
"""

from __future__ import annotations

from dataclasses import replace

from pool.accounting import Factors, SubmitterUse
from pool.accounting.accounts import SubmitterAccount
from pool.matching import Standing

NOTHING = SubmitterUse()


class Accounts:
    """What each submitter holds, and the priority that follows."""

    def __init__(self, halflife_s: float, factors: Factors, *, equal: bool) -> None:
        self._halflife_s, self._factors, self._equal = halflife_s, factors, equal
        self._accounts: dict[str, tuple[SubmitterAccount, float]] = {}
        """Each with the moment up to which it has been charged."""
        self.held: dict[str, SubmitterUse] = {}

    def standing(self, submitter: str, now: float) -> Standing:
        """How a submitter stands at a moment."""
        use, account = self.held.get(submitter, NOTHING), self._at(submitter, now)
        priority = 1.0 if self._equal else account.effective
        return Standing(priority, use.weight, use.slots, account.ceiling, account.floor)

    def charge(self, submitter: str, slots: int, weight: float, now: float) -> None:
        """From now on he holds so many more, or fewer."""
        before = self.held.pop(submitter, NOTHING)
        use = SubmitterUse(before.slots + slots, before.weight + weight)
        if use.slots:
            self.held[submitter] = use
        noted = self.held.get(submitter, NOTHING)
        account = replace(self._at(submitter, now), in_use=noted.slots, weighted_in_use=noted.weight)
        self._accounts[submitter] = account, now

    def _at(self, submitter: str, now: float) -> SubmitterAccount:
        known = self._accounts.get(submitter)
        if known is None:
            known = self._accounts[submitter] = SubmitterAccount(submitter, self._factors.of(submitter)), now
        account, since = known
        return account.aged(now - since, self._halflife_s, now)
