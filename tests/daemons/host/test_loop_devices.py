"""Loop devices, on a kernel that is a few lines here: several processes of a machine want them at once."""

from __future__ import annotations

import fcntl
import os

import pytest

from daemons.host.volumes import rootly


def test_a_device_file_that_another_process_makes_at_the_same_moment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    really, asked = os.open, list[str]()

    def open_device(path: str, flags: int) -> int:
        asked.append(path)
        return really("/dev/null", flags)

    def mknod(path: str, *_: int) -> None:
        raise FileExistsError(path)

    monkeypatch.setattr(os, "open", open_device)
    monkeypatch.setattr(os, "mknod", mknod)
    monkeypatch.setattr(fcntl, "ioctl", lambda _device, _request, *_given: 4711)
    path, device = rootly.attach(0)
    os.close(device)
    assert (path, asked) == ("/dev/loop4711", ["/dev/loop-control", "/dev/loop4711"])
