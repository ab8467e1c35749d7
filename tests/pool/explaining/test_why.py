"""Why a job gets no slot, as the negotiation has it; and that columns say of slots what looking at each says."""

from __future__ import annotations

import pytest

from pool.accounting.limits import LimitTable
from pool.classad import ClassAd, expr
from pool.explaining.column_tests import ColumnTests
from pool.explaining.explain import analyze
from pool.explaining.why import Given, Refused, why_not
from pool.matching import CycleSettings, JobRequest, Offer, PreemptionPolicy, RankOrder, Snapshot, Standing
from tests.pool.explaining.test_explain import a_job, a_slot


def a_static_slot(**attributes: object) -> ClassAd:
    return ClassAd({"Name": "slot1@ep1", "Cpus": 1, "State": "Unclaimed", "Requirements": True, **attributes})


HELD = {"State": "Claimed", "RemoteOwner": "bob@pool.test", "RemoteUser": "bob@pool.test"}


def why(
    slot: ClassAd,
    *,
    refused: Refused | None = None,
    order: RankOrder | None = None,
    standings: dict[str, Standing] | None = None,
    limits: LimitTable | None = None,
    used: dict[str, float] | None = None,
    **job: object,
) -> str:
    request = JobRequest("", "alice@pool.test", 1, ClassAd({"Requirements": True, **job}), 1)
    held = "RemoteOwner" in slot
    settings = CycleSettings(order or RankOrder(), capacity=(limits or LimitTable()).capacity)
    offers = [] if held else [Offer("slot1@ep1", slot, ("claim",), "<10.0.0.1:1>", False, False)]
    snapshot = Snapshot(offers, [request], standings or {}, settings, limits_used=used or {})
    return " ".join(why_not(snapshot, request, [slot] if held else [], refused))


ALICE_AND_BOB = {"alice@pool.test": Standing(100.0, 1.0, 1), "bob@pool.test": Standing(500.0, 0.1, 1)}


def test_what_suits_and_was_not_in_a_cycle_yet_only_takes_time() -> None:
    assert "only a matter of time until the next" in why(a_static_slot())


def test_when_others_came_first_they_are_named_with_their_priorities() -> None:
    names = ["bob@pool.test", "alice@pool.test", "bob@pool.test"]
    given = [Given(name, a_static_slot()) for name in names]
    too_small = Given("carol@pool.test", a_static_slot(Requirements=False))
    refused = Refused("no match found", [*given, too_small])
    assert why(a_static_slot(), refused=refused, standings=ALICE_AND_BOB) == (
        "slot1@ep1 suits it, but in the last minute other jobs came first, by priority and share:"
        " 2 slots to bob@pool.test (effective priority 500), 1 slot to alice@pool.test (effective priority 100)."
        " alice@pool.test has 1 slot at effective priority 100; lower is better."
    )


def test_a_slot_that_has_become_free_since_only_takes_time() -> None:
    assert "is free since the last cycle: it is only a matter of time" in why(
        a_static_slot(), refused=Refused("no match found"), standings=ALICE_AND_BOB
    )


def test_a_limit_that_is_reached_is_named_with_its_use() -> None:
    said = why(a_static_slot(), limits=LimitTable({"license": 3.0}), used={"license": 3.0}, ConcurrencyLimits="license")
    assert said == "Concurrency limit license reached: 3 of 3 are in use."


def test_a_ceiling_that_is_reached_is_named() -> None:
    said = why(a_static_slot(), standings={"alice@pool.test": Standing(1.0, 2.0, 2, ceiling=2.0)})
    assert said == "The ceiling of alice@pool.test allows no more than 2."


