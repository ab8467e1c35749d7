"""Slots, custom resources and GPUs of a real pool: how a machine is divided, and what jobs get of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.classad import ClassAd, parse_longs
from tests.whole.real_pool import RealPool, real_pool

CONFIG = """
use FEATURE : GPUs
GPU_DISCOVERY_EXTRA = -extra -simulate:4,2,1,2
GPU_MONITOR = $(LOCAL_DIR)/monitor
MACHINE_RESOURCE_Toys = red green blue
OFFLINE_MACHINE_RESOURCE_Toys = blue
MACHINE_RESOURCE_INVENTORY_Cogs = $(LOCAL_DIR)/cogs
ENVIRONMENT_FOR_AssignedToys = PLAY_WITH=/^/toy-/
MODIFY_REQUEST_EXPR_REQUESTMEMORY = quantize(RequestMemory,{256})
favorite_color = "blue"
STARTD_ATTRS = favorite_color
SLOT2_favorite_color = "green"
SLOT1_STARTD_ATTRS = favorite_movie
favorite_movie = "Metropolis"
STARTD_SLOT_ATTRS = State
SLOT_TYPE_1 @=slot
  GPUs = 3
  Toys = 1
  75%
@slot
SLOT_TYPE_1_PARTITIONABLE = true
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_2 @=slot
  GPUs = 1 : DeviceName == "GeForce GTX 480"
  Toys = 1 : "red"
  cpus = 1
  10%
@slot
NUM_SLOTS_TYPE_2 = 1
SLOT_TYPE_3 = cpus=90, 1%
NUM_SLOTS_TYPE_3 = 1
"""

MONITOR = """#!/bin/sh
# Stands for condor_gpu_utilization: one device is busy for a quarter of the time.
while :; do
    printf 'SlotMergeConstraint = StringListMember("GPU-c2223334", AssignedGPUs)\\n'
    printf 'UptimeGPUsSeconds = 0.125\\nUptimeGPUsMemoryPeakUsage = 321\\n- GPUsSlot2\\n'
    sleep 0.5
done
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(start=False, NUM_CPUS=8, MEMORY=8192) as pool:
        (pool.directory / "config").write_text(CONFIG)
        script = pool.directory / "cogs"
        script.write_text("#!/bin/sh\necho 'DetectedCogs = 5'\necho 'CogMaker = \"Acme\"'\n")
        script.chmod(0o755)
        (pool.directory / "monitor").write_text(MONITOR)
        (pool.directory / "monitor").chmod(0o755)
        pool.start()
        yield pool


@pytest.fixture(scope="module")
def slots(pool: RealPool) -> dict[str, ClassAd]:
    def all_there() -> dict[str, ClassAd]:
        found = {ad.eval_str("Name", "").partition("@")[0]: ad for ad in pool.slots()}
        return found if {"slot1", "slot2"} <= found.keys() else {}

    return pool.until(all_there, "both slots")


@pytest.fixture
def home(pool: RealPool) -> Path:
    return pool.place("home")


def test_each_slot_shows_what_it_has_and_which_devices_are_its_own(slots: dict[str, ClassAd]) -> None:
    one, two = slots["slot1"], slots["slot2"]
    assert [one.eval(name) for name in ("SlotType", "Cpus", "Memory", "GPUs", "Toys")] == [
        "Partitionable", 6, 6144, 3, 1,
    ]  # fmt: skip
    assert [two.eval(name) for name in ("SlotType", "Cpus", "Memory", "GPUs", "Toys")] == ["Static", 1, 819, 1, 1]
    assert one.eval("TotalGPUs") == two.eval("TotalGPUs") == 4
    assert two.eval("TotalSlotGPUs") == 1
    assert one.eval("DetectedGPUs") == "GPU-a0223334, GPU-b1223334, GPU-c2223334, GPU-d3223334"
    assert one.eval("AssignedGPUs") == "GPU-a0223334,GPU-b1223334,GPU-d3223334"
    assert two.eval("AssignedGPUs") == "GPU-c2223334"
    assert two.eval("AssignedToys") == "red"
    assert one.eval("AssignedToys") == "green"
    assert one.eval("OfflineToys") == "blue"
    assert two.eval("GPUs_DeviceName") == "GeForce GTX 480"
    assert one.eval("GPUs_GPU_a0223334.Capability") is not None or "GPUs_GPU_a0223334" in one
    assert one.eval("CogMaker") == "Acme"
    assert one.eval("TotalCogs") == 5
    assert one.eval("MachineResources") == "Cpus Memory Disk Swap Cogs GPUs Toys"


