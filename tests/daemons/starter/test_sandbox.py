from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemons.host import sandbox
from daemons.host.account import own_account
from pool.classad import ClassAd
from pool.execute.plan import JOB_AD_NAME, MACHINE_AD_NAME


def test_a_sandbox_is_for_its_account_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "dir_1")
    sandbox.make(path, own_account())
    assert os.stat(path).st_mode & 0o777 == 0o700
    (tmp_path / "dir_1" / "left").touch()
    sandbox.make(path, own_account())
    assert os.listdir(path) == []


def test_an_emptied_sandbox_is_the_next_jobs(tmp_path: Path) -> None:
    path = str(tmp_path / "dir_1")
    sandbox.make(path, own_account())
    before = os.stat(path).st_ino
    (tmp_path / "dir_1" / "inner" / "inner").mkdir(parents=True)
    (tmp_path / "dir_1" / "inner" / "inner" / "left").touch()
    os.chmod(path, 0o777)
    sandbox.empty(path)
    assert os.listdir(path) == []
    sandbox.make(path, own_account())
    assert (os.stat(path).st_ino, os.stat(path).st_mode & 0o777) == (before, 0o700)


def test_a_sandbox_is_no_other_jobs_that_somebody_was_let_into_or_that_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "dir_1")
    sandbox.make(path, own_account())
    try:
        os.setxattr(path, "user.mark", b"1")
    except OSError:
        pytest.skip("this file system has no attributes")
    sandbox.empty(path)
    assert not os.path.exists(path)
    sandbox.make(path, own_account())
    monkeypatch.setattr(sandbox, "USUAL_BYTES", -1)
    sandbox.empty(path)
    assert not os.path.exists(path)


def test_the_ads_can_be_read_by_the_job(tmp_path: Path) -> None:
    ads = {JOB_AD_NAME: ClassAd({"Cmd": "x"}).long(), MACHINE_AD_NAME: ClassAd({"Memory": 5}).long()}
    sandbox.write_ads(str(tmp_path), own_account(), ads)
    assert (tmp_path / ".job.ad").read_text() == 'Cmd = "x"\n'
    assert (tmp_path / ".machine.ad").read_text() == "Memory = 5\n"


def test_removal_takes_closed_directories_odd_names_and_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "stays").touch()
    root = tmp_path / "box"
    (root / "closed" / "inner").mkdir(parents=True)
    (root / "closed" / "inner" / "file").touch()
    (root / "closed" / "inner").chmod(0)
    (root / "closed").chmod(0o500)
    (root / "link").symlink_to(outside)
    (root / ".removed-0").mkdir()
    (root / ".removed-0" / "x").touch()
    (root / os.fsdecode(b"odd\xff\nname")).touch()
    os.mkfifo(root / "pipe")
    root.chmod(0)
    sandbox.remove(str(root))
    assert not root.exists()
    assert (outside / "stays").exists()


def test_removal_goes_as_deep_as_it_must(tmp_path: Path) -> None:
    root = tmp_path / "box"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 20, dir_fd=here)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    sandbox.remove(str(root))
    assert not root.exists()
    sandbox.remove(str(root))  # again: nothing to do


def test_disk_usage_counts_a_file_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(b"x" * 100_000)
    before, things = sandbox.disk_usage(str(tmp_path))
    os.link(tmp_path / "sub" / "file", tmp_path / "again")
    assert 100_000 <= before < 200_000
    assert things == 2
    assert sandbox.disk_usage(str(tmp_path)) == (before, 3)
