"""What is mounted, as the kernel writes it down."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemons.host import mounts
from daemons.host.volumes.quota import device_of
from daemons.startd.machine.disk_limits import file_system_type

LINES = [
    "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
    r"21 20 8:17 / /scratch\040disk rw,relatime shared:2 master:3 - xfs /dev/my\040disk rw,prjquota",
    r"22 21 0:40 / /scratch\040disk/a\134b rw - tmpfs tmpfs rw",
]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "mount_lines", lambda: LINES)


def test_places_with_blanks_are_found_by_their_names() -> None:
    assert mounts.mounted_below("/scratch disk") == ["/scratch disk/a\\b", "/scratch disk"]
    assert mounts.mounts()[1] == mounts.Mount("8:17", "/scratch disk", "xfs", "/dev/my disk")


def test_the_file_system_of_a_directory_below_such_a_place() -> None:
    assert file_system_type("/scratch disk/execute") == "xfs"
    assert file_system_type("/home") == "ext4"


def test_the_device_of_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.major", lambda _: 8)
    monkeypatch.setattr("os.minor", lambda _: 17)
    assert device_of(str(tmp_path)) == "/dev/my disk"
