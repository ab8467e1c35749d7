"""Who gets which slots: shares, order, carving, and what is left without."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pool.classad import ClassAd, Expr, expr
from pool.classad.values import environment
from pool.matching import (
    CyclePlan,
    CycleSettings,
    JobRequest,
    Offer,
    Offers,
    PreemptionPolicy,
    RankOrder,
    Snapshot,
    Standing,
    negotiate,
    shares,
)
from pool.matching.candidates import evaluate_each
from pool.matching.columnar import ColumnEvaluator
from pool.matching.preempt import may_be_preempted


def a_slot(
    name: str, *, ids: int = 1, partitionable: bool = False, claimed: bool = False, **attributes: object
) -> Offer:
    ad = ClassAd(
        {
            "MyType": "Machine",
            "Name": name,
            "MyAddress": "<10.0.0.1:9618>",
            "State": "Claimed" if claimed else "Unclaimed",
            "Cpus": 1,
            "Memory": 1024,
            "Disk": 1_000_000,
            "Requirements": expr("Start"),
            "Start": True,
            "PartitionableSlot": partitionable,
            "SlotWeight": expr("Cpus"),
            **attributes,
        }
    )
    claim_ids = tuple(f"<10.0.0.1:9618>#1#{name}.{n}#secret" for n in range(ids))
    return Offer(name, ad, claim_ids, "<10.0.0.1:9618>", partitionable, claimed)


def a_pslot(name: str, cpus: int, *, memory: int = 16384, **attributes: object) -> Offer:
    resources = {"Cpus": cpus, "Memory": memory, "Disk": 10_000_000, "MachineResources": "Cpus Memory Disk Swap"}
    fits = "Start && TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory"
    return a_slot(name, ids=cpus, partitionable=True, **{**resources, "Requirements": expr(fits), **attributes})


def a_request(
    submitter: str = "alice@pool", count: int = 1, *, schedd: str = "ap1", prio: int = 0, **ad: object
) -> JobRequest:
    job = {"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1, "Requirements": True, **ad}
    return JobRequest(schedd, submitter, abs(hash((submitter, str(ad)))) % 1000, ClassAd(job), count, prio)


def by_submitter(plan: CyclePlan) -> dict[str, int]:
    return dict(Counter(matched.request.submitter for matched in plan.matches))


def test_a_job_gets_a_slot_that_both_want() -> None:
    slots = [a_slot("old", Start=False), a_slot("small", Memory=64), a_slot("good")]
    wanting = a_request(Requirements=expr("TARGET.Memory >= 512"))
    plan = negotiate(Snapshot(slots, [wanting]))
    assert [(m.slot, m.claim_id) for m in plan.matches] == [("good", "<10.0.0.1:9618>#1#good.0#secret")]
    assert plan.rejections == []
    assert plan.charges == {"alice@pool": 1.0}


def test_what_finds_no_slot_is_rejected_and_does_not_hold_up_the_next() -> None:
    hopeless = a_request(prio=10, Requirements=expr("TARGET.Memory > 99999"))
    modest = a_request()
    plan = negotiate(Snapshot([a_slot("s")], [modest, hopeless]))
    assert [m.request for m in plan.matches] == [modest]
    assert [(r.request, r.unmatched, r.reason) for r in plan.rejections] == [(hopeless, 1, "no match found")]


def test_equal_submitters_get_equal_shares() -> None:
    slots = [a_slot(f"s{n}") for n in range(10)]
    plan = negotiate(Snapshot(slots, [a_request("a@p", 50), a_request("b@p", 50)]))
    assert by_submitter(plan) == {"a@p": 5, "b@p": 5}


def test_shares_count_what_is_held_already() -> None:
    slots = [a_slot(f"s{n}") for n in range(4)]
    held = Snapshot(slots, [a_request("a@p", 50), a_request("b@p", 50)], standings={"a@p": Standing(use=4.0)})
    assert by_submitter(negotiate(held)) == {"b@p": 4}


@pytest.mark.parametrize(
    ("priorities", "expected"),
    [((5.0, 50.0), {"a@p": 20, "b@p": 2}), ((10.0, 20.0), {"a@p": 15, "b@p": 7})],
    ids=["ten to one", "two to one"],
)
def test_shares_are_inverse_to_priority(priorities: tuple[float, float], expected: dict[str, int]) -> None:
    slots = [a_slot(f"s{n}") for n in range(22)]
    standings = {name: Standing(priority) for name, priority in zip(("a@p", "b@p"), priorities, strict=True)}
    plan = negotiate(Snapshot(slots, [a_request("a@p", 99), a_request("b@p", 99)], standings))
    assert by_submitter(plan) == expected


def test_who_wants_less_than_the_share_leaves_the_rest_to_others() -> None:
    slots = [a_slot(f"s{n}") for n in range(10)]
    plan = negotiate(Snapshot(slots, [a_request("a@p", 50), a_request("b@p", 2)]))
    assert by_submitter(plan) == {"a@p": 8, "b@p": 2}


def test_one_user_at_two_schedds_has_one_share() -> None:
    slots = [a_slot(f"s{n}") for n in range(8)]
    wanted = [a_request("a@p", 9, schedd="x"), a_request("a@p", 9, schedd="y", Mark=1), a_request("b@p", 9)]
    assert by_submitter(negotiate(Snapshot(slots, wanted))) == {"a@p": 4, "b@p": 4}


def test_jobs_of_one_submitter_come_in_the_order_that_their_schedd_says() -> None:
    high, low = a_request(count=3, prio=-1, Mark=1), a_request(count=5, prio=7, Mark=0)  # of PreJobPrio1, say
    plan = negotiate(Snapshot([a_slot(f"s{n}") for n in range(4)], [high, low]))
    assert [m.request.prio for m in plan.matches] == [-1, -1, -1, 7]


@pytest.mark.parametrize(("across", "order"), [(False, ["x", "x", "y", "y"]), (True, ["y", "x", "x", "y"])])
def test_priorities_count_across_schedds_only_where_that_is_configured(across: bool, order: list[str]) -> None:
    wanted = [
        a_request(schedd="x", prio=4, Mark=1),
        a_request(schedd="x", prio=2, Mark=2),
        a_request(schedd="y", prio=9, Mark=3),
        a_request(schedd="y", prio=2, Mark=4),
    ]
    slots = [a_slot(f"s{n}") for n in range(4)]
    plan = negotiate(Snapshot(slots, wanted, settings=CycleSettings(global_prios=across)))
    assert [m.request.schedd for m in plan.matches] == order


def test_the_jobs_rank_orders_its_slots() -> None:
    slots = [a_slot("slow", Mips=10), a_slot("fast", Mips=1000), a_slot("middling", Mips=100)]
    plan = negotiate(Snapshot(slots, [a_request(count=3, Rank=expr("TARGET.Mips"))]))
    assert [m.slot for m in plan.matches] == ["fast", "middling", "slow"]


def test_the_pre_job_rank_comes_before_the_jobs_rank_and_the_post_job_rank_after() -> None:
    slots = [a_slot("a", Pre=0, Mips=9, Post=9), a_slot("b", Pre=1, Mips=5, Post=1), a_slot("c", Pre=1, Mips=5, Post=2)]
    order = RankOrder(pre=expr("MY.Pre"), post=expr("MY.Post"))
    wanted = a_request(count=3, Rank=expr("TARGET.Mips"))
    plan = negotiate(Snapshot(slots, [wanted], settings=CycleSettings(order)))
    assert [m.slot for m in plan.matches] == ["c", "b", "a"]


@pytest.mark.parametrize("nothing", [expr("NoSuch"), expr("1 / 0"), expr('"much"')])
@pytest.mark.parametrize("count", [3, 40])
def test_a_slot_whose_rank_is_no_number_comes_last(nothing: Expr, count: int) -> None:
    slots = [a_slot("unknown", Load=nothing), *(a_slot(f"s{n}", Load=n + 1) for n in range(count))]
    for order in (RankOrder(pre=expr("-MY.Load")), RankOrder(post=expr("-MY.Load"))):
        snapshot = Snapshot(slots, [a_request(count=count + 1)], settings=CycleSettings(order))
        for evaluate in (evaluate_each, ColumnEvaluator()):
            plan = negotiate(snapshot, evaluate)
            assert [m.slot for m in plan.matches] == [*(f"s{n}" for n in range(count)), "unknown"]


def test_whose_preemption_rank_is_no_number_is_moved_aside_last() -> None:
    slots = [a_slot(name, claimed=True, RemoteUser=f"{name}@p", Rank=1.0, Worth=worth) for name, worth in
             (("a", expr("NoSuch")), ("b", -7))]  # fmt: skip
    policy = PreemptionPolicy(rank=expr("MY.Worth"))
    plan = negotiate(Snapshot(slots, [a_request()], settings=CycleSettings(RankOrder(preemption=policy))))
    assert [m.slot for m in plan.matches] == ["b"]


def test_a_partitionable_slot_is_carved_until_it_is_full() -> None:
    plan = negotiate(Snapshot([a_pslot("p", 8)], [a_request(count=5, RequestCpus=3, RequestMemory=2048)]))
    assert len(plan.matches) == 2
    assert len({m.claim_id for m in plan.matches}) == 2
    assert [(m.slot_ad["Cpus"], m.slot_ad["Memory"], m.weight) for m in plan.matches] == [(3, 2048, 3.0)] * 2
    assert [r.unmatched for r in plan.rejections] == [3]
    assert plan.charges == {"alice@pool": 6.0}


def test_carving_by_one_is_seen_by_all() -> None:
    wanted = [a_request("a@p", 9, RequestCpus=2), a_request("b@p", 9, RequestCpus=2)]
    plan = negotiate(Snapshot([a_pslot("p", 8), a_pslot("q", 2)], wanted))
    assert sorted(by_submitter(plan).values()) == [2, 3]
    assert sum(m.weight for m in plan.matches) == 10


def test_custom_resources_are_carved_too() -> None:
    slot = a_pslot("p", 8, GPUs=2, MachineResources="Cpus Memory Disk Swap GPUs")
    plan = negotiate(
        Snapshot([slot], [a_request(count=5, RequestGPUs=1, Requirements=expr("TARGET.GPUs >= RequestGPUs"))])
    )
    assert len(plan.matches) == 2


def test_a_claimed_slot_is_taken_when_its_owner_ranks_the_job_higher() -> None:
    ranks = {"Rank": expr('TARGET.Owner == "coltrane"'), "CurrentRank": 0.0, "RemoteUser": "x@p"}
    slots = [a_slot("s", claimed=True, **ranks)]
    assert negotiate(Snapshot(slots, [a_request(Owner="stranger")])).matches == []
    assert [m.slot for m in negotiate(Snapshot(slots, [a_request(Owner="coltrane")])).matches] == ["s"]


def test_a_job_with_retirement_left_is_spared() -> None:
    ranks = {"Rank": 5, "CurrentRank": 0.0, "RemoteUser": "x@p", "MaxJobRetirementTime": 100, "JobStart": 1000}
    slots = [a_slot("s", claimed=True, **ranks)]
    assert negotiate(Snapshot(slots, [a_request()], now=1050.0)).matches == []
    assert len(negotiate(Snapshot(slots, [a_request()], now=1101.0)).matches) == 1


BY_PRIORITY = PreemptionPolicy(
    requirements=expr("RemoteUserResourcesInUse > SubmitterUserResourcesInUse"),
    rank=expr("(RemoteUserPrio * 1000000) - ifThenElse(isUndefined(TotalJobRunTime), 0, TotalJobRunTime)"),
)


def a_full_pool(held: dict[str, str], *requests: JobRequest, **priority: float) -> Snapshot:
    """Slots with their holders, and submitters' effective priorities."""
    slots = [a_slot(name, claimed=True, RemoteOwner=f"{who}@p", CurrentRank=0.0) for name, who in held.items()]
    counts = Counter(f"{who}@p" for who in held.values())
    return Snapshot(
        slots,
        requests,
        {f"{name}@p": Standing(value, counts[f"{name}@p"], counts[f"{name}@p"]) for name, value in priority.items()},
        settings=CycleSettings(order=RankOrder(preemption=BY_PRIORITY)),
    )


