"""Carving dynamic slots: rounding, sharing out pieces, and never more than there is."""

from __future__ import annotations

import random

import pytest

from pool.base.errors import UserError
from pool.classad import ClassAd, expr
from pool.slots.provision.carve import Holding, Rounding, carvable, carve, fit_request, give_back, request_of, rounded
from pool.slots.provision.resources import CPUS, DISK, MEMORY, SWAP, Amounts

ROUNDING = Rounding(
    {
        CPUS: expr("quantize(RequestCpus,{1})"),
        MEMORY: expr("quantize(RequestMemory,{128})"),
        DISK: expr("quantize(RequestDisk,{1024})"),
    }
)
WHOLE = Amounts({CPUS: 10, MEMORY: 10240, DISK: 1_000_000, SWAP: 20480, "GPUs": 2})
PSLOT = Holding(WHOLE, {"GPUs": ("CUDA0", "CUDA1")})


def a_job(**requests: object) -> ClassAd:
    return ClassAd({f"Request{name}": value for name, value in requests.items()})


def test_the_documented_carving() -> None:
    wanted = fit_request(a_job(Cpus=3, Memory=1024, Disk=10240), ClassAd(), WHOLE, ROUNDING)
    child, rest = carve(PSLOT, wanted, WHOLE)
    assert (child.amounts.of(CPUS), child.amounts.of(MEMORY), child.amounts.of(SWAP)) == (3, 1024, 2048)
    assert (rest.amounts.of(CPUS), rest.amounts.of(MEMORY), rest.amounts.of(DISK)) == (7, 9216, 989_760)
    _, rest = carve(rest, wanted, WHOLE)
    assert (rest.amounts.of(CPUS), rest.amounts.of(MEMORY)) == (4, 8192)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({"Cpus": 1, "Memory": 1000, "Disk": 1}, (1, 1024, 1024)),
        ({"Cpus": 0.5, "Memory": 128, "Disk": 1025}, (1, 128, 2048)),
        ({}, (1, 128, 1024)),
        ({"Memory": "lots"}, (1, 128, 1024)),
    ],
)
def test_requests_are_rounded_up(asked: dict[str, object], given: tuple[int, int, int]) -> None:
    request = rounded(request_of(a_job(**asked), ClassAd(), WHOLE), a_job(**asked), ClassAd(), ROUNDING)
    assert (request.of(CPUS), request.of(MEMORY), request.of(DISK)) == given


def test_a_rule_never_rounds_down() -> None:
    shrink = Rounding({MEMORY: expr("RequestMemory / 2")})
    assert fit_request(a_job(Memory=100), ClassAd(), WHOLE, shrink).of(MEMORY) == 100


def test_a_request_may_be_an_expression_of_the_slot() -> None:
    assert request_of(a_job(Memory=expr("TARGET.Half")), ClassAd({"Half": 512}), WHOLE).of(MEMORY) == 512


def test_what_fits_only_unrounded_is_taken_unrounded_unless_rounding_is_a_must() -> None:
    little = Amounts({CPUS: 1, MEMORY: 120, DISK: 5000})
    assert fit_request(a_job(Memory=100), ClassAd(), little, ROUNDING).of(MEMORY) == 100
    with pytest.raises(UserError, match="Memory"):
        fit_request(a_job(Memory=100), ClassAd(), little, Rounding(ROUNDING.exprs, must=True))


@pytest.mark.parametrize("bad", [-1, float("inf"), float("nan")])
def test_a_request_that_is_no_amount_is_refused(bad: float) -> None:
    with pytest.raises(UserError, match="RequestMemory"):
        fit_request(a_job(Memory=bad), ClassAd(), WHOLE, ROUNDING)


def test_nothing_is_an_amount() -> None:
    asked = fit_request(a_job(Memory=0, GPUs=0), ClassAd(), WHOLE, Rounding({}))
    assert (asked.of(MEMORY), asked.of("GPUs")) == (0, 0)


def test_pieces_with_names_are_given_out_and_come_back() -> None:
    child, rest = carve(PSLOT, Amounts({CPUS: 1, MEMORY: 1, DISK: 1, "GPUs": 1}), WHOLE)
    assert (child.ids["GPUs"], rest.ids["GPUs"]) == (("CUDA0",), ("CUDA1",))
    assert give_back(rest, child) == PSLOT


def test_an_exhausted_slot_can_carve_no_more() -> None:
    assert carvable(WHOLE) == 10
    assert carvable(Amounts({CPUS: 0, MEMORY: 100, DISK: 100})) == 0
    assert carvable(Amounts({CPUS: 4, MEMORY: 0, DISK: 100})) == 0


@pytest.mark.parametrize("seed", range(30))
def test_p7_children_and_rest_always_add_up_to_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    parent, children = PSLOT, list[Holding]()
    for _ in range(300):
        if children and rng.random() < 0.4:
            parent = give_back(parent, children.pop(rng.randrange(len(children))))
        else:
            job = a_job(
                Cpus=rng.choice([0.25, 1, 2, 11]),
                Memory=rng.randrange(0, 6000),
                Disk=rng.randrange(0, 400_000),
                GPUs=rng.choice([0, 0, 0.5, 1, 3]),
            )
            try:
                child, parent = carve(parent, fit_request(job, ClassAd(), parent.amounts, ROUNDING), WHOLE)
            except UserError:
                continue
            children.append(child)
        total = parent.amounts
        ids = list(parent.ids["GPUs"])
        for child in children:
            assert all(much >= 0 for much in child.amounts.values())
            total = total + child.amounts
            ids += child.ids["GPUs"]
        assert total == WHOLE
        assert all(much >= 0 for much in parent.amounts.values())
        assert sorted(ids) == ["CUDA0", "CUDA1"]
    for child in children:
        parent = give_back(parent, child)
    assert parent.amounts == WHOLE
