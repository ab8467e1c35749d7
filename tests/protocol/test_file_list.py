"""Small files travel in their list; what cannot be read, or is not as long as was said, is left to the stream."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from protocol.files.file_list import LIST_BYTES_MAX, PAGE_BYTES, SMALL_BYTES_MAX, regular, with_small, write_small
from protocol.messages.agent import FileEntry


def _listed(directory: Path, *names: str) -> list[FileEntry]:
    return [FileEntry(name=name, size=(directory / name).stat().st_size) for name in names]


def test_small_files_are_in_the_list_and_large_ones_follow_it(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "small").write_bytes(b"x" * SMALL_BYTES_MAX)
    (tmp_path / "large").write_bytes(b"x" * (SMALL_BYTES_MAX + 1))
    entries = [*_listed(tmp_path, "empty", "small", "large"), FileEntry(name="dir", kind="dir")]
    made = with_small(entries, lambda entry: os.open(tmp_path / entry.name, os.O_RDONLY))
    assert [None if entry.data is None else len(entry.data) for entry in made] == [0, SMALL_BYTES_MAX, None, None]
    assert [entry.name for entry in regular(made)] == ["large"]


def test_a_list_holds_no_more_than_its_share(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    entries = _listed(tmp_path, "empty") * 1000
    made = with_small(entries, lambda entry: os.open(tmp_path / entry.name, os.O_RDONLY))
    assert len(made) - len(regular(made)) == LIST_BYTES_MAX // PAGE_BYTES


def test_a_file_that_is_gone_or_has_grown_is_left_to_the_stream(tmp_path: Path) -> None:
    (tmp_path / "grown").write_bytes(b"more than that")
    entries = [FileEntry(name="gone", size=3), FileEntry(name="grown", size=4)]
    assert regular(with_small(entries, lambda entry: os.open(tmp_path / entry.name, os.O_RDONLY))) == entries


def test_a_small_file_that_cannot_be_written_costs_itself_only(tmp_path: Path) -> None:
    entries = [FileEntry(name="no/where", size=1, data=b"a"), FileEntry(name="here", size=1, data=b"b")]

    def create(entry: FileEntry) -> int:
        return os.open(tmp_path / entry.name, os.O_WRONLY | os.O_CREAT, 0o600)

    trouble = write_small(entries, create)
    assert trouble is not None
    assert trouble.number == errno.ENOENT
    assert (tmp_path / "here").read_bytes() == b"b"