def test_a_better_priority_takes_no_more_than_the_submitters_share() -> None:
    held = dict.fromkeys(["s1", "s2", "s3", "s4"], "greedy")
    plan = negotiate(a_full_pool(held, a_request("late@p", count=9), greedy=601.0, late=500.0))
    assert by_submitter(plan) == {"late@p": 2}
    assert negotiate(a_full_pool(held, a_request("late@p"), greedy=600.0, late=500.0)).matches == []


def test_whoever_has_nothing_gets_one_slot_although_his_share_is_less() -> None:
    plan = negotiate(a_full_pool({"s1": "greedy"}, a_request("late@p", count=9), greedy=601.0, late=500.0))
    assert by_submitter(plan) == {"late@p": 1}


def test_the_worst_user_is_moved_aside_first() -> None:
    held = {"s1": "fair", "s2": "worst", "s3": "bad", "s4": "fair", "s5": "worst", "s6": "bad"}
    plan = negotiate(a_full_pool(held, a_request("late@p"), fair=500.1, bad=700.0, worst=900.0, late=500.0))
    assert [matched.slot for matched in plan.matches] == ["s2"]


def test_a_better_priority_takes_no_slot_whose_owner_ranks_the_job_lower() -> None:
    snapshot = a_full_pool({"s1": "loved"}, a_request("late@p"), loved=900.0, late=500.0)
    slots = [replace(slot, ad=ClassAd({"CurrentRank": 5.0, "Rank": 0.0}, parent=slot.ad)) for slot in snapshot.slots]
    assert negotiate(snapshot).matches != []
    assert negotiate(replace(snapshot, slots=slots)).matches == []


