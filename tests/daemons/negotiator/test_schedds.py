"""What a schedd wants, as the negotiator keeps it, and its matches as they are sent."""

from __future__ import annotations

from typing import cast

import pytest

from daemons.negotiator.schedds import NUMBER_MAX, ScheddConnection
from pool.base.errors import UserError
from pool.classad import ClassAd
from pool.matching import JobRequest, Matched, Offer
from protocol.messages.negotiator import AnnounceWork, ResourceRequest, SubmitterHolds
from protocol.messages.offers import OfferedMatch
from protocol.rpc.endpoints import Peer

REQUEST = ResourceRequest(submitter="ann@pool", autocluster=3, ad=ClassAd({"RequestCpus": 1}), count=2, prio=5)


def like(submitter: str, autocluster: int, count: int = 2) -> ResourceRequest:
    """REQUEST of somebody else, or of other jobs, or of more."""
    return ResourceRequest(submitter=submitter, autocluster=autocluster, ad=REQUEST.ad, count=count, prio=5)


def _matched(request: JobRequest) -> Matched:
    """A match for which two dynamic slots have to end."""
    room = tuple(Offer(f"slot1_{n}@host", ClassAd(), (f"id{n}", "next"), "<h:1>", False, True) for n in (1, 2))
    return Matched(request, "slot1@host", "<h:1>#1#1#secret", "<h:1>", ClassAd({"Cpus": 2}), 1.0, room=room)


def test_a_request_counts_down_as_matches_are_handed_out_and_keeps_all_else() -> None:
    schedd = ScheddConnection("ap", cast(Peer, None))
    schedd.announce(AnnounceWork(schedd="ap", requests=[REQUEST]))
    wanted = schedd.requests[0]
    assert wanted == JobRequest("ap", "ann@pool", 3, REQUEST.ad, 2, 5)
    schedd.handed([_matched(wanted)])
    assert schedd.requests == [JobRequest("ap", "ann@pool", 3, REQUEST.ad, 1, 5)]
    schedd.handed([_matched(wanted)])
    assert schedd.requests == []


@pytest.mark.parametrize(
    "said",
    [
        AnnounceWork(schedd="ap", requests=[like("ann@pool", 4, NUMBER_MAX + 1)]),
        AnnounceWork(schedd="ap", requests=[], in_use={"ann@pool": SubmitterHolds(slots=1 << 62, weight=1.0)}),
    ],
)
def test_more_than_anybody_has_is_refused_and_changes_nothing(said: AnnounceWork) -> None:
    """The sum of two such numbers would not fit into the negotiator's ad."""
    schedd = ScheddConnection("ap", cast(Peer, None))
    schedd.announce(AnnounceWork(schedd="ap", requests=[REQUEST]))
    with pytest.raises(UserError, match=rf"'ann@pool' has \d+ (jobs|slots) \(expected at most {NUMBER_MAX}\)"):
        schedd.announce(said)
    assert [one.autocluster for one in schedd.requests] == [3]
    assert schedd.in_use == {}


def test_jobs_that_are_alike_keep_their_places_at_each_priority() -> None:
    schedd = ScheddConnection("ap", cast(Peer, None))
    said = [(3, 9), (4, 7), (3, 5)]
    wanted = [
        ResourceRequest(submitter="ann@pool", autocluster=number, ad=REQUEST.ad, count=2, prio=prio)
        for number, prio in said
    ]
    schedd.announce(AnnounceWork(schedd="ap", requests=wanted))
    assert [(one.autocluster, one.prio) for one in schedd.requests] == said
    schedd.handed([_matched(schedd.requests[2])] * 3)  # whichever was matched: the first starts first
    assert [(one.autocluster, one.prio, one.count) for one in schedd.requests] == [(4, 7, 2), (3, 5, 1)]


def test_a_schedd_that_returns_a_match_wants_no_more_of_the_kind_until_it_says_so() -> None:
    schedd = ScheddConnection("ap", cast(Peer, None))
    others = [like("bob@pool", 3), like("ann@pool", 4)]
    said = AnnounceWork(schedd="ap", requests=[REQUEST, *others])
    schedd.announce(said)
    matched = _matched(schedd.requests[0])
    number = schedd.offer([matched])
    schedd.returned(["another id"])
    assert len(schedd.requests) == 3
    schedd.returned([matched.claim_id])
    assert [(one.submitter, one.autocluster) for one in schedd.requests] == [("bob@pool", 3), ("ann@pool", 4)]
    schedd.announce(AnnounceWork(schedd="ap", requests=[REQUEST, *others], heard=number))
    schedd.returned([matched.claim_id])  # it has known of that when it spoke
    assert len(schedd.requests) == 3


def test_a_match_is_sent_with_the_slots_that_have_to_end_for_it() -> None:
    matched = _matched(REQUEST.at("ap"))
    sent = OfferedMatch.of(matched, {"NegotiatorMatchExprA": "1 + 1"})
    assert (sent.submitter, sent.autocluster, sent.startd_address) == ("ann@pool", 3, "<h:1>")
    assert (sent.claim_id, sent.slot_ad) == (matched.claim_id, matched.slot_ad)
    assert sent.room == ["id1", "id2"]
    assert sent.exprs == {"NegotiatorMatchExprA": "1 + 1"}
