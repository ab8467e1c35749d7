"""Slots less what was handed out: when a claim id may be offered again."""

from __future__ import annotations

from pool.accounting import SubmitterUse
from pool.classad import ClassAd
from pool.matching import HandedOut, Offers, SlotHolders
from pool.slots.provision.resources import Amounts


def a_slot(name: str = "p", cpus: int = 4, **attributes: object) -> ClassAd:
    given = {"Name": name, "MyAddress": "<a>", "State": "Unclaimed", "Cpus": cpus, "Memory": 4096, "Disk": 1000}
    return ClassAd({**given, **attributes})


def handed(claim_id: str, slot: str = "p", *, cpus: int = 1, at: float = 0.0, schedd: str = "ap") -> HandedOut:
    return HandedOut(claim_id, slot, schedd, Amounts({"Cpus": cpus}), at)


def offered(offers: Offers) -> dict[str, tuple[int | None, tuple[str, ...]]]:
    return {offer.name: (offer.ad.eval_int("Cpus"), offer.claim_ids) for offer in offers.current()}


def a_purse(*ids: str) -> ClassAd:
    return ClassAd({"ClaimIds": list(ids)})


def test_what_is_handed_out_is_taken_off_until_its_id_is_gone_from_the_ad() -> None:
    offers = Offers()
    offers.put(a_slot(PartitionableSlot=True), a_purse("i1", "i2", "i3"))
    offers.hand_out(handed("i1", cpus=2))
    assert offered(offers) == {"p": (2, ("i2", "i3"))}
    offers.put(a_slot(PartitionableSlot=True, LoadAvg=1.0), a_purse("i1", "i2", "i3"))  # not claimed yet
    assert offered(offers) == {"p": (2, ("i2", "i3"))}
    offers.put(a_slot(cpus=2, PartitionableSlot=True), a_purse("i2", "i3", "i4"))
    assert offered(offers) == {"p": (2, ("i2", "i3", "i4"))}


def test_a_returned_id_is_offered_again_but_not_at_another_schedds_word() -> None:
    offers = Offers()
    offers.put(a_slot(), ClassAd({"ClaimId": "one"}))
    offers.hand_out(handed("one"))
    assert offered(offers) == {}
    assert offers.give_back(["one"], "somebody else") == 0
    assert offered(offers) == {}
    assert offers.give_back(["one", "unknown"], "ap") == 1
    assert offered(offers) == {"p": (4, ("one",))}


def test_a_lost_schedd_and_a_timeout_give_back_too() -> None:
    offers = Offers()
    offers.put(a_slot(), ClassAd({"ClaimId": "one"}))
    offers.put(a_slot("q"), ClassAd({"ClaimId": "two"}))
    offers.hand_out(handed("one", schedd="lost"))
    offers.hand_out(handed("two", "q", at=10.0))
    assert offers.next_expiry(120.0) == 120.0
    assert offers.schedd_gone("lost") == 1
    assert set(offered(offers)) == {"p"}
    assert offers.expire(129.0, 120.0) == 0
    assert offers.expire(130.0, 120.0) == 1
    assert set(offered(offers)) == {"p", "q"}


def test_use_is_what_slots_and_schedds_agree_on() -> None:
    holders = SlotHolders()
    holders.hear("ap", {"d1": "alice@p", "d2": "alice@p", "d3": "bob@p", "p": "alice@p"}, [], anew=True)
    offers = Offers()
    claimed = {"State": "Claimed", "RemoteOwner": "alice@p", "RemoteUser": "alice@p"}
    offers.put(a_slot("d1", cpus=2, **claimed), None)
    offers.put(a_slot("d2", cpus=1, SlotWeight=5, **claimed), None)
    offers.put(a_slot("d3", cpus=9, **claimed), None)
    offers.put(a_slot("d4", cpus=9, **claimed), None)
    offers.put(a_slot("p", PartitionableSlot=True, **claimed), a_purse("i1"))
    offers.hand_out(handed("i1", cpus=3))
    assert offers.use(holders) == {"alice@p": SubmitterUse(2, 7.0)}


def test_a_slot_that_is_gone_takes_what_was_handed_out_with_it() -> None:
    offers = Offers()
    offers.put(a_slot(), ClassAd({"ClaimId": "one"}))
    offers.hand_out(handed("one"))
    offers.remove("p")
    offers.put(a_slot(), ClassAd({"ClaimId": "one"}))
    assert set(offered(offers)) == {"p"}