def test_a_slot_that_no_job_can_take_is_no_candidate() -> None:
    offers = Offers()
    claim = ClassAd({"ClaimId": "<10.0.0.1:9618>#1#secret"})
    for name, ranked in (("fixed", "0.0"), ("choosy", "TARGET.Loved")):
        slot = a_slot(name, claimed=True, CurrentRank=0.0, Rank=expr(ranked), MyAddress="<10.0.0.1:9618>").ad
        offers.put(slot, claim)
    held, choosy = offers.current()
    assert not may_be_preempted(held, PreemptionPolicy())
    assert not may_be_preempted(held, PreemptionPolicy(requirements=expr("False")))
    assert may_be_preempted(held, BY_PRIORITY)
    assert not may_be_preempted(held, replace(BY_PRIORITY, consider=False))
    assert may_be_preempted(choosy, PreemptionPolicy())


def a_family(ranks: dict[str, float], cpus: int = 0, **attributes: object) -> Snapshot:
    """A partitionable slot with `cpus` free cores, all else in dynamic slots of one core; RANK is the job's Loved."""
    by_rank = {"Rank": expr("TARGET.Loved ?: 0"), **attributes}
    parent = a_pslot("p", cpus, ChildName=list(ranks), **by_rank)
    slots = [
        a_slot(name, claimed=True, DynamicSlot=True, RemoteOwner="x@p", CurrentRank=ranked, **by_rank)
        for name, ranked in ranks.items()
    ]
    policy = PreemptionPolicy(together=True)
    found = [*slots, parent] if cpus else slots
    return Snapshot(found, [], settings=CycleSettings(order=RankOrder(preemption=policy)), parents=[parent])


