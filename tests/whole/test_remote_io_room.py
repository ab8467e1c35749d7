"""Jobs whose files are on a disk at home that is full, or of which their user may have no more (want_remote_io)."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest

from daemons.host.namespaces import can_isolate
from tests.whole.real_pool import RealPool, real_pool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not can_isolate() or not os.path.exists("/dev/fuse"), reason="file systems take root's rights and /dev/fuse"
    ),
]
ROOM_BYTES: Final = 512 * 1024
ONE_BYTES: Final = 900_000
"""More than there is room for, and one request to whoever serves the file: it is answered before it is at home."""
DIVIDED_BYTES: Final = 64 << 20
"""A write of so much is many requests, and more than is under way at a time."""
PROGRAM: Final = f"""
import errno, os
def told(act, *args):
    try:
        return act(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
def written(name, size):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    print(name, told(os.write, fd, bytes(size)), told(os.fsync, fd) if name == "synced" else "", told(os.close, fd))
    os.unlink(name)
os.chdir("small")
written("fits", 1000)
written("closed", {ONE_BYTES})
written("synced", {ONE_BYTES})
written("divided", {DIVIDED_BYTES})
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with real_pool(NUM_CPUS=1) as started:
        yield started


def tool(*command: str | Path) -> None:
    """Run it, or skip the test where this machine cannot."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"there is no {command[0]}")
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def mounted(path: Path, size: int, make: list[str], options: str = "loop") -> Iterator[str]:
    """A new file system in a file, and its device."""
    path.mkdir()
    image = path.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(size)
    tool(*make, image)
    if subprocess.run(["mount", "-o", options, image, path], check=False, capture_output=True).returncode:
        pytest.skip(f"this kernel does not mount what {' '.join(make)} makes")
    try:
        yield subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", path], check=True, capture_output=True, text=True
        ).stdout.strip()
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@contextmanager
def full_disk(path: Path, user: str) -> Iterator[None]:
    """It has room for about ROOM_BYTES."""
    with mounted(path, 4 << 20, ["mkfs.ext4", "-q", "-m", "0"]):
        status = os.statvfs(path)
        (path / "filler").write_bytes(bytes(status.f_bavail * status.f_frsize - ROOM_BYTES))
        yield


@contextmanager
def quota_of_ext4(path: Path, user: str) -> Iterator[None]:
    """A quota of the user's, as most sites have it."""
    make = ["mkfs.ext4", "-q", "-O", "quota", "-E", "quotatype=usrquota"]
    with mounted(path, 64 << 20, make, "loop,usrquota") as device:  # without the option only usage is counted
        limits = (ctypes.c_uint64 * 9)(ROOM_BYTES // 1024, 0, 0, 0, 0, 0, 0, 0, 1)  # the last says: those of blocks
        libc, set_quota = ctypes.CDLL(None, use_errno=True), 0x800008 << 8
        if libc.quotactl(set_quota, device.encode(), pwd.getpwnam(user).pw_uid, limits):
            pytest.skip(f"this kernel keeps no quotas: {os.strerror(ctypes.get_errno())}")
        yield


@contextmanager
def quota_of_btrfs(path: Path, user: str) -> Iterator[None]:
    """A quota of the directory's."""
    with mounted(path, 256 << 20, ["mkfs.btrfs", "-q"]):
        tool("btrfs", "quota", "enable", path)
        tool("btrfs", "qgroup", "limit", str(ROOM_BYTES), path)
        yield


@pytest.mark.parametrize(
    ("disk", "said"),
    [(full_disk, errno.ENOSPC), (quota_of_ext4, errno.EDQUOT), (quota_of_btrfs, errno.EDQUOT)],
    ids=["a full disk", "a quota of ext4", "a quota of btrfs"],
)
def test_a_program_is_told_that_there_is_no_room_at_home(
    pool: RealPool, disk: Callable[[Path, str], AbstractContextManager[None]], said: int
) -> None:
    here = pool.place(disk.__name__)
    shutil.chown(here, pool.user)
    (here / "program.py").write_text(PROGRAM)
    with disk(here / "small", pool.user):
        shutil.chown(here / "small", pool.user)
        cluster = pool.submit(
            "executable = /usr/bin/python3\narguments = program.py\nwant_remote_io = true\n"
            "output = out\nerror = err\nlog = log\nqueue\n",
            cwd=here,
        )
        (ad,) = pool.until_done(cluster)
    assert (ad.eval("ExitCode"), (here / "err").read_text()) == (0, "")
    fits, closed, synced, divided = [line.split() for line in (here / "out").read_text().splitlines()]
    name = errno.errorcode[said]
    assert fits == ["fits", "1000", "None"]
    assert closed == ["closed", str(ONE_BYTES), name]
    # Who has heard it of fsync need not hear it again.
    assert synced == ["synced", str(ONE_BYTES), name, "None"]
    # The kernel tells only how much of a divided write was taken before one of its requests was told: the close says why.
    assert 0 < int(divided[1]) < DIVIDED_BYTES
    assert divided[2] == name
