"""Which pieces of custom resources jobs and slots get, and that nothing is given away twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd, expr
from pool.slots.provision.carve import Holding, Rounding, carve, fit_request, give_back, set_aside
from pool.slots.provision.consumption import consumption_attributes
from pool.slots.provision.pieces import answers, choose, take_distinct, without
from pool.slots.provision.resources import CPUS, DISK, MEMORY, Amounts

DEVICES = {
    "old": ClassAd({"Id": "old", "Capability": 2.0, "GlobalMemoryMb": 1536}),
    "mid": ClassAd({"Id": "mid", "Capability": 7.5, "GlobalMemoryMb": 24220}),
    "new": ClassAd({"Id": "new", "Capability": 8.0, "GlobalMemoryMb": 40536}),
}


def wanting(required: str, **more: object) -> ClassAd:
    return ClassAd({"RequireGPUs": expr(required), **more})


@pytest.mark.parametrize(
    ("required", "count", "given"),
    [
        ("Capability >= 8", 1, ("new",)),
        ("Capability < 8", 2, ("old", "mid")),
        ("Capability > 2 && GlobalMemoryMb >= MinMemory", 2, ("mid", "new")),
        ('Id == "mid"', 1, ("mid",)),
        ("Capability >= 8", 2, None),
        ("NoSuchThing > 1", 1, None),
        ("Capability >= 8", 0, ()),
    ],
)
def test_a_job_gets_devices_that_its_expression_is_true_for(
    required: str, count: int, given: tuple[str, ...] | None
) -> None:
    assert choose("GPUs", list(DEVICES), count, wanting(required, MinMemory=2000), DEVICES) == given


def test_whoever_is_not_particular_gets_the_first() -> None:
    assert choose("GPUs", list(DEVICES), 2, ClassAd(), DEVICES) == ("old", "mid")
    assert choose("GPUs", ["a"], 2, None, {}) is None


def test_a_device_that_is_there_twice_is_given_to_one_job_twice_only_when_there_is_no_other() -> None:
    assert take_distinct(["a", "b", "a", "b"], 2) == ("a", "b")
    assert take_distinct(["a", "a", "b", "b"], 2) == ("a", "b")
    assert take_distinct(["a", "a"], 2) == ("a", "a")
    assert without(["a", "b", "a"], ["a"]) == ("b", "a")


@pytest.mark.parametrize(
    ("constraint", "meant"), [("Capability >= 7", ["mid", "new"]), ('"old"', ["old"]), ("true", ["old", "mid", "new"])]
)
def test_a_slot_types_constraint_is_an_id_or_asked_of_the_properties(constraint: str, meant: list[str]) -> None:
    assert [one for one, ad in DEVICES.items() if answers(expr(constraint), ad)] == meant


def a_policy(**rules: str) -> ClassAd:
    read = {f"CONSUMPTION_{name}".lower(): expr(rule) for name, rule in rules.items()}
    whole = Amounts({CPUS: 8, MEMORY: 8, DISK: 8, "GPUs": 1, "Toys": 0})
    return ClassAd(dict(consumption_attributes(whole, lambda name: read.get(name.lower()))))


def test_a_consumption_policy_says_what_a_match_takes() -> None:
    slot = a_policy(Cpus="TARGET.RequestCpus * 2", GPUs="TARGET.RequestGPUs ?: 0")
    job = ClassAd({"RequestCpus": 1, "RequestMemory": 100, "RequestDisk": 1500})
    free = Amounts({CPUS: 8, MEMORY: 1000, DISK: 10_000, "GPUs": 1})
    assert fit_request(job, slot, free, Rounding()) == Amounts({CPUS: 2, MEMORY: 128, DISK: 2048, "GPUs": 0})
    job["RequestGPUs"] = 2
    with pytest.raises(UserError, match="not enough GPUs"):
        fit_request(job, slot, free, Rounding())


@pytest.mark.parametrize("rule", ["undefined", '"two"', "-1", "true", "1/0"])
def test_a_consumption_that_is_no_amount_matches_nothing(rule: str) -> None:
    job = ClassAd({"RequestCpus": 1, "RequestMemory": 1, "RequestDisk": 1})
    free = Amounts({CPUS: 8, MEMORY: 1000, DISK: 10_000, "GPUs": 0})
    with pytest.raises(UserError, match="ConsumptionCpus gives no amount"):
        fit_request(job, a_policy(Cpus=rule, GPUs="0"), free, Rounding())


@pytest.mark.parametrize(("asks", "takes"), [({}, 0), ({"RequestGPUs": 1}, 1)])
def test_a_match_takes_what_its_job_asks_for_of_a_resource_without_a_rule(asks: dict[str, int], takes: int) -> None:
    """So condor_startd does, though the manual has no default for custom resources."""
    job = ClassAd({"RequestCpus": 1, "RequestMemory": 100, "RequestDisk": 1500, **asks})
    free = Amounts({CPUS: 8, MEMORY: 1000, DISK: 10_000, "GPUs": 1})
    assert fit_request(job, a_policy(), free, Rounding())["GPUs"] == takes


WHOLE = Amounts({CPUS: 16, MEMORY: 8192, DISK: 1_000_000, "VirtualMemory": 1000, "GPUs": 6, "Toys": 2, "Cogs": 9})
IDS = {"GPUs": ("a", "b", "c", "a", "b", "c"), "Toys": ("x", "y")}
PROPERTIES = {"GPUs": {one: ClassAd({"Id": one, "Capability": at}) for at, one in enumerate("abc")}}


@pytest.mark.parametrize("seed", range(20))
def test_p7_carving_with_named_pieces_shared_devices_and_fractions_adds_up(seed: int) -> None:
    rng = random.Random(seed)
    parent, children = Holding(WHOLE, IDS), list[tuple[ClassAd, Holding]]()
    for _ in range(200):
        if children and rng.random() < 0.45:
            parent = give_back(parent, children.pop(rng.randrange(len(children)))[1])
        else:
            job = ClassAd(
                {
                    "RequestCpus": rng.choice([1, 2, 3]),
                    "RequestMemory": rng.randrange(1, 3000),
                    "RequestDisk": rng.randrange(1, 300_000),
                    "RequestGPUs": rng.choice([0, 1, 1, 2, 4]),
                    "RequestToys": rng.choice([0, 0, 1, 2]),
                    "RequestCogs": rng.choice([0, 0.5, 2.25, 3]),
                }
            )
            if rng.random() < 0.5:
                job["RequireGPUs"] = expr(f"Capability >= {rng.randrange(3)}")
            try:
                wanted = fit_request(job, ClassAd(), parent.amounts, Rounding())
                child, parent = carve(parent, wanted, WHOLE, job, PROPERTIES)
            except UserError:
                continue
            children.append((job, child))
            assert len(child.ids["GPUs"]) == wanted.of("GPUs")
            if "RequireGPUs" in job:
                assert all(choose("GPUs", [one], 1, job, PROPERTIES["GPUs"]) for one in child.ids["GPUs"])
        amounts = [holding.amounts for holding in (parent, *(child for _, child in children))]
        assert sum(amounts[1:], start=amounts[0]) == WHOLE
        assert all(much >= 0 for each in amounts for much in each.values())
        for name, ids in IDS.items():
            held = [one for holding in (parent, *(child for _, child in children)) for one in holding.ids[name]]
            assert Counter(held) == Counter(ids)


def test_pieces_that_go_out_of_use_are_set_aside_and_come_back_but_not_out_of_jobs_hands() -> None:
    whole = Amounts({CPUS: 4, MEMORY: 100, DISK: 100, "GPUs": 3})
    job = ClassAd({"RequestGPUs": 1})
    child, parent = carve(Holding(whole, {"GPUs": ("a", "b", "c")}), Amounts({"GPUs": 1}), whole, job)
    assert child.ids["GPUs"] == ("a",)
    parent, aside = set_aside(parent, {}, {"GPUs": {"a", "b"}})
    assert (parent.ids["GPUs"], parent.amounts.of("GPUs"), aside) == (("c",), 1, {"GPUs": ("b",)})
    parent, aside = set_aside(give_back(parent, child), aside, {"GPUs": {"a", "b"}})
    assert (parent.ids["GPUs"], parent.amounts.of("GPUs")) == (("c",), 1)
    parent, aside = set_aside(parent, aside, {})
    assert sorted(parent.ids["GPUs"]) == ["a", "b", "c"]
    assert (parent.amounts, aside) == (whole, {"GPUs": ()})