def test_dynamic_slots_end_together_for_a_job_that_is_larger_than_each_the_least_ranked_first() -> None:
    snapshot = a_family({"p_1": 3.0, "p_2": 1.0, "p_3": 2.0}, cpus=1)
    plan = negotiate(replace(snapshot, requests=[a_request(RequestCpus=3, Loved=9)]))
    (matched,) = plan.matches
    assert [one.name for one in matched.room] == ["p_2", "p_3"]
    assert (matched.slot, matched.claim_id) == ("p", matched.room[0].claim_ids[0])
    assert matched.slot_ad["Cpus"] == 3
    assert negotiate(replace(snapshot, requests=[a_request(RequestCpus=3, Loved=1)])).matches == []
    assert negotiate(replace(snapshot, requests=[a_request(RequestCpus=5, Loved=9)])).matches == []


def test_a_free_slot_comes_before_room_that_others_have_to_make() -> None:
    snapshot = a_family({"p_1": 0.0, "p_2": 0.0}, cpus=1)
    plan = negotiate(replace(snapshot, requests=[a_request(count=2, Loved=9)]))
    assert sorted(len(matched.room) for matched in plan.matches) == [0, 1]


def test_no_room_is_made_of_slots_whose_retirement_is_not_over() -> None:
    snapshot = a_family({"p_1": 0.0, "p_2": 0.0}, RetirementTimeRemaining=50)
    assert negotiate(replace(snapshot, requests=[a_request(Loved=9)])).matches == []


