"""Disk and swap of a real startd's slots: they follow what there is, and shares of more than all are told."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pool.classad import ClassAd
from tests.whole.home import a_home
from tests.whole.real_pool import RealPool, pool_directory, real_pool

KIB, MIB = 1024, 1 << 20
SIZE_MIB, RESERVED_MIB = 256, 16
SLACK_KIB = 1024
"""What starters keep in EXECUTE beside what jobs write."""
MEMORY_GROUPS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
WRITER = "executable = /bin/sh\narguments = \"-c 'head -c {size}M /dev/zero > big; touch {at}/written; while [ ! -e {at}/enough ]; do sleep 0.1; done; rm big; touch {at}/removed; while [ ! -e {at}/end ]; do sleep 0.1; done'\"\nrequest_disk = {ask}M\nrequest_memory = 16\n{more}\nqueue\n"


@contextmanager
def a_small_disk(**settings: object) -> Iterator[tuple[RealPool, Path]]:
    """A pool whose sandboxes are on a file system of their own, and that file system."""
    if os.geteuid() != 0:
        pytest.skip("root mounts file systems")
    with pool_directory() as place:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=755", "none", str(place)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("root may not mount here")
        knobs = {"UPDATE_INTERVAL": 1, "RESERVED_DISK": RESERVED_MIB, "STARTER_UPDATE_INTERVAL": 1}
        try:
            with real_pool(EXECUTE=place, **knobs, **settings) as pool:
                yield pool, place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def by_name(pool: RealPool) -> dict[str, ClassAd]:
    return {ad.eval_str("Name", "").partition("@")[0]: ad for ad in pool.slots()}


def until_disk(pool: RealPool, **mib: float) -> dict[str, ClassAd]:
    """Wait until each slot has about as much disk."""

    def there() -> dict[str, ClassAd]:
        ads = by_name(pool)
        near = (
            name in ads and abs(ads[name].eval_int("Disk", -1) - much * KIB) <= SLACK_KIB for name, much in mib.items()
        )
        return ads if all(near) else {}

    return pool.until(there, f"slots with {mib} MiB of disk")


def fill(file: Path, mib: int) -> None:
    with file.open("wb") as out:
        out.write(b"x" * (mib * MIB))


def test_a_partitionable_slot_follows_the_free_disk_and_a_dynamic_one_keeps_what_it_was_given() -> None:
    whole = SIZE_MIB - RESERVED_MIB
    with a_small_disk() as (pool, place), pool_directory() as at:
        at.chmod(0o777)
        until_disk(pool, slot1=whole)
        fill(place / "others", 100)
        ads = until_disk(pool, slot1=whole - 100)
        assert abs(ads["slot1"].eval_int("TotalSlotDisk", 0) - (whole - 100) * KIB) <= SLACK_KIB
        assert abs(ads["slot1"].eval_int("TotalDisk", 0) - (whole - 100) * KIB) <= SLACK_KIB
        job = pool.submit(WRITER.format(size=30, ask=40, at=at, more=""))
        pool.until((at / "written").exists, "the job's file")
        until_disk(pool, slot1=whole - 140, slot1_1=40)  # what the job has written is its own, and counts once
        fill(place / "more", 80)
        until_disk(pool, slot1=whole - 220, slot1_1=40)
        fill(place / "last", 25)  # less is left than the slots were given
        until_disk(pool, slot1=0, slot1_1=40)
        (place / "last").unlink()
        (at / "enough").touch()
        pool.until((at / "removed").exists, "the removal of the job's file")
        until_disk(pool, slot1=whole - 220, slot1_1=40)
        (place / "more").unlink()
        (place / "others").unlink()
        until_disk(pool, slot1=whole - 40, slot1_1=40)
        (at / "end").touch()
        pool.until_done(job)
        until_disk(pool, slot1=whole)


def test_static_slots_have_their_shares_of_what_is_free_and_a_claimed_one_keeps_its_own() -> None:
    whole = SIZE_MIB - RESERVED_MIB
    types = {"SLOT_TYPE_1": "cpus=1, disk=25%", "SLOT_TYPE_2": "cpus=1, disk=auto", "SLOT_TYPE_3": "cpus=1, disk=40960"}
    counts = {f"NUM_SLOTS_TYPE_{number}": 1 for number in (1, 2, 3)}
    with a_small_disk(NUM_CPUS=3, **types, **counts) as (pool, place), pool_directory() as at:
        at.chmod(0o777)
        until_disk(pool, slot1=whole / 4, slot2=whole * 3 / 4 - 40, slot3=40)
        fill(place / "others", 80)
        left = whole - 80
        until_disk(pool, slot1=left / 4, slot2=left * 3 / 4 - 40, slot3=40)
        job = pool.submit(WRITER.format(size=5, ask=10, at=at, more="requirements = SlotID == 1"))
        pool.until((at / "written").exists, "the job's file")
        (place / "others").unlink()
        until_disk(pool, slot1=left / 4, slot2=whole * 3 / 4 - 40, slot3=40)
        (at / "enough").touch()
        (at / "end").touch()
        pool.until_done(job)
        until_disk(pool, slot1=whole / 4, slot2=whole * 3 / 4 - 40, slot3=40)


def test_the_disk_stays_as_it_was_at_the_start_where_the_owner_wants_that() -> None:
    whole = SIZE_MIB - RESERVED_MIB
    with a_small_disk(STARTD_RECOMPUTE_DISK=False) as (pool, place):
        seen = until_disk(pool, slot1=whole)["slot1"].eval_int("MyCurrentTime", 0)
        fill(place / "others", 100)

        def updated() -> bool:
            return by_name(pool)["slot1"].eval_int("MyCurrentTime", 0) > seen + 2

        pool.until(updated, "two more updates")
        until_disk(pool, slot1=whole)


@contextmanager
def a_memory_group() -> Iterator[tuple[Path, str]]:
    """A control group whose memory can be limited, and the file that does it."""
    found = next(((mount, file) for mount, file in MEMORY_GROUPS if _limits_memory(mount)), None)
    if os.geteuid() != 0 or found is None:
        pytest.skip("no group that limits memory can be made")
    group = found[0] / f"minipool-test-{os.getpid()}"
    group.mkdir()
    try:
        yield group, found[1]
    finally:
        group.rmdir()


def _limits_memory(mount: Path) -> bool:
    controllers = mount / "cgroup.controllers"
    if controllers.exists():
        return "memory" in (mount / "cgroup.subtree_control").read_text().split()
    return (mount / "memory.limit_in_bytes").exists()


def test_swap_follows_what_the_startd_may_have() -> None:
    with a_memory_group() as (group, limit), real_pool(UPDATE_INTERVAL=1) as pool:
        before = pool.until(lambda: by_name(pool).get("slot1"), "the slot")["VirtualMemory"]
        assert before > 4 * MIB
        (group / limit).write_text(str(4 << 30))
        (group / "cgroup.procs").write_text(str(pool.pid_of("startd")))

        def swap(kib: int) -> bool:
            ad = by_name(pool)["slot1"]
            return bool(ad["VirtualMemory"] == ad["TotalVirtualMemory"] == kib)

        with open("/proc/meminfo") as file:
            total = next(int(line.split()[1]) for line in file if line.startswith("SwapTotal"))
        pool.until(lambda: swap((4 << 20) + total), "what the group may have")
        (group / limit).write_text(str(-1 if limit.endswith("bytes") else "max"))
        pool.until(lambda: swap(before), "what there was")
        pool.stop()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ("SLOT_TYPE_1=disk=60%, cpus=1", "NUM_SLOTS_TYPE_1=1", "SLOT_TYPE_2=disk=60%, cpus=1", "NUM_SLOTS_TYPE_2=1"),
            ("SLOT_TYPE_2 = disk=60%, cpus=1; {config}, line ", "not enough Disk", "taken by SLOT_TYPE_1"),
        ),
        (("SLOT_TYPE_1=swap=60%, cpus=1", "NUM_SLOTS_TYPE_1=2"), ("not enough VirtualMemory", "SLOT_TYPE_1 = swap=60%, cpus=1; {config}, line ")),
        (("SLOT_TYPE_1=disk=200%",), ("SLOT_TYPE_1 is set, but NUM_SLOTS_TYPE_1 is not",)),
    ],
)  # fmt: skip
def test_shares_of_more_than_all_are_told_when_the_pool_starts(
    settings: tuple[str, ...], said: tuple[str, ...]
) -> None:
    with a_home() as home:
        knobs = [part for setting in ("NUM_CPUS=4", *settings) for part in ("-c", setting)]
        found = home.run("pool", "up", *knobs)
        log = (home.pool / "log" / "StartLog").read_text() + (home.pool / "log" / "MasterLog").read_text()
        home.done("pool", "down", "-fast")
        config = home.pool / "config"
        for part in said:
            assert part.format(config=config) in found.stderr
            assert part.format(config=config) in log


def test_shares_of_more_than_all_start_nothing_under_abort() -> None:
    with a_home() as home:
        settings = ("SLOT_TYPE_1=disk=60%, cpus=1", "NUM_SLOTS_TYPE_1=2", "SLOT_CONFIG_FAILURE_MODE=ABORT")
        found = home.run("pool", "up", *(part for setting in settings for part in ("-c", setting)))
        assert found.returncode == 1
        assert "the slots do not fit this machine" in found.stderr
        assert "SLOT_TYPE_1 = disk=60%, cpus=1" in found.stderr
        assert home.until_no_master()