def test_attributes_of_the_site_are_by_slot_and_states_are_shared(slots: dict[str, ClassAd]) -> None:
    one, two = slots["slot1"], slots["slot2"]
    assert (one.eval("favorite_color"), two.eval("favorite_color")) == ("blue", "green")
    assert (one.eval("favorite_movie"), "favorite_movie" in two) == ("Metropolis", False)
    assert two.eval("slot1_State") == "Unclaimed"
    assert one.eval("slot2_State") in ("Owner", "Unclaimed", "Claimed")


def test_what_does_not_fit_is_in_the_daemons_ad_with_the_line_and_the_sum(pool: RealPool) -> None:
    said = pool.until(lambda: pool.tool("condor_status", "-startd", "-long"), "the startd's own ad")
    (ad,) = parse_longs(said.splitlines())
    reason = ad.eval_str("slot_type3BrokenReason", "")
    assert reason.startswith("Could not create required number of type3 slots (")
    assert "not enough Cpus: 7 + 90 = 97, and there are 8" in reason
    assert "SLOT_TYPE_3 = cpus=90, 1%" in reason
    assert "config, line " in reason


def environment_of(pool: RealPool, home: Path, commands: str) -> tuple[dict[str, str], ClassAd]:
    """What a job with these submit commands sees, and its ad at the end."""
    text = f"executable = /usr/bin/env\noutput = out.$(Cluster)\nlog = log\n{commands}\nqueue\n"
    cluster = pool.submit(text, cwd=home)
    (ad,) = pool.until_done(cluster)
    assert ad.eval_int("ExitCode") == 0
    lines = (home / f"out.{cluster}").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line), ad


def test_jobs_get_the_devices_that_they_require_and_are_told_which(pool: RealPool, home: Path) -> None:
    wants = 'request_gpus = 1\nrequire_gpus = Capability < 8 && Id =!= "GPU-c2223334"\nrequest_toys = 1'
    said, ad = environment_of(pool, home, f"{wants}\nrequest_memory = 100")
    assert said["_CONDOR_AssignedGPUs"] == "GPU-d3223334"
    assert said["NVIDIA_VISIBLE_DEVICES"] == "GPU-d3223334-4445-5667-899a-abbccddeeff0"
    assert said["PLAY_WITH"] == "toy-green"
    assert ad.eval("MemoryProvisioned") == 256
    said, _ = environment_of(pool, home, "request_gpus = 2\ngpus_minimum_memory = 40000\nrequest_memory = 1")
    assert said["_CONDOR_AssignedGPUs"] == "GPU-a0223334,GPU-b1223334"
    assert said.get("PLAY_WITH", "") == ""


def test_what_a_device_is_used_for_is_in_the_ads_of_its_slot_and_its_job(pool: RealPool, home: Path) -> None:
    script = f"while [ ! -e {home}/used ]; do sleep 0.1; done"
    text = f"executable = /bin/sh\narguments = \"-c '{script}'\"\nrequirements = SlotID == 2\nrequest_gpus = 1\nlog = use\nqueue\n"
    job = pool.submit(text, cwd=home)
    host = pool.until(pool.slots, "slots")[0].eval_str("Machine", "")

    def used() -> dict[str, ClassAd]:
        lines = pool.tool("condor_status", "-long", "-direct", host).splitlines()
        found = {ad.eval_str("SlotType", ""): ad for ad in parse_longs(lines)}
        return found if "GPUsAverageUsage" in found["Static"] else {}

    shown = pool.until(used, "two reports of the monitor")
    (home / "used").touch()
    (ended,) = pool.until_done(job)
    slot = shown["Static"]
    assert (slot["DeviceGPUsMemoryPeakUsage"], slot["GPUsMemoryUsage"]) == (321, 321)
    assert slot["DeviceGPUsAverageUsage"] > 0
    assert "DeviceGPUsAverageUsage" not in shown["Partitionable"]
    assert not any(name.startswith("UptimeGPUs") for name in slot)
    assert ended["GPUsMemoryUsage"] == 321
    assert ended["GPUsAverageUsage"] > 0


def test_a_job_without_a_device_sees_none(pool: RealPool, home: Path) -> None:
    said, _ = environment_of(pool, home, "requirements = SlotID == 1")
    assert (said["CUDA_VISIBLE_DEVICES"], said["NVIDIA_VISIBLE_DEVICES"]) == ("10000", "none")


def test_a_job_that_requires_a_device_which_is_not_there_waits(pool: RealPool, home: Path) -> None:
    text = "executable = /bin/true\nrequest_gpus = 1\ngpus_minimum_capability = 12\nqueue\n"
    wanting = pool.submit(text, cwd=home)
    modest = pool.submit(text.replace("12", "8"), cwd=home)
    pool.until_done(modest)
    assert [ad.eval_int("JobStatus") for ad in pool.jobs(str(wanting))] == [1]
    pool.tool("condor_rm", str(wanting))