def test_shares_add_up() -> None:
    assert shares({"a": 5.0, "b": 50.0}) == pytest.approx({"a": 10 / 11, "b": 1 / 11})
    assert shares({}) == {}


@settings(max_examples=60, deadline=None)
@given(
    cpus=st.lists(st.integers(1, 16), min_size=1, max_size=6),
    wants=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.integers(1, 12)), max_size=6),
)
def test_p7_no_slot_promises_more_than_it_has(cpus: list[int], wants: list[tuple[str, int, int]]) -> None:
    slots = [a_pslot(f"p{n}", count) for n, count in enumerate(cpus)]
    requests = [a_request(f"{who}@p", count, RequestCpus=size, Mark=n) for n, (who, size, count) in enumerate(wants)]
    plan = negotiate(Snapshot(slots, requests))
    taken = Counter[str]()
    for matched in plan.matches:
        taken[matched.slot] += matched.slot_ad.eval_int("Cpus", 0)
    assert all(taken[slot.name] <= slot.ad.eval_int("Cpus", 0) for slot in slots)
    assert len({m.claim_id for m in plan.matches}) == len(plan.matches)
    asked = sum(count for _, _, count in wants)
    assert len(plan.matches) + sum(r.unmatched for r in plan.rejections) == asked
    for rejected in plan.rejections:  # nothing that would fit was left over
        size = rejected.request.ad.eval_int("RequestCpus", 0)
        assert all(slot.ad.eval_int("Cpus", 0) - taken[slot.name] < size for slot in slots)


def a_gpu_slot() -> Offer:
    devices = {
        f"GPUs_GPU_{name}": ClassAd({"Id": f"GPU-{name}", "Capability": capability})
        for name, capability in (("old", 2.0), ("new", 8.0), ("newer", 9.0))
    }
    listed = expr(f"{{ {', '.join(devices)} }}")
    resources = "Cpus Memory Disk Swap GPUs"
    return a_pslot("gpus", 8, GPUs=3, MachineResources=resources, AvailableGPUs=listed, **devices)


def test_jobs_that_require_certain_devices_get_different_ones_in_one_cycle() -> None:
    wants = expr("countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs")
    new = a_request("alice", 3, RequestGPUs=1, RequireGPUs=expr("Capability >= 8"), Requirements=wants)
    old = a_request("bob", 2, RequestGPUs=1, RequireGPUs=expr("Capability < 8"), Requirements=wants)
    plan = negotiate(Snapshot([a_gpu_slot()], [new, old]))
    given = sorted((m.request.submitter, m.slot_ad.eval("AssignedGPUs")) for m in plan.matches)
    assert given == [("alice", "GPU-new"), ("alice", "GPU-newer"), ("bob", "GPU-old")]
    assert sorted((r.request.submitter, r.unmatched) for r in plan.rejections) == [("alice", 1), ("bob", 1)]


