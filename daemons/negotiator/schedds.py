"""The schedds that want slots: what each said last, and how it is told of matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Final

from pool.accounting import SubmitterUse
from pool.accounting.accounts import may_have_account
from pool.base.errors import UserError
from pool.matching import JobRequest, Matched, Rejected
from protocol.messages.negotiator import AnnounceWork
from protocol.messages.offers import Rejection
from protocol.rpc.endpoints import Peer

MATCHES_AT_ONCE_MAX: Final = 50
NUMBER_MAX: Final = (1 << 31) - 1
"""Of jobs that are alike, and of slots that one submitter holds: sums of them stay within an ad's 64 bits."""


@dataclass(eq=False)
class ScheddConnection:
    """One connection from a schedd, with its requests; counts go down as matches are handed out."""

    name: str
    peer: Peer
    requests: list[JobRequest] = field(default_factory=list)
    """As it said them: of each submitter, those first that go first."""
    in_use: dict[str, SubmitterUse] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    offered: dict[int, list[Matched]] = field(default_factory=dict)
    """Matches of which it has not said yet what became of them, by the number under which it was offered them."""
    _offers: Iterator[int] = field(default_factory=lambda: count(1))
    reads: frozenset[str] = frozenset()
    """What it knows that the negotiator reads of jobs."""
    told: set[tuple[str, int]] = field(default_factory=set)
    refused: int = 0
    """How long the longest submitter's name was that it has given; 0 when all could have accounts."""

    def announce(self, said: AnnounceWork) -> None:
        """Take what it wants now for all that it said before, but for submitters who can have no account.

        UserError, and nothing is taken, where there are more jobs or slots than anybody has.
        """
        _check_numbers(said)
        names = {*said.in_use, *(one.submitter for one in said.requests)}
        self.refused = max((len(name) for name in names if not may_have_account(name)), default=self.refused)
        wanted = (one for one in said.requests if one.count > 0 and may_have_account(one.submitter))
        self.requests = [one.at(self.name) for one in wanted]
        self.in_use = {
            name: SubmitterUse(held.slots, held.weight) for name, held in said.in_use.items() if may_have_account(name)
        }
        self.limits = {name: amount for name, amount in said.limits.items() if amount > 0}
        for number in [number for number in self.offered if number <= said.heard]:
            del self.offered[number]
        # It has begun anew: what it was told before may be another cluster's by now.
        self.told.clear()

    def offer(self, matches: list[Matched]) -> int:
        """These are about to be offered to it; under which number."""
        number = next(self._offers)
        self.offered[number] = matches
        return number

    def use(self) -> dict[str, SubmitterUse]:
        """What each submitter has here, or is about to have."""
        held = dict(self.in_use)
        for matched in self._unheard():
            name = matched.request.submitter
            held[name] = held.get(name, SubmitterUse()) + SubmitterUse(1, matched.weight)
        return held

    def limits_used(self) -> dict[str, float]:
        """What its jobs use of concurrency limits, or are about to use."""
        used = dict(self.limits)
        for matched in self._unheard():
            for name, amount in matched.limits.items():
                used[name] = used.get(name, 0.0) + amount
        return used

    def _unheard(self) -> Iterator[Matched]:
        return chain.from_iterable(self.offered.values())

    def handed(self, matches: Iterable[Matched]) -> None:
        """That many jobs fewer want a slot: of those that are alike, the schedd starts the first."""
        gone = Counter((matched.request.submitter, matched.request.autocluster) for matched in matches)
        left = []
        for one in self.requests:
            key = one.submitter, one.autocluster
            start = min(gone[key], one.count)
            gone[key] -= start
            if start < one.count:
                left.append(replace(one, count=one.count - start) if start else one)
        self.requests = left

    def returned(self, claim_ids: Sequence[str]) -> None:
        """It had no job for these after all: until it says what it wants now, it wants no more of the kind."""
        ids = set(claim_ids)
        over = {(m.request.submitter, m.request.autocluster) for m in self._unheard() if m.claim_id in ids}
        self.requests = [one for one in self.requests if (one.submitter, one.autocluster) not in over]

    def rejections(self, rejected: Iterable[Rejected]) -> list[Rejection]:
        """What it has not been told since it last said what it wants."""
        news = []
        for one in rejected:
            key = one.request.submitter, one.request.autocluster
            if key not in self.told:
                self.told.add(key)
                news.append(Rejection(submitter=key[0], autocluster=key[1], reason=one.reason, dear=one.dear))
        return news


def portions(matches: Sequence[Matched]) -> list[list[Matched]]:
    """The matches as they are sent, so many at a time."""
    return [list(matches[at : at + MATCHES_AT_ONCE_MAX]) for at in range(0, len(matches), MATCHES_AT_ONCE_MAX)]


def _check_numbers(said: AnnounceWork) -> None:
    numbers = [(one.submitter, "jobs", one.count) for one in said.requests]
    numbers += [(name, "slots", held.slots) for name, held in said.in_use.items()]
    for name, kind, number in numbers:
        if number > NUMBER_MAX:
            raise UserError(f"{name[:80]!r} has {number} {kind}", expected=f"at most {NUMBER_MAX}")
