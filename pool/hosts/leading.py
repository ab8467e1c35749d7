"""Which of several negotiators leads, and what schedds lease to it.

The candidates are those of HAD_LIST, by rank. Each hears from the others at short intervals. When none that is heard
leads, and none before it in the list is heard, a candidate asks all schedds that it reaches for a lease. It leads when
one grants it, and none refuses. A schedd leases to one candidate at a time, and to no other before that lease is over;
so while a single schedd reaches both, two never lead at once, whatever of each other they hear. Who reaches no schedd
does not begin to lead: those that are away may have promised something to another.

Each time that somebody asks to lead is a *term*; no two candidates have the same. Whoever leads and hears of a higher
term of another who leads gives up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import TypeAlias


class Role(Enum):
    """What a candidate does."""

    STANDBY = "standing by"
    ASKING = "asking schedds"
    LEADING = "leading"


class Effect(Enum):
    """What is to be done now."""

    ASK = "ask all schedds for a lease"
    LEAD = "negotiate"
    RELEASE = "negotiate no more, and give leases back"


@dataclass(frozen=True, slots=True)
class Heard:
    """Another candidate has spoken. `ready`: it has the accounts that the leader has; `seen`: the highest term that it
    has heard of, which may be one of a negotiator's former life."""

    rank: int
    leads: bool
    term: int
    ready: bool = False
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Agreed:
    """No schedd has refused this term, and so many have granted their leases."""

    term: int
    leases: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A schedd has refused `term`: it knows of the term `known`, and may lease again in `left_s`."""

    term: int
    known: int
    left_s: float


@dataclass(frozen=True, slots=True)
class Look:
    """Time has passed; so many schedds are there."""

    schedds: int


Event: TypeAlias = Heard | Agreed | Refused | Look


@dataclass(frozen=True, slots=True)
class Candidate:
    """One negotiator among `ranks`. Who was silent for `silence_s` is taken to be gone."""

    rank: int
    ranks: int
    silence_s: float
    began_at: float
    yields: bool = False
    """HAD_USE_PRIMARY: whether it hands over to the first of the list, when that is back and ready."""
    role: Role = Role.STANDBY
    term: int = 0
    seen: int = 0
    not_before: float = -inf
    others: tuple[tuple[float, Heard], ...] = ()
    """When each of those that were heard was heard last, and what it said."""

    @property
    def leads(self) -> bool:
        """Whether it negotiates."""
        return self.role is Role.LEADING

    def leader(self, now: float) -> int | None:
        """The rank of whoever leads, as far as this one knows."""
        if self.leads:
            return self.rank
        leaders = [heard for at, heard in self.others if heard.leads and now - at < self.silence_s]
        return max(leaders, key=lambda heard: heard.term).rank if leaders else None

    def may_ask(self, schedds: int, now: float) -> bool:
        """Whether nobody who is heard goes first. Nobody is taken to be gone before he could have been heard."""
        fresh = {heard.rank for at, heard in self.others if now - at < self.silence_s}
        goes_first = self.leader(now) is not None or any(rank < self.rank for rank in fresh)
        if schedds == 0 or now < self.not_before or goes_first:
            return False
        return len(fresh) == self.ranks - 1 or now - self.began_at >= self.silence_s

    @property
    def highest(self) -> int:
        """The highest term that it has heard of."""
        return max(self.term, self.seen)

    def next_term(self) -> int:
        """Higher than any that it has heard of, and no other candidate's."""
        return (self.highest // self.ranks + 1) * self.ranks + self.rank


Stepped: TypeAlias = tuple[Candidate, tuple[Effect, ...]]


def step(who: Candidate, event: Event, now: float) -> Stepped:
    """The candidate after the event, and what is to be done."""
    match event:
        case Heard():
            return _heard(who, event, now)
        case Agreed(term, leases):
            if who.role is Role.ASKING and term == who.term:
                if leases:
                    return replace(who, role=Role.LEADING), (Effect.LEAD,)
                return replace(who, role=Role.STANDBY), ()
        case Refused():
            return _refused(who, event, now)
        case Look(schedds):
            if who.role is Role.STANDBY and who.may_ask(schedds, now):
                return replace(who, role=Role.ASKING, term=who.next_term()), (Effect.ASK,)
    return who, ()


def _heard(who: Candidate, said: Heard, now: float) -> Stepped:
    others = (*(one for one in who.others if one[1].rank != said.rank), (now, said))
    who = replace(who, others=others, seen=max(who.seen, said.term, said.seen))
    if who.role is not Role.STANDBY and said.leads and said.term > who.term:
        return _gives_up(who, now)
    if who.leads and who.yields and said.rank < who.rank and said.ready and not said.leads:
        return _gives_up(who, now + who.silence_s)
    return who, ()


def _refused(who: Candidate, said: Refused, now: float) -> Stepped:
    who = replace(who, seen=max(who.seen, said.known))
    if said.term != who.term or who.role is Role.STANDBY or (who.leads and said.known <= who.term):
        return who, ()  # of an earlier term; or a schedd is still another's whose term is lower: he will hear of it
    return _gives_up(who, now + said.left_s)


def _gives_up(who: Candidate, not_before: float) -> Stepped:
    return replace(who, role=Role.STANDBY, not_before=not_before), (Effect.RELEASE,)


# ---- a schedd's side


@dataclass(frozen=True, slots=True)
class Asked:
    """What a candidate asks of a schedd. `leads`: it leads already, and renews its lease or asks one more schedd."""

    rank: int
    term: int
    lease_s: float
    leads: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What it hears. Of a refusal: the highest term that the schedd knows of, and when it may lease again."""

    granted: bool
    term: int
    left_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Leased:
    """To whom a schedd listens; rank -1: to nobody yet. `highest` is the highest term of whoever said that it leads."""

    rank: int = -1
    term: int = 0
    until: float = -inf
    highest: int = 0

    def holder(self, now: float) -> int | None:
        """Whose the lease is at this moment."""
        return self.rank if now < self.until else None

    def ask(self, asked: Asked, now: float) -> tuple[Leased, Answered]:
        """The lease after this was asked, and the answer."""
        known = max(self.term, self.highest)
        highest = max(self.highest, asked.term) if asked.leads else self.highest
        mine = self.rank == asked.rank and asked.term >= self.term
        if asked.term >= self.highest and (mine or (self.holder(now) is None and asked.term > self.term)):
            return Leased(asked.rank, asked.term, now + asked.lease_s, highest), Answered(True, asked.term)
        left_s = max(0.0, self.until - now) if self.rank != asked.rank else 0.0
        return replace(self, highest=highest), Answered(False, max(known, highest), left_s)

    def release(self, rank: int, now: float) -> Leased:
        """The lease after a candidate has given its own back."""
        return replace(self, until=min(self.until, now)) if self.rank == rank else self