def test_the_ads_show_every_attribute_of_the_manual_where_it_says(pool: RealPool, home: Path) -> None:
    pool.until_done(pool.submit("executable = /bin/true\nrequest_memory = 1\nqueue\n", cwd=home))
    script = f"while [ ! -e {home}/enough ]; do sleep 0.1; done"
    text = (
        f"executable = /bin/sh\narguments = \"-c '{script}'\"\nrequirements = SlotID == 1\nrequest_memory = 1\nqueue\n"
    )
    job = pool.submit(text, cwd=home)

    def ads() -> dict[str, ClassAd]:
        found = {ad.eval_str("SlotType", ""): ad for ad in pool.slots()}
        there = found.get("Dynamic", ClassAd()).eval_str("Activity") == "Busy"
        return found if there and all("JobDurationAvg" in ad for ad in found.values()) else {}

    shown = pool.until(ads, "a dynamic slot with a job, and the time that the one before took")
    (home / "enough").touch()
    pool.until_done(job)
    every = [shown["Partitionable"], shown["Static"], shown["Dynamic"]]
    places = {
        "every": every,
        "partitionable": [shown["Partitionable"]],
        "dynamic": [shown["Dynamic"]],
        "running": [shown["Dynamic"]],
        "afterwards": every,
        "gpus": [shown["Partitionable"], shown["Static"]],
    }
    for name, where in attributes_of_the_manual():
        of_gpus = [name.replace("<name>", "GPUs"), name.replace("<name>", "GPUs_")]
        for ad in places.get(where, []):
            assert any(one in ad for one in of_gpus) or in_a_device(ad, name), f"{name} is missing in {ad.get('Name')}"
        if where == "never":
            assert not any(name in ad for ad in every), f"{name} is there"


def attributes_of_the_manual() -> list[tuple[str, str]]:
    """Each name, and where it should be."""
    lines = (Path(__file__).parents[1] / "cases/slots/machine_attributes.txt").read_text().splitlines()
    pairs = [tuple(line.split()[:2]) for line in lines if line and not line.startswith("#")]
    assert len(pairs) == 243
    return [(name, where) for name, where in pairs]


def in_a_device(ad: ClassAd, name: str) -> bool:
    """Whether the ad of one of the slot's devices has it."""
    (device, *_) = (ad.eval_str("AssignedGPUs") or "-").split(",")
    piece = ad.get(f"GPUs_{device.replace('-', '_')}")
    return isinstance(piece, ClassAd) and name.replace("<name>", "") in piece


def as_owner(pool: RealPool, *argv: str, text: str | None = None) -> None:
    user, pool.user = pool.user, None
    try:
        pool.tool(*argv, text=text)
    finally:
        pool.user = user


def test_an_administrator_changes_what_the_slots_say_until_the_startd_starts_again(pool: RealPool) -> None:
    def said(constraint: str, name: str) -> list[str]:
        return pool.tool("condor_status", "-constraint", constraint, "-af", name).split("\n")[:-1]

    update = 'Disco = "yes"\nHasVM = False\nVMOfflineReason = "Cosmic rays."\n'
    as_owner(pool, "condor_update_machine_ad", text=update)
    found = pool.until(lambda: said('SlotID == 2 && Disco == "yes"', "OfflineUniverses"), "the change")
    assert found == ['{ "VM",13 }']
    assert said("SlotID == 2", "VMOfflineReason") == ["Cosmic rays."]
    as_owner(pool, "condor_update_machine_ad", text="HasVM = True\n")
    pool.until(lambda: said("SlotID == 2 && HasVM && OfflineUniverses is undefined", "HasVM"), "the universe again")


def test_a_reconfiguration_takes_devices_out_of_use_and_says_that_slot_types_wait_for_a_restart(
    pool: RealPool,
) -> None:
    config = pool.directory / "config"
    before = config.read_text()

    def with_devices(count: int) -> ClassAd:
        constraint = f"SlotID == 1 && PartitionableSlot && GPUs == {count}"
        said = pool.until(lambda: pool.tool("condor_status", "-long", "-constraint", constraint), f"{count} devices")
        (ad,) = parse_longs(said.splitlines())
        return ad

    config.write_text(f"{before}OFFLINE_MACHINE_RESOURCE_GPUs = GPU-d3223334\nSLOT_TYPE_2 = cpus=2\n")
    as_owner(pool, "condor_reconfig")
    ad = with_devices(2)
    assert ad.eval("OfflineGPUs") == "GPU-d3223334"
    assert ad.eval("TotalGPUs") == 3
    said = "SLOT_TYPE_2 was changed; it stays as it was until the startd is started again (condor_restart -startd)"
    pool.until(lambda: said in (pool.directory / "log/StartLog").read_text(), "word of the slot types")
    config.write_text(before)
    as_owner(pool, "condor_reconfig")
    with_devices(3)
