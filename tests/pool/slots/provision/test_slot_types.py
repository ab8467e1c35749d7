"""How SLOT_TYPE_<N>, NUM_SLOTS and custom resources divide a machine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pool.base.errors import ConfigError
from pool.classad import ClassAd
from pool.slots.provision.custom import Custom, custom_resources
from pool.slots.provision.inventory import read_inventory
from pool.slots.provision.resources import CPUS, DISK, MEMORY, SWAP, Amounts
from pool.slots.provision.slot_types import Hardware, Layout, SlotKind, layout

FOUR_CORES = Hardware(cpus=4, memory=256, swap=1000, disks={"": 8000})


def laid_out(knobs: Mapping[str, str], hardware: Hardware = FOUR_CORES) -> Layout:
    known = {name.upper(): value for name, value in knobs.items()}
    return layout(known, lambda name: known.get(name.upper()), hardware)


def one(text: str, hardware: Hardware = FOUR_CORES) -> Amounts:
    (slot,) = laid_out({"SLOT_TYPE_1": text, "NUM_SLOTS_TYPE_1": "1"}, hardware).slots
    return slot.amounts


@pytest.mark.parametrize("text", ["mem=64", "mem=1/2", "mem=50%", "mem=auto"])
def test_two_slots_share_128_mb_alike_in_every_notation(text: str) -> None:
    hardware = Hardware(cpus=2, memory=128, swap=0, disks={"": 100})
    made = laid_out({"SLOT_TYPE_1": text, "NUM_SLOTS_TYPE_1": "2"}, hardware)
    assert [slot.amounts.of(MEMORY) for slot in made.slots] == [64, 64]


@pytest.mark.parametrize(
    ("text", "cpus", "memory", "swap", "disk"),
    [
        ("cpus=2, ram=128, swap=25%, disk=1/2", 2, 128, 250, 4000),
        ("cpus=1/2, memory=128, virt=25%, disk=50%", 2, 128, 250, 4000),
        ("c=1/2, m=50%, v=1/4, disk=1/2", 2, 128, 250, 4000),
        ("c=25%, m=64, v=1/4, d=25%", 1, 64, 250, 2000),
        ("25%", 1, 64, 250, 2000),
        ("1/4", 1, 64, 250, 2000),
        ("cpus=1, ram=1/2, swap=50%", 1, 128, 500, 8000),
        ("cpus=1, disk=auto, 50%", 1, 128, 500, 8000),
        ("CPUS = 1\nRAM = 64\n25%", 1, 64, 250, 2000),
    ],
)
def test_every_documented_form(text: str, cpus: int, memory: int, swap: int, disk: int) -> None:
    assert one(text) == Amounts({CPUS: cpus, MEMORY: memory, SWAP: swap, DISK: disk})


def test_autos_divide_what_the_explicit_types_leave() -> None:
    made = laid_out(
        {"SLOT_TYPE_1": "memory=10%", "NUM_SLOTS_TYPE_1": "1", "SLOT_TYPE_2": "auto", "NUM_SLOTS_TYPE_2": "3"},
        Hardware(cpus=4, memory=1000, swap=0, disks={"": 400}),
    )
    assert [slot.amounts.of(MEMORY) for slot in made.slots] == [100, 300, 300, 300]
    assert [slot.amounts.of(CPUS) for slot in made.slots] == [1, 1, 1, 1]


def test_by_default_one_partitionable_slot_has_everything() -> None:
    (slot,) = laid_out({}).slots
    assert (slot.slot_id, slot.type_id, slot.kind) == (1, 0, SlotKind.PARTITIONABLE)
    assert slot.amounts == Amounts({CPUS: 4, MEMORY: 256, SWAP: 1000, DISK: 8000})


def test_num_slots_divides_into_partitionable_slots_and_never_more_than_cpus() -> None:
    made = laid_out({"NUM_SLOTS": "2"}).slots
    assert [(slot.kind, slot.amounts.of(CPUS), slot.amounts.of(MEMORY)) for slot in made] == [
        (SlotKind.PARTITIONABLE, 2, 128)
    ] * 2
    assert len(laid_out({"NUM_SLOTS": "9"}).slots) == 4


def test_static_slots_one_per_core() -> None:
    made = laid_out({"NUM_SLOTS_TYPE_1": "4", "SLOT_TYPE_1_PARTITIONABLE": "false", "SLOT_TYPE_1": "1/4"})
    assert [(slot.kind, slot.amounts.of(CPUS), slot.amounts.of(MEMORY)) for slot in made.slots] == [
        (SlotKind.STATIC, 1, 64)
    ] * 4


def test_custom_resources_are_divided_like_the_others() -> None:
    knobs = {
        "MACHINE_RESOURCE_Cogs": "16",
        "MACHINE_RESOURCE_actuator": "8",
        "SLOT_TYPE_1": "cogs=50%,actuator=6,50%",
        "SLOT_TYPE_1_PARTITIONABLE": "TRUE",
        "NUM_SLOTS_TYPE_1": "1",
        "SLOT_TYPE_2": "cogs=25%,actuator=1,25%",
        "SLOT_TYPE_2_PARTITIONABLE": "FALSE",
        "NUM_SLOTS_TYPE_2": "2",
    }
    customs = custom_resources(knobs, knobs.get)
    made = laid_out(knobs, Hardware(cpus=4, memory=4096, swap=0, disks={"": 1000}, customs=customs))
    shown = [
        (s.kind.value, *(int(s.amounts.of(name)) for name in (CPUS, MEMORY, "Cogs", "actuator"))) for s in made.slots
    ]
    assert shown == [("Partitionable", 2, 2048, 8, 6), ("Static", 1, 1024, 4, 1), ("Static", 1, 1024, 4, 1)]
    assert not made.broken


def test_named_pieces_are_handed_out_once_and_a_string_asks_for_one() -> None:
    hardware = Hardware(4, 256, 0, {"": 100}, [Custom("GPUs", 3, ("CUDA0", "CUDA1", "CUDA2"), offline=("CUDA1",))])
    made = laid_out(
        {"SLOT_TYPE_1": 'GPUs = 1 : "CUDA2"\n50%', "NUM_SLOTS_TYPE_1": "1", "NUM_SLOTS_TYPE_2": "1"}, hardware
    )
    assert [slot.ids["GPUs"] for slot in made.slots] == [("CUDA2",), ("CUDA0",)]


def test_a_type_whose_devices_are_not_there_is_reported_and_those_that_are_particular_choose_first() -> None:
    known = {"a": ClassAd({"Id": "a", "Capability": 2.0}), "b": ClassAd({"Id": "b", "Capability": 8.0})}
    hardware = Hardware(4, 256, 0, {"": 100}, [Custom("GPUs", 2, ("b", "a"), properties=known)])
    knobs = {"SLOT_TYPE_1": "GPUs=1, 25%", "NUM_SLOTS_TYPE_1": "1", "NUM_SLOTS_TYPE_2": "1"}
    made = laid_out({**knobs, "SLOT_TYPE_2": "GPUs = 1 : Capability >= 8.0\n25%"}, hardware)
    assert [slot.ids["GPUs"] for slot in made.slots] == [("a",), ("b",)]
    made = laid_out({**knobs, "SLOT_TYPE_2": "GPUs = 1 : Capability >= 9, 25%"}, hardware)
    assert [slot.type_id for slot in made.slots] == [1]
    assert "not enough GPUs: 1 wanted, and 0 are left with Capability >= 9" in made.broken[2]


def test_what_does_not_fit_is_reported_and_the_rest_made() -> None:
    knobs = {"SLOT_TYPE_1": "cpus=3", "NUM_SLOTS_TYPE_1": "2", "SLOT_TYPE_2": "cpus=1", "NUM_SLOTS_TYPE_2": "1"}
    made = laid_out(knobs)
    assert [slot.amounts.of(CPUS) for slot in made.slots] == [3, 1]
    assert made.broken[1].startswith("Could not create required number of type1 slots")
    assert "not enough Cpus" in made.broken[1]
    assert laid_out({**knobs, "SLOT_CONFIG_FAILURE_MODE": "CLEAR"}).slots == ()
    with pytest.raises(ConfigError, match="do not fit this machine: Could not create required number of type1"):
        laid_out({**knobs, "SLOT_CONFIG_FAILURE_MODE": "ABORT"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3/2", "more than all"),
        ("cpus=150%", "more than all"),
        ("wings=2", "unknown resource 'wings'"),
        ("cpus=lots", "'lots' is no size"),
        ("4", "4 of what"),
        ("cpus=1/0", "is no size"),
    ],
)
def test_a_wrong_slot_type_is_refused_by_name(text: str, says: str) -> None:
    made = laid_out({"SLOT_TYPE_1": text, "NUM_SLOTS_TYPE_1": "1", "NUM_SLOTS_TYPE_2": "1"})
    assert says in made.broken[1]
    assert "SLOT_TYPE_1" in made.broken[1]
    assert [slot.type_id for slot in made.slots] == [2]
    with pytest.raises(ConfigError, match=says):
        laid_out({"SLOT_TYPE_1": text, "NUM_SLOTS_TYPE_1": "1", "SLOT_CONFIG_FAILURE_MODE": "ABORT"})


def test_machine_resource_names_selects_and_inventories_count() -> None:
    knobs = {"MACHINE_RESOURCE_Cogs": "16", "MACHINE_RESOURCE_Lenses": "2", "MACHINE_RESOURCE_NAMES": "Cogs, GPUs"}
    found = custom_resources(knobs, knobs.get, {"GPUs": read_inventory("GPUs", 'DetectedGPUs="GPU-1, GPU-2"\n')})
    assert found == [Custom("Cogs", 16), Custom("GPUs", 2, ("GPU-1", "GPU-2"), said="GPU-1, GPU-2")]


SIZES = st.sampled_from(["auto", "10%", "25%", "1/3", "1/2", "1", "7"])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(
    cpus=st.integers(1, 64),
    memory=st.integers(1, 10_000),
    types=st.lists(st.tuples(SIZES, SIZES, SIZES, st.integers(0, 5)), max_size=4),
)
def test_p7_slots_never_have_more_than_the_machine(
    cpus: int, memory: int, types: list[tuple[str, str, str, int]]
) -> None:
    knobs = {}
    for number, (c, m, g, count) in enumerate(types, 1):
        knobs[f"SLOT_TYPE_{number}"] = f"cpus={c}, memory={m}, gpus={g}"
        knobs[f"NUM_SLOTS_TYPE_{number}"] = str(count)
    hardware = Hardware(cpus, memory, 500, {"": 1000}, [Custom("GPUs", 5, tuple("abcde"))])
    made = laid_out(knobs, hardware)
    for name, total in ((CPUS, cpus), (MEMORY, memory), (SWAP, 500), (DISK, 1000), ("GPUs", 5)):
        assert sum(slot.amounts.of(name) for slot in made.slots) <= total
    given_away = [one for slot in made.slots for one in slot.ids["GPUs"]]
    assert len(given_away) == len(set(given_away))