def test_a_consumption_policy_carves_and_the_difference_of_weights_is_charged() -> None:
    slot = a_pslot(
        "mine",
        8,
        ConsumptionCpus=expr("TARGET.RequestCpus * 2"),
        ConsumptionMemory=expr("quantize(TARGET.RequestMemory, {128})"),
        ConsumptionDisk=expr("quantize(TARGET.RequestDisk, {1024})"),
        Requirements=expr("Start && MY.Cpus >= MY.ConsumptionCpus"),
    )
    plan = negotiate(Snapshot([slot], [a_request(count=9)]))
    assert [matched.slot_ad.eval("Cpus") for matched in plan.matches] == [2, 2, 2, 2]
    assert [matched.slot_ad.eval("Memory") for matched in plan.matches] == [128] * 4
    assert plan.charges == {"alice@pool": 8.0}


def a_dear_expression(part: str = '"a"') -> object:
    text = " && ".join(f'isError(regexp("(a|aa)+${i}", strcat({part}, "{"a" * 50}X")))' for i in range(40))
    return expr(f"({text}) || true")


@pytest.fixture
def a_clock() -> None:
    environment.install(cpu=time.thread_time)


def test_dear_slots_cost_their_startd_and_no_job(a_clock: None) -> None:
    def at(offer: Offer, host: str) -> Offer:
        return replace(offer, address=host)

    for bad in ({"Start": a_dear_expression()}, {"HasFoo": a_dear_expression()}):
        slots = [at(a_slot(f"bad{i}", **bad), "<10.0.0.66:9618>") for i in range(20)] + [a_slot("good")]
        job = a_request(Requirements=expr("TARGET.HasFoo =!= 7"), count=2)
        plan = negotiate(Snapshot(slots, [job, a_request("bob@pool")]))
        assert [m.slot for m in plan.matches] == ["good"]
        assert list(plan.left_out) == ["<10.0.0.66:9618>"]
        assert not any(rejected.dear for rejected in plan.rejections)


def test_a_dear_job_is_named_and_no_startd_left_out(a_clock: None) -> None:
    plan = negotiate(Snapshot([a_slot(f"s{i}") for i in range(20)], [a_request(Requirements=a_dear_expression())]))
    assert plan.rejections[0].dear.startswith("Requirements")
    assert not plan.left_out
    slots = [a_slot(f"s{i}", Start=expr("TARGET.Trap =!= 3")) for i in range(20)]
    plan = negotiate(Snapshot(slots, [a_request(Trap=a_dear_expression())]))
    assert plan.rejections[0].dear.startswith("Trap")
    assert not plan.left_out


@pytest.mark.parametrize(("depth_first", "taken"), [(False, "ababab"), (True, "aaabbb")])
def test_a_machine_is_filled_before_the_next_only_where_that_is_configured(depth_first: bool, taken: str) -> None:
    roomiest = RankOrder(pre=expr("MY.Cpus"), depth_first=depth_first)
    slots = [a_pslot("a", 3), a_pslot("b", 3)]
    plan = negotiate(Snapshot(slots, [a_request(count=6)], settings=CycleSettings(order=roomiest)))
    assert "".join(matched.slot for matched in plan.matches) == taken


@pytest.mark.parametrize(
    ("slot", "leftovers", "taken"),
    [({}, True, "aaabbb"), ({"ClaimPartitionableLeftovers": False}, True, "ab"), ({}, False, "ab")],
)
def test_a_cycle_gives_one_job_of_a_slot_whose_leftovers_startd_or_schedd_do_not_want(
    slot: dict[str, object], leftovers: bool, taken: str
) -> None:
    slots = [a_pslot("a", 3, **slot), a_pslot("b", 3, **slot)]
    plan = negotiate(Snapshot(slots, [replace(a_request(count=6), leftovers=leftovers)]))
    assert "".join(matched.slot for matched in plan.matches) == taken
    assert sum(one.unmatched for one in plan.rejections) == 6 - len(taken)


def test_a_consumption_policy_divides_a_slot_whatever_is_said_of_leftovers() -> None:
    consumes = {f"Consumption{name}": expr(f"TARGET.Request{name}") for name in ("Cpus", "Memory", "Disk")}
    slot = a_pslot("a", 3, ClaimPartitionableLeftovers=False, NumDynamicSlots=0, **consumes)
    plan = negotiate(Snapshot([slot], [replace(a_request(count=6), leftovers=False)]))
    assert len(plan.matches) == 3