@pytest.mark.parametrize(
    ("policy", "slot", "said"),
    [
        (PreemptionPolicy(consider=False), {}, "NEGOTIATOR_CONSIDER_PREEMPTION is false"),
        (PreemptionPolicy(), {"RetirementTimeRemaining": 600}, "have retirement time left"),
        (PreemptionPolicy(requirements=expr("false")), {}, "PREEMPTION_REQUIREMENTS is false"),
        (PreemptionPolicy(requirements=expr("true")), {"CurrentRank": 1.0}, "Rank prefers the jobs that run"),
        (PreemptionPolicy(requirements=expr("true")), {}, "is not worse by a factor of 1.2"),
    ],
)
def test_why_those_who_hold_what_suits_need_not_make_way(
    policy: PreemptionPolicy, slot: dict[str, object], said: str
) -> None:
    standings = {name: Standing(100.0, 1.0, 1) for name in ALICE_AND_BOB}
    told = why(a_static_slot(**HELD, Rank=0.0, **slot), order=RankOrder(preemption=policy), standings=standings)
    assert told.startswith("1 slot in use would suit it, but nobody has to make way: ")
    assert said in told


def test_requirements_of_preemption_that_do_not_hold_are_told() -> None:
    order = RankOrder(preemption=PreemptionPolicy(requirements=expr("RemoteUserPrio > 900")))
    said = why(a_static_slot(**HELD, Rank=0.0), order=order, standings=ALICE_AND_BOB)
    assert "nobody has to make way: PREEMPTION_REQUIREMENTS does not hold." in said
    assert "In use are 1 slot by bob@pool.test (effective priority 500)." in said


@pytest.mark.parametrize("extra", ["", "(Memory > 99999999) && ", "(TARGET.Cpus * 2 > 5 || TARGET.Memory < 100) && "])
def test_columns_say_of_slots_what_looking_at_each_says(extra: str) -> None:
    slots = [
        a_slot(
            Name=f"slot1@ep{number}",
            Machine=f"ep{number}",
            Cpus=number % 5,
            Memory=64 * (number % 7),
            Start=(expr('TARGET.Owner == "bob" || Cpus > 3'), True, False, expr("undefined"))[number % 4],
            PartitionableSlot=number % 3 > 0,
            State="Claimed" if number % 2 else "Unclaimed",
        )
        for number in range(120)
    ]
    for job in (a_job(extra), a_job(extra, Owner="bob"), a_job(extra, RequestMemory=300, RequestCpus=2)):
        assert analyze(job, slots, ColumnTests) == analyze(job, slots)


@pytest.mark.parametrize(
    "policy",
    [
        PreemptionPolicy(),
        PreemptionPolicy(early=True),
        PreemptionPolicy(requirements=expr("MY.Memory < 200 && RemoteUserPrio > SubmitterUserPrio * 1.2")),
        PreemptionPolicy(requirements=expr("MY.Memory < 200"), early=True),
    ],
)
@pytest.mark.parametrize(
    ("left", "ever"), [({}, True), ({"RetirementTimeRemaining": 0}, True), ({"RetirementTimeRemaining": 0}, False)]
)
def test_columns_say_of_holders_what_looking_at_each_says(
    policy: PreemptionPolicy, left: dict[str, object], ever: bool
) -> None:
    held = [
        a_static_slot(
            Name=f"slot1@ep{number}",
            State="Claimed",
            RemoteOwner=f"user{number % 3}@pool.test",
            Memory=64 * (number % 7),
            MyCurrentTime=1000 + number % 2,
            CurrentRank=float(number % 4),
            Rank=(0.0, 2.0)[number % 5 > 2],
            **(left | ({"RetirementTimeRemaining": 3} if ever and number % 11 == 5 else {})),
            **(
                {"PreemptingUser": f"user{number // 4 % 3}@pool.test", "PreemptingRank": 2.0} if number % 4 == 3 else {}
            ),
        )
        for number in range(200)
    ]
    standings = {f"user{number}@pool.test": Standing(50.0 + 100 * number, 1.0, 1) for number in range(3)}
    request = JobRequest("", "alice@pool.test", 1, ClassAd({"Requirements": expr("TARGET.Memory > 100")}), 1)
    settings = CycleSettings(RankOrder(preemption=policy))
    snapshot = Snapshot([], [request], {"alice@pool.test": Standing(100.0), **standings}, settings, now=1002.0)
    said = why_not(snapshot, request, held, None)
    assert len(said) > 2
    assert why_not(snapshot, request, held, None, tests=ColumnTests) == said
