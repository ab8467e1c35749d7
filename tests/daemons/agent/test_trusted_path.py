"""Where root's agent opens files: only where root alone decides what a name leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemons.agent.trusted_path import Untrusted, check_new, real

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="asked of root's agent alone")

SOMEBODY = 65534


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory of root's, below others of root's."""
    tmp_path.chmod(0o755)
    return tmp_path


def test_in_roots_directories_links_lead_where_they_lead(top: Path) -> None:
    (top / "inner").mkdir()
    (top / "inner" / "file").touch()
    (top / "there").symlink_to("inner")
    (top / "file").symlink_to(f"{top}/there/../inner/file")
    assert real(f"{top}/there/file") == f"{top}/inner/file"
    assert real(f"{top}/file") == f"{top}/inner/file"
    assert real(f"{top}/missing/below") == f"{top}/missing/below"
    assert real("/dev/null") == "/dev/null"


@pytest.mark.parametrize(("uid", "mode"), [(0, 0o777), (0, 0o775), (SOMEBODY, 0o755), (SOMEBODY, 0o1777)])
def test_what_others_may_change_is_refused_wherever_it_is_on_the_way(top: Path, uid: int, mode: int) -> None:
    (top / "open" / "inner").mkdir(parents=True)
    os.chown(top / "open", uid, SOMEBODY)
    (top / "open").chmod(mode)
    (top / "link").symlink_to("open/inner")
    for path in ("open/file", "open/inner/file", "link/file"):
        with pytest.raises(Untrusted, match="can be changed by other accounts"):
            real(f"{top}/{path}")


def test_a_shared_directory_is_good_for_what_is_roots(top: Path) -> None:
    shared = top / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "mine").mkdir()
    assert real(f"{shared}/mine/file") == f"{shared}/mine/file"
    assert real(f"{shared}/new") == f"{shared}/new"
    with pytest.raises(Untrusted, match="could be made by other accounts"):
        real(f"{shared}/new/file")
    (shared / "theirs").symlink_to("/etc/passwd")
    os.chown(shared / "theirs", SOMEBODY, SOMEBODY, follow_symlinks=False)
    with pytest.raises(Untrusted, match="is another account's"):
        real(f"{shared}/theirs")
    (top / "secret").touch()
    os.link(top / "secret", shared / "second")
    with pytest.raises(Untrusted, match="has several names"):
        real(f"{shared}/second")


def test_links_in_circles_end(top: Path) -> None:
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        real(f"{top}/a")


def test_what_nobody_named_is_neither_hidden_nor_in_the_place_of_older_files(top: Path) -> None:
    check_new(f"{top}/new", 0.0)
    with pytest.raises(Untrusted, match="is hidden"):
        check_new(f"{top}/.profile", 0.0)
    (top / "old").touch()
    made = (top / "old").stat().st_ctime
    check_new(f"{top}/old", made - 1)
    with pytest.raises(Untrusted, match="was there before the job"):
        check_new(f"{top}/old", made + 1)
