"""Sandboxes that have a size: what is decided about them."""

from __future__ import annotations

import pytest

from pool.base.errors import ConfigError
from pool.classad import ClassAd
from pool.execute.scratch import (
    Hide,
    ScratchKind,
    Store,
    hide_mode,
    hides,
    hold_bytes,
    kinds_in_order,
    over_disk,
    promised_kib,
    sandbox_pattern,
    spelt_bytes,
    volume_bytes,
    volume_name,
    wants_encryption,
)

MIB = 1 << 20
THICK = Store(ScratchKind.LVM, "vg")
THIN = Store(ScratchKind.LVM, "vg", "pool", extra_mb=2000)


@pytest.mark.parametrize(
    ("store", "disk_kib", "volume", "hold"),
    [
        (THICK, 1024 * 1024, 1 << 30, int((1 << 30) * 0.98)),
        (THIN, 1024 * 1024, (1 << 30) + 2000 * MIB, 1 << 30),
        (Store(ScratchKind.TMPFS, margin=0.5), 8192, 8 * MIB, 4 * MIB),
        (Store(ScratchKind.QUOTA), 100, 4 * MIB, int(100 * 1024 * 0.98)),
        (Store(ScratchKind.WALK), 8192, 8 * MIB, 8 * MIB),
    ],
)
def test_how_large_a_volume_is_and_when_its_job_is_held(store: Store, disk_kib: int, volume: int, hold: int) -> None:
    assert volume_bytes(store, disk_kib) == volume
    assert hold_bytes(store, disk_kib) == hold


@pytest.mark.parametrize("disk_kib", [1, 4096, 20 * 1024, 10**6, 10**9])
def test_files_of_all_promised_disks_fit_into_what_is_free(disk_kib: int) -> None:
    store, jobs = Store(ScratchKind.EXT4), 4
    free_kib = 4 * -(-volume_bytes(store, disk_kib) // 1024)
    assert volume_bytes(store, disk_kib) % 4096 == 0
    share = max(1, promised_kib(store, free_kib, jobs) // jobs)
    if share * 1024 > 4 * MIB:
        assert jobs * volume_bytes(store, share) <= free_kib * 1024 + jobs * 8192
    assert promised_kib(THICK, free_kib, jobs) == free_kib


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KB"),
        (20 * MIB, "20.00 MB"),
        (3 << 40, "3.00 TB"),
        (5 << 50, "5120.00 TB"),
    ],
)
def test_amounts_are_spelt_as_htcondor_spells_them(amount: int, said: str) -> None:
    assert spelt_bytes(amount) == said


def test_the_hold_says_what_the_job_had_and_used() -> None:
    hold = over_disk(20 * MIB, 30 * MIB)
    assert (hold.code, hold.subcode) == (34, 104)
    assert hold.reason == (
        "Job has exceeded allocated disk (20.00 MB). Last measured usage: 30.00 MB. "
        "Consider increasing the value of request_disk."
    )


@pytest.mark.parametrize(
    ("mode", "job", "slot", "hidden"),
    [
        ("auto", {}, {}, True),
        ("", {"JobUniverse": 5}, {}, True),
        ("Auto", {"WantDocker": True}, {}, False),
        ("auto", {"WantDockerImage": True}, {}, True),
        ("auto", {"WantDockerImage": True}, {"HasDocker": True}, False),
        ("auto", {"JobUniverse": 13}, {}, False),
        ("False", {}, {}, False),
        ("TRUE", {}, {}, True),
        ("yes", {"WantDocker": True}, {}, None),
    ],
)
def test_whether_a_file_system_is_hidden(
    mode: str, job: dict[str, object], slot: dict[str, object], hidden: bool | None
) -> None:
    assert hides(hide_mode(mode), ClassAd(job), ClassAd(slot)) is hidden


def test_what_is_no_mode_and_no_kind_is_told() -> None:
    with pytest.raises(ConfigError, match="LVM_HIDE_MOUNT = perhaps"):
        hide_mode("perhaps")
    with pytest.raises(ConfigError, match="SCRATCH_FILE_SYSTEMS names 'zfs'"):
        kinds_in_order(["ext4", "zfs"])
    assert kinds_in_order(["TMPFS", "walk"]) == [ScratchKind.TMPFS, ScratchKind.WALK]


def test_a_volumes_name_leads_back_to_its_sandbox_and_no_other_execute_has_it() -> None:
    name = volume_name("/var/lib/execute/dir_7")
    found = sandbox_pattern("/var/lib/execute").match(name)
    assert found is not None
    assert found[1] == "dir_7"
    assert sandbox_pattern("/elsewhere").match(name) is None
    assert volume_name("/elsewhere/dir_7") != name
    assert "-" not in name  # device mapper would double it


@pytest.mark.parametrize(
    ("said", "everywhere", "wants"), [(True, False, True), (None, True, True), (None, False, False)]
)
def test_who_wants_encryption(said: bool | None, everywhere: bool, wants: bool) -> None:
    job = ClassAd() if said is None else ClassAd({"EncryptExecuteDirectory": said})
    assert wants_encryption(job, everywhere=everywhere) is wants


@pytest.mark.parametrize(
    "store", [Store(), THICK, THIN, Store(ScratchKind.EXT4, hide=Hide.NEVER, encrypts=True, margin=0.5)]
)
def test_a_store_comes_out_of_the_payload_as_it_went_in(store: Store) -> None:
    assert Store.unpacked(store.packed()) == store
