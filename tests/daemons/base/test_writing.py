"""Bytes into files: all of them, or an error and none."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from daemons.base.writing import append_whole, write_all


def few_at_a_time(monkeypatch: pytest.MonkeyPatch, *, room: int = 1 << 30) -> None:
    """A file system that takes three bytes at a time, and `room` in all."""
    real, left = os.write, [room]

    def write(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = real(fd, bytes(data)[: min(3, left[0])])
        left[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", write)


def test_what_the_kernel_takes_in_parts_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_at_a_time(monkeypatch)
    with open(tmp_path / "file", "wb", buffering=0) as file:
        write_all(file.fileno(), b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_record_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_bytes(b"before\n")
    few_at_a_time(monkeypatch, room=5)
    with open(tmp_path / "log", "ab", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        append_whole(file.fileno(), b"0123456789")
    assert (tmp_path / "log").read_bytes() == b"before\n"
