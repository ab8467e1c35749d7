"""What programs say that take stock of custom resources."""

from __future__ import annotations

import pytest

from pool.base.errors import ConfigError
from pool.slots.provision.custom import custom_resources
from pool.slots.provision.inventory import read_inventory

PRINTED = """DetectedGPUs="GPU-a, GPU-b, GPU-c"
OfflineGPUs="GPU-b"
Common=[ Capability=8.0; ]
GPU_a=[ id="GPU-a"; GlobalMemoryMb=100; ]
GPU_b=[ id="GPU-b"; GlobalMemoryMb=200; Capability=7.5; ]
DriverTested = true
# a comment
-
"""


def test_ids_offline_pieces_properties_and_facts_of_the_machine() -> None:
    found = read_inventory("GPUs", PRINTED)
    assert found.ids == ("GPU-a", "GPU-b", "GPU-c")
    assert found.offline == ("GPU-b",)
    assert found.said == "GPU-a, GPU-b, GPU-c"
    assert {one: dict(ad.items()) for one, ad in found.properties.items()} == {
        "GPU-a": {"Id": "GPU-a", "Capability": 8.0, "GlobalMemoryMb": 100},
        "GPU-b": {"Id": "GPU-b", "Capability": 7.5, "GlobalMemoryMb": 200},
        "GPU-c": {"Id": "GPU-c", "Capability": 8.0},
    }
    assert list(found.facts) == ["DriverTested"]


def test_an_amount_is_enough() -> None:
    assert read_inventory("Cogs", "detectedcogs = 16\n").count == 16


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("", "its program printed no DetectedGPUs"),
        ("DetectedCogs = 3\n", "its program printed no DetectedGPUs"),
        ("DetectedGPUs = 1 +\n", "line 1 of what its program printed"),
        ("DetectedGPUs = 2\nno gpus here\n", "line 2 .*'no gpus here': expected ATTRIBUTE = VALUE"),
        ("DetectedGPUs = -1\n", "neither an amount nor a string"),
        ("DetectedGPUs = true\n", "neither an amount nor a string"),
        ("DetectedGPUs = {1}\n", "neither an amount nor a string"),
    ],
)
def test_a_program_that_says_something_else_is_told_where(printed: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read_inventory("GPUs", printed)
    assert "MACHINE_RESOURCE_INVENTORY_GPUs" in str(caught.value)


def test_pieces_are_offline_by_the_program_or_by_the_knob_and_ids_that_do_not_exist_are_ignored() -> None:
    knobs = {"OFFLINE_MACHINE_RESOURCE_GPUs": "GPU-c GPU-zz", "MACHINE_RESOURCE_Toys": "a b c"}
    knobs["OFFLINE_MACHINE_RESOURCE_Toys"] = "b, x"
    said = read_inventory("GPUs", PRINTED)
    silent = read_inventory("GPUs", PRINTED.replace("Offline", "Idle"))
    gpus, toys = custom_resources(knobs, knobs.get, {"GPUs": said})
    assert (gpus.usable_ids, gpus.usable, gpus.total) == (("GPU-a", "GPU-c"), 2, 3)
    assert (toys.usable_ids, toys.usable) == (("a", "c"), 2)
    (gpus, _) = custom_resources(knobs, knobs.get, {"GPUs": silent})
    assert gpus.offline == ("GPU-c",)
    assert gpus.piece_name("GPU-a") == "GPUs_GPU_a"
    assert toys.piece("a").eval_str("Id") == "a"


def test_an_id_that_is_written_twice_is_refused_in_a_file_but_a_program_may_share_a_device() -> None:
    with pytest.raises(ConfigError, match="a is there twice"):
        custom_resources({"MACHINE_RESOURCE_Toys": ""}, {"MACHINE_RESOURCE_Toys": "a b a"}.get)
    (gpus,) = custom_resources((), {}.get, {"GPUs": read_inventory("GPUs", 'DetectedGPUs="x, y, x, y"')})
    assert gpus.usable == 4


@pytest.mark.parametrize("count", ['real("INF")', 'real("NaN")', "-1", "true"])
def test_there_is_a_finite_number_of_each_resource(count: str) -> None:
    with pytest.raises(ConfigError, match="neither an amount nor a string of ids"):
        read_inventory("GPUs", f"DetectedGPUs = {count}\n")
