"""Files that arrive are moved to their places: at once, or by a thread where that takes long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocol.files.placement import AT_ONCE_MAX, FREED_AT_ONCE_MAX, Placement
from protocol.messages.agent import FileEntry


@pytest.mark.parametrize(
    ("files", "there", "long"),
    [(1, 0, False), (1, FREED_AT_ONCE_MAX + 1, True), (AT_ONCE_MAX, 10, False), (AT_ONCE_MAX + 1, 0, True)],
)
def test_a_thread_moves_many_files_and_those_that_replace_large_ones(
    tmp_path: Path, files: int, there: int, long: bool
) -> None:
    placement = Placement(lambda name: str(tmp_path / name), "mark")
    entries = [FileEntry(name=f"out{number}", size=0, mode=0o644) for number in range(files)]
    placement.plan(entries)
    for entry in entries:
        if there:
            (tmp_path / entry.name).touch()
            os.truncate(tmp_path / entry.name, there)
        os.close(placement.open(entry))
    assert placement.takes_long == long
    placement.finish()
    assert sorted(path.stat().st_size for path in tmp_path.iterdir()) == [0] * files
