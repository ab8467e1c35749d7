"""The slot's ad: HTCondor's names, amounts that are free, and when nobody may match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pool.base.ids import ClaimId, JobId
from pool.classad import ClassAd, expr, is_match
from pool.slots.ad import SlotView, limits_expr, private_ad, share_between_slots, slot_ad
from pool.slots.claim import Activation, Claim, Holder
from pool.slots.lease import Lease
from pool.slots.provision.carve import Holding
from pool.slots.provision.resources import CPUS, DISK, MEMORY, Amounts
from pool.slots.provision.slot_types import SlotKind
from pool.slots.state_machine import Activity, SlotState, State

WHOLE = Amounts({CPUS: 4, MEMORY: 4096, DISK: 100_000, "GPUs": 2})
VIEW = SlotView(
    name="slot1@host",
    slot_id=1,
    dslot_id=0,
    type_id=0,
    kind=SlotKind.PARTITIONABLE,
    free=Holding(Amounts({CPUS: 3, MEMORY: 3000, DISK: 90_000, "GPUs": 1}), {"GPUs": ("CUDA1",)}),
    whole=WHOLE,
    state=SlotState(State.UNCLAIMED, Activity.IDLE, 100.0, 100.0),
    start=expr("true"),
    now=160.0,
)
BASE = ClassAd({"MyType": "Machine", "TargetType": "Job", "WithinResourceLimits": limits_expr(WHOLE)})


def a_job(**requests: object) -> ClassAd:
    return ClassAd({"Requirements": True, "RequestCpus": 1, "RequestMemory": 100, "RequestDisk": 100, **requests})


def test_what_is_free_is_shown_beside_what_the_slot_had() -> None:
    ad = slot_ad(BASE, VIEW)
    assert (ad["Cpus"], ad["TotalSlotCpus"], ad["GPUs"], ad["TotalSlotGPUs"]) == (3, 4, 1, 2)
    assert ad["AssignedGPUs"] == "CUDA1"
    assert (ad["SlotType"], ad["PartitionableSlot"], ad["SlotID"]) == ("Partitionable", True, 1)
    assert (ad["State"], ad["Activity"], ad["EnteredCurrentState"]) == ("Unclaimed", "Idle", 100)
    assert ad["TotalTimeUnclaimedIdle"] == 60
    assert "WithinResourceLimits" in BASE
    assert "Cpus" not in BASE


@pytest.mark.parametrize(
    ("job", "fits"),
    [
        (a_job(), True),
        (a_job(RequestCpus=4), False),
        (a_job(RequestMemory=3001), False),
        (a_job(RequestDisk=90_001), False),
        (a_job(RequestGPUs=1), True),
        (a_job(RequestGPUs=2), False),
        (ClassAd({"Requirements": True}), True),
    ],
)
def test_requirements_hold_for_what_fits(job: ClassAd, fits: bool) -> None:
    assert is_match(job, slot_ad(BASE, VIEW)) is fits


@pytest.mark.parametrize("state", [State.MATCHED, State.PREEMPTING, State.DRAINED])
def test_slots_that_cannot_be_had_match_nobody(state: State) -> None:
    ad = slot_ad(BASE, VIEW._replace(state=replace(VIEW.state, state=state)))
    assert not is_match(a_job(), ad)


def test_a_draining_slot_matches_nobody_unless_it_may() -> None:
    assert not is_match(a_job(), slot_ad(BASE, VIEW._replace(draining=True)))
    assert is_match(a_job(), slot_ad(BASE, VIEW._replace(draining=True, accept_while_draining=True)))


def test_a_claimed_slot_says_by_whom_and_for_which_job_but_no_secret() -> None:
    job = ClassAd({"User": "alice@pool", "JobUniverse": 5, "ImageSize": 70, "GlobalJobId": "s#1.0#9"})
    claim = Claim(
        claim_id=ClaimId("<a>#1#2#hush"),
        digest="",
        holder=Holder("schedd@pool", "group.alice@pool", job, "submit.pool"),
        lease=Lease(0, 2400),
        rank=3.0,
        claimed_at=0,
        claimed_wall=110,
        activation=Activation("x", JobId(1, 0), job, started_at=0, started_wall=120),
    )
    usage = ClassAd({"ImageSize": 90})
    view = VIEW._replace(kind=SlotKind.DYNAMIC, dslot_id=2, claim=claim, usage=usage, now_monotonic=40.0)
    ad = slot_ad(BASE, view)
    assert (ad["RemoteUser"], ad["RemoteOwner"], ad["ClientMachine"]) == (
        "alice@pool",
        "group.alice@pool",
        "submit.pool",
    )
    assert (ad["JobId"], ad["JobStart"], ad["TotalJobRunTime"], ad["TotalClaimRunTime"]) == ("1.0", 120, 40, 40)
    assert (ad["CurrentRank"], ad["ImageSize"], ad["GlobalJobId"]) == (3.0, 90, "s#1.0#9")
    assert "hush" not in ad.long()


def test_run_and_suspended_times_add_up_over_the_jobs_of_a_claim() -> None:
    job = ClassAd({})
    first = Activation("x", JobId(1, 0), job, started_at=0, started_wall=100).paused(now=30)
    holder = Holder("s@pool", "a@pool", job)
    claim = Claim(ClaimId("<a>#1#2#z"), "", holder, Lease(0, 2400), 0.0, 0, 100, activation=first)

    def shown(claim: Claim, now: float) -> list[object]:
        ad = slot_ad(BASE, VIEW._replace(kind=SlotKind.STATIC, claim=claim, now_monotonic=now))
        figures = (f"Total{whose}{what}Time" for whose in ("Job", "Claim") for what in ("Run", "Suspend"))
        return [ad.get(name) for name in figures]

    assert shown(claim, 50) == [30, 20, 30, 20]
    claim = claim.with_activation(first.resumed(now=60))
    assert shown(claim, 100) == [70, 30, 70, 30]
    claim = claim.without_job(now=100)
    assert shown(claim, 500) == [None, None, 70, 30]
    claim = claim.with_activation(Activation("y", JobId(1, 1), job, started_at=500, started_wall=600), started=True)
    assert shown(claim, 505) == [5, 0, 75, 30]


def test_a_partitionable_slot_lists_its_dynamic_slots() -> None:
    children = [ClassAd({"Name": f"slot1_{n}@host", "Cpus": n, "State": "Claimed", "GPUs": 0}) for n in (1, 2)]
    ad = slot_ad(BASE, VIEW._replace(children=children))
    assert (ad.eval("ChildName"), ad.eval("ChildCpus")) == (["slot1_1@host", "slot1_2@host"], [1, 2])
    assert len(ad.eval("ChildRemoteUser")) == 2
    assert ad.eval("ChildGPUs") == [0, 0]


def test_claim_ids_are_in_the_private_half() -> None:
    offers = [ClaimId("<a>#1#1#x"), ClaimId("<a>#1#2#y")]
    assert list(private_ad("slot1@host", SlotKind.PARTITIONABLE, offers)["ClaimIds"]) == offers
    assert private_ad("slot1@host", SlotKind.STATIC, offers)["ClaimId"] == offers[0]
    assert "ClaimId" not in private_ad("slot1@host", SlotKind.STATIC, [])


def test_slots_share_attributes_under_their_names() -> None:
    ads = {"slot1": ClassAd({"State": "Claimed"}), "slot2": ClassAd({"State": "Unclaimed"})}
    share_between_slots(ads, ["State", "Missing"])
    assert ads["slot1"]["slot2_State"] == "Unclaimed"
    assert ads["slot2"]["slot1_State"] == "Claimed"
    assert "slot1_Missing" not in ads["slot1"]
