"""The schedds that want slots: what each said last, and how it is told of matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pool.matching import JobRequest, Matched, Rejected
from pool.matching.accounting import may_have_account
from protocol.messages.negotiator import AnnounceWork
from protocol.messages.schedd import OfferedMatch, Rejection
from protocol.rpc.endpoints import Peer

MATCHES_AT_ONCE_MAX: Final = 50


@dataclass(eq=False)
class ScheddConnection:
    """One connection from a schedd, with its requests; counts go down as matches are handed out."""

    name: str
    peer: Peer
    requests: dict[tuple[str, int], JobRequest] = field(default_factory=dict)
    in_use: dict[str, int] = field(default_factory=dict)
    told: set[tuple[str, int]] = field(default_factory=set)
    refused: int = 0
    """How long the longest submitter's name was that it has given; 0 when all could have accounts."""

    def announce(self, said: AnnounceWork) -> None:
        """Take what it wants now for all that it said before, but for submitters who can have no account."""
        names = {*said.in_use, *(one.submitter for one in said.requests)}
        self.refused = max((len(name) for name in names if not may_have_account(name)), default=self.refused)
        self.requests = {
            (one.submitter, one.autocluster): one.at(self.name)
            for one in said.requests
            if one.count > 0 and may_have_account(one.submitter)
        }
        self.in_use = {name: count for name, count in said.in_use.items() if may_have_account(name)}
        # It has begun anew: what it was told before may be another cluster's by now.
        self.told.clear()

    def handed(self, matches: Iterable[Matched]) -> None:
        """That many jobs fewer want a slot."""
        for matched in matches:
            key = matched.request.submitter, matched.request.autocluster
            wanted = self.requests.get(key)
            if wanted is None:
                continue
            if wanted.count <= 1:
                del self.requests[key]
            else:
                self.requests[key] = replace(wanted, count=wanted.count - 1)

    def rejections(self, rejected: Iterable[Rejected]) -> list[Rejection]:
        """What it has not been told since it last said what it wants."""
        news = []
        for one in rejected:
            key = one.request.submitter, one.request.autocluster
            if key not in self.told:
                self.told.add(key)
                news.append(Rejection(submitter=key[0], autocluster=key[1], reason=one.reason, dear=one.dear))
        return news


def messages(matches: Sequence[Matched]) -> list[list[OfferedMatch]]:
    """The matches as they are sent, in handy portions."""
    found = [OfferedMatch.of(matched) for matched in matches]
    return [found[at : at + MATCHES_AT_ONCE_MAX] for at in range(0, len(found), MATCHES_AT_ONCE_MAX)]
