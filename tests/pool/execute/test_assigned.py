"""The variables that tell a job which pieces of custom resources it has."""

from __future__ import annotations

import pytest

from pool.base.errors import ConfigError
from pool.classad import ClassAd, expr
from pool.execute.assigned import DEFAULTS, assigned_environment

SLOT = {"MachineResources": "Cpus Memory Disk Swap GPUs Toys"}


def environment(knobs: dict[str, str] | None = None, **attributes: object) -> dict[str, str]:
    return assigned_environment(ClassAd({**SLOT, **attributes}), {**DEFAULTS, **(knobs or {})})


def test_every_resource_with_pieces_is_named() -> None:
    made = environment(AssignedGPUs="CUDA1,CUDA2", AssignedToys="a")
    assert made["_CONDOR_AssignedGPUs"] == "CUDA1,CUDA2"
    assert made["_CONDOR_AssignedToys"] == "a"
    assert made["CUDA_VISIBLE_DEVICES"] == made["GPU_DEVICE_ORDINAL"] == "1,2"


def test_a_slot_without_gpus_hides_them_and_says_nothing_of_other_resources() -> None:
    assert environment() == {
        "CUDA_VISIBLE_DEVICES": "10000",
        "GPU_DEVICE_ORDINAL": "10000",
        "NVIDIA_VISIBLE_DEVICES": "none",
        "_CONDOR_AssignedGPUs": "10000",
    }
    assert assigned_environment(ClassAd({"MachineResources": "Cpus Memory"})) == {}


def test_devices_with_uuids_are_known_by_these_to_cuda_and_to_containers() -> None:
    devices = [ClassAd({"Id": "GPU-1", "DeviceUuid": "1-2"}), ClassAd({"Id": "MIG-3", "DeviceUuid": "MIG-3-4"})]
    slot = {"AssignedGPUs": "GPU-1,MIG-3", "AvailableGPUs": expr("{ A, B }"), "A": devices[0], "B": devices[1]}
    made = environment(**slot)
    assert made["NVIDIA_VISIBLE_DEVICES"] == made["CUDA_VISIBLE_DEVICES"] == "GPU-1-2,MIG-3-4"
    off = environment({"AUTO_SET_NVIDIA_VISIBLE_DEVICES": "false"}, **slot)
    assert "NVIDIA_VISIBLE_DEVICES" not in off
    assert off["CUDA_VISIBLE_DEVICES"] == "GPU-1,MIG-3"


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("VISIBLE=/^/gpuid:/", "gpuid:CUDA1,gpuid:OCL2"),
        ("VISIBLE", "CUDA1,OCL2"),
        ("OTHER VISIBLE=/(CUDA|OCL)//", "1,2"),
        (r"VISIBLE=#(CUDA|OCL)(\d)#\2/\1#", "1/CUDA,2/OCL"),
        ('"VISIBLE=/[A-Z]+/$0/"', None),
    ],
)
def test_a_substitution_makes_of_an_id_what_a_library_reads(knob: str, value: str | None) -> None:
    made = environment({"ENVIRONMENT_FOR_AssignedToys": knob}, AssignedToys="CUDA1,OCL2")
    assert made["VISIBLE"] == (value or "CUDA1,OCL2")


def test_the_value_for_those_without_is_configured() -> None:
    knobs = {"ENVIRONMENT_FOR_AssignedToys": "TOYS", "ENVIRONMENT_VALUE_FOR_UnAssignedToys": "none"}
    assert environment(knobs)["TOYS"] == "none"


@pytest.mark.parametrize(
    ("knob", "says"),
    [("=x", "does not begin with a variable"), ("A=/x/", "does not end"), ("A=/(/x/", "not a regular expression")],
)
def test_a_wrong_substitution_is_told(knob: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        environment({"ENVIRONMENT_FOR_AssignedToys": knob}, AssignedToys="a")
