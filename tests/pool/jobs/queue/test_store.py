"""The queue's file: closed to other accounts, and without the secrets that its first forms kept."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pytest

from pool.base.ids import ClaimId
from pool.jobs.queue import backup, store

CLAIM = ClaimId("<127.0.0.1:9618?sock=startd>#1795217732#4#0123456789abcdef0123")
TICKET = "5ec4e7" * 8
OLD_ROW = (CLAIM, "<127.0.0.1:9618>", "ann@here", "ann", "{}", TICKET, 2400.0, 300.0, 17.0, 1, 0, "run")


def an_old_queue(path: Path) -> list[str]:
    """A queue with schema 3 and a claim in it; its dump."""
    connection = store.open_queue(path, schema=3)
    connection.execute(f"INSERT INTO claims VALUES ({', '.join('?' * len(OLD_ROW))})", OLD_ROW)
    lines = list(backup.dump(connection))
    connection.close()
    return lines


def test_a_claim_of_an_earlier_version_goes_by_its_digest_and_its_ticket_is_void(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    an_old_queue(path)
    connection = store.open_queue(path)
    (row,) = store.read_claims(connection)
    assert (row.claim, row.digest, row.startd) == (CLAIM.public(), CLAIM.digest(), "<127.0.0.1:9618>")
    assert (row.ticket, row.files_ticket, row.cluster, row.proc, row.activation) == ("", "", 1, 0, "run")
    for file in tmp_path.iterdir():  # while it is open, the write-ahead log included
        data = file.read_bytes()
        assert TICKET.encode() not in data
        assert CLAIM.encode() not in data
    connection.close()


def test_a_dump_of_an_earlier_version_becomes_a_queue_of_this_one(tmp_path: Path) -> None:
    lines = an_old_queue(tmp_path / "old.sqlite")
    new = tmp_path / "new.sqlite"
    assert backup.load(lines, new) == 1
    connection = store.open_queue(new)
    assert [row.digest for row in store.read_claims(connection)] == [CLAIM.digest()]
    connection.close()


@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_what_was_open_to_others_is_closed_before_anything_is_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "queue.sqlite"
    store.open_queue(path).close()
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"queue.sqlite{end}").touch()
        (tmp_path / f"queue.sqlite{end}").chmod(mode)
    connection = store.open_queue(path)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    connection.close()


def test_a_connection_beside_the_writer_s_keeps_little_of_what_it_goes_through(tmp_path: Path) -> None:
    connection = store.open_queue(tmp_path / "queue.db")
    with closing(connection), closing(store.open_beside(store.file_of(connection))) as beside:
        assert beside.execute("PRAGMA cache_size").fetchone() == (-store.BESIDE_CACHE_KIB,)
