"""Files between a tool and a file agent: of several troubles the first is told, and every file gets its turn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from protocol.files.blocking_files import receive_files
from protocol.files.file_list import SMALL_BYTES_MAX
from protocol.messages.agent import FileEntry
from protocol.rpc.blocking import BlockingPeer
from protocol.rpc.events import BulkFailed

SIZE = SMALL_BYTES_MAX + 1


class Failing:
    """A sender that cannot read any of its files."""

    def __init__(self) -> None:
        self.asked = 0

    def next_bulk(self) -> BulkFailed:
        self.asked += 1
        return BulkFailed(f"trouble {self.asked}")


def test_the_first_trouble_is_told_when_files_are_received(tmp_path: Path) -> None:
    def open_file(entry: FileEntry) -> int:
        return os.open(tmp_path / entry.name, os.O_WRONLY | os.O_CREAT)

    sender = Failing()
    entries = [FileEntry(name=name, size=SIZE) for name in ("a", "b", "c")]
    trouble = receive_files(cast(BlockingPeer, sender), entries, open_file)
    assert str(trouble) == "receiving file a: trouble 1"
    assert sender.asked == 3
