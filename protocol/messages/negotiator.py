"""What schedds and administrators tell the negotiator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pool.classad import ClassAd
from protocol.wire.message import Done, Message, Record, Request, StreamRequest

if TYPE_CHECKING:
    from pool.matching import JobRequest


class ResourceRequest(Record):
    """Jobs of one submitter that look alike: `ad` holds their significant attributes, `count` how many want a slot."""

    submitter: str
    autocluster: int
    ad: ClassAd
    count: int
    prio: int = 0
    leftovers: bool = True

    def at(self, schedd: str) -> JobRequest:
        """What a negotiation is asked for when this schedd has said so."""
        from pool.matching import JobRequest  # most who know these messages never negotiate

        return JobRequest(schedd, self.submitter, self.autocluster, self.ad, self.count, self.prio, self.leftovers)


class SubmitterHolds(Record):
    """How many slots a submitter holds at a schedd, and what they weigh."""

    slots: int
    weight: float


class AnnounceWork(Request[Done], tag="negotiator.announce_work"):
    """All that a schedd wants now; replaces what it said before. Matches come back on the same connection.

    The first on a connection is a call, for it may be refused; the others are notices.

    `in_use` is what each submitter holds at this schedd, or is about to, and `limits` what their jobs use of
    concurrency limits; both count the matches that were offered up to the number `heard`. `held` names the slots that
    it holds, each with its submitter, and `given_back` those that it holds no more, since its last announcement on
    this connection.
    """

    schedd: str
    requests: list[ResourceRequest]
    in_use: dict[str, SubmitterHolds] = {}
    held: dict[str, str] = {}
    given_back: list[str] = []
    limits: dict[str, float] = {}
    heard: int = 0


class Met(Record):
    """What a schedd is to this negotiator. `leased`: it is one of several, and asks for a lease when it leads.

    `slice` says which slots it hands out, of those that several negotiators divide: of each slice a schedd listens to
    one at a time. `name` is its address, whatever way has led to it.
    """

    leased: bool
    slice: str = ""
    name: str = ""


class MeetNegotiator(Request[Met], tag="negotiator.meet"):
    """A schedd is there. It announces work to one negotiator of each slice."""

    schedd: str


class Stands(Record):
    """How one of several negotiators stands. `ready`: it has the accounts that the leader has; `seen`: the highest term
    that it has heard of."""

    rank: int
    term: int
    leads: bool
    ready: bool = False
    seen: int = 0


class Standing(Request[Stands], tag="negotiator.standing"):
    """How one of several negotiators stands, and in the answer how the other does."""

    mine: Stands


class AccountRecord(Record):
    """An account as the leader's accountant has it. `leases`: by attribute, until when, and the value before."""

    submitter: str
    figures: dict[str, float]
    leases: dict[str, list[float]] = {}


class AccountsNews(Record):
    """Accounts that have changed since the last news, those that are gone, and the time up to which all are charged.

    The first news have all accounts that there are.
    """

    changed: list[AccountRecord]
    gone: list[str]
    updated_at: float


class FollowAccounts(StreamRequest[AccountsNews], tag="negotiator.follow_accounts"):
    """A negotiator that stands by wants the accounts as the leader has them, until one of the two leaves."""


class ReturnMatches(Message, tag="negotiator.return_matches"):
    """Matches that the schedd did not use: their claim ids may be offered again."""

    claim_ids: list[str]


class Priorities(Record):
    """Every submitter the accountant knows."""

    submitters: list[ClassAd]


class GetPriorities(Request[Priorities], tag="negotiator.get_priorities"):
    """The accountant's table."""


class SetPriority(Request[Done], tag="negotiator.set_priority"):
    """Set a submitter's attribute: PriorityFactor, Priority, AccumulatedUsage, BeginUsageTime, LastUsageTime, Ceiling
    or Floor; with `lease_s` for that many seconds, after which its value before counts again."""

    submitter: str
    attribute: str
    value: float
    lease_s: float = 0.0


class CancelLease(Request[Done], tag="negotiator.cancel_lease"):
    """End the lease of a submitter's PriorityFactor, Ceiling or Floor at once."""

    submitter: str
    attribute: str


class ForgetSubmitter(Request[Done], tag="negotiator.forget_submitter"):
    """Forget a submitter's record; one who uses something gets a new one at once."""

    submitter: str


class ResetUsage(Request[Done], tag="negotiator.reset_usage"):
    """Set the accumulated usage of all submitters to nothing."""


class NegotiateNow(Request[Done], tag="negotiator.negotiate_now"):
    """Start a cycle without waiting (`condor_reschedule` reaches it through the schedd)."""
