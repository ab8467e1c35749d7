"""What a startd says and advertises of its sandboxes, whatever the machine lets it have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemons.host.volumes.group import BackingFile, Size
from daemons.startd.machine.disk_limits import FoundLimits, file_system_type, look
from pool.config.load import load_config
from pool.execute.scratch import ScratchKind, Store

GIB = 1 << 30


def _look(root: Path, **knobs: str) -> FoundLimits:
    overrides = {"LOCAL_DIR": str(root), "EXECUTE": str(root), **knobs}
    return look(load_config([], overrides=overrides, environ={}), str(root))


def test_nothing_is_held_to_a_size_unless_somebody_says_so(tmp_path: Path) -> None:
    found = _look(tmp_path)
    assert found == FoundLimits()
    assert found.attributes() == {"HasEncryptExecuteDirectory": False}
    assert found.kib(1000, 4) == 1000


def test_where_nothing_else_can_be_had_files_are_added_up_and_the_log_says_why(tmp_path: Path) -> None:
    found = _look(tmp_path, STARTD_ENFORCE_DISK_LIMITS="true", SCRATCH_FILE_SYSTEMS="quota walk")
    if found.store.kind is ScratchKind.QUOTA:
        pytest.skip("this file system has project quotas")
    assert found.store.kind is ScratchKind.WALK
    if os.geteuid() != 0:
        assert found.said[0] == "Jobs have no file systems of their own: it is not root's"
    else:
        assert found.said[0].startswith(("Sandboxes are not of the kind quota: ", "Jobs have no file systems"))
    assert (
        found.said[-1] == "Sandboxes are measured by looking at their files, and jobs that exceed their disk are held"
    )
    assert found.attributes()["IsEnforcingDiskUsage"] is True
    assert found.attributes()["ScratchFileSystem"] == "walk"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({}, "that takes STARTD_ENFORCE_DISK_LIMITS"),
        ({"STARTD_ENFORCE_DISK_LIMITS": "true", "SCRATCH_FILE_SYSTEMS": "walk"}, "they are of the kind walk"),
    ],
)
def test_encryption_that_cannot_be_had_is_told(tmp_path: Path, knobs: dict[str, str], said: str) -> None:
    found = _look(tmp_path, ENCRYPT_EXECUTE_DIRECTORY="true", **knobs)
    told = "ENCRYPT_EXECUTE_DIRECTORY is true and sandboxes cannot be encrypted, so that no job will run: "
    assert found.said[-1] == told + said
    assert _look(tmp_path, DISABLE_EXECUTE_DIRECTORY_ENCRYPTION="true", **knobs).said == found.said[:-1]


def test_a_volume_group_is_advertised_under_htcondors_names() -> None:
    backing = BackingFile("/var/spool/startd_disk.img", 10240, "vg", "pool")
    found = FoundLimits(Store(ScratchKind.LVM, "vg", "pool"), Size(10 * GIB, GIB, 4 << 20), backing)
    ad = found.attributes()
    assert ad["LvmBackingStore"] == "vg/pool"
    assert (ad["LvmIsThinProvisioning"], ad["LvmUsingLoopback"]) == (True, True)
    assert (ad["LvmDetectedDisk"], ad["LvmNonCondorDiskUsage"], ad["DiskQuantum"]) == (10 * GIB, GIB, 4096)
    assert found.kib(0, 4) == 9 * GIB // 1024 - 4 * 4096


def test_the_kind_of_a_directorys_file_system(tmp_path: Path) -> None:
    assert file_system_type("/proc/self") == "proc"
    assert file_system_type(str(tmp_path)) not in ("", "unknown")
