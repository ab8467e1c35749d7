"""What negotiators and startds tell a schedd about slots, most of it on connections that the schedd has opened."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from pool.classad import ClassAd
from pool.jobs.match_exprs import of_turn
from protocol.messages.collector import AdUpdate
from protocol.wire.message import Message, Record, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pool.matching import Matched

# ---- the negotiator


class OfferedMatch(Record):
    """A slot for one job of an autocluster. `claim_id` is the capability to claim it, `room` are those of dynamic slots
    that have to end for it, `claim_id` among them."""

    submitter: str
    autocluster: int
    claim_id: str
    startd_address: str
    slot_ad: ClassAd
    room: list[str] = []
    exprs: dict[str, str] = {}
    """Attributes that the negotiator puts into the ads of the jobs that run in the slot (`pool.jobs.match_exprs`)."""

    @classmethod
    def of(cls, matched: Matched, exprs: Mapping[str, str]) -> Self:
        """A match of a negotiation, as its schedd is told of it."""
        return cls(
            submitter=matched.request.submitter,
            autocluster=matched.request.autocluster,
            claim_id=matched.claim_id,
            startd_address=matched.address,
            slot_ad=matched.slot_ad,
            room=[one.claim_ids[0] for one in matched.room],
            exprs={**exprs, **of_turn(matched.group, regrouped=matched.regrouped)},
        )


class MatchesTaken(Record):
    """How many of the offered slots the schedd uses; a negotiator gets the others back with ReturnMatches."""

    taken: int


class OfferMatches(Request[MatchesTaken], tag="schedd.offer_matches"):
    """Slots for this schedd's jobs, from one cycle. `number` grows with each on a connection."""

    matches: list[OfferedMatch]
    number: int = 0


class LeaseAnswer(Record):
    """Whether a negotiator may serve this schedd. Of a refusal: the highest term that the schedd knows of, and after
    how many seconds it may lease again."""

    granted: bool
    term: int
    left_s: float = 0.0


class AskLease(Request[LeaseAnswer], tag="schedd.ask_lease"):
    """One of several negotiators, by its rank in HAD_LIST, wants to be the only one whom this schedd hears.

    `leads`: it leads in this term. `anew`: it knows nothing of what the schedd has said. `gives_back`: it wants the
    lease no more.
    """

    rank: int
    term: int
    lease_s: float
    leads: bool = False
    anew: bool = False
    gives_back: bool = False


class ReadsNoted(Record):
    """Whether that is news: then what the schedd wants is announced anew, and what it has said before is void."""

    anew: bool


class NegotiatorReads(Request[ReadsNoted], tag="schedd.negotiator_reads"):
    """Attributes of jobs that the negotiator's own expressions read: jobs that differ in them are not alike."""

    attributes: list[str]


class Rejection(Record):
    """Why jobs of an autocluster got no slot in this cycle; shown as LastRejMatchReason."""

    submitter: str
    autocluster: int
    reason: str
    dear: str = ""
    """The attribute of these jobs that costs too much processor time: they are to be held."""


class RejectRequests(Message, tag="schedd.reject_requests"):
    """The autoclusters that stay without a slot for now."""

    rejections: list[Rejection]


# ---- startds


ATTACHED_SLOTS_MAX: Final = 50
"""Slots in one AttachSlots."""


class AttachSlots(Request[MatchesTaken], tag="schedd.direct_attach"):
    """A startd's free slots, with their claim ids, for this schedd's jobs alone; no negotiator has part in it.

    `submitter`: whose jobs; empty: everybody's.
    """

    slots: list[AdUpdate]
    submitter: str = ""


# ---- startds, on the connection that the schedd opened to claim


class ClaimChange(StrEnum):
    """What a startd did to a claim without being asked by its schedd."""

    VACATING = "vacating"  # the job was told to leave (policy, drain, a better claim)
    RELEASED = "released"  # the claim is gone; no job runs under it
    SUSPENDED = "suspended"
    CONTINUED = "continued"
    STARTER_GONE = "starter_gone"  # the starter ended without a report; the sandbox has been swept


class ClaimChanged(Message, tag="schedd.claim_changed"):
    """A startd's word about a claim (by its public id); `reason` is what the user reads."""

    claim: str
    change: ClaimChange
    reason: str = ""
    activation: str = ""
    hold_code: int = 0  # non-zero: policy (WANT_HOLD) wants the job on hold, with `reason`
    hold_subcode: int = 0


class JobUsed(Message, tag="schedd.job_used"):
    """What a job has used whose starter rests: attributes of its ad, as in JobUpdate."""

    claim: str
    activation: str
    ad: ClassAd
