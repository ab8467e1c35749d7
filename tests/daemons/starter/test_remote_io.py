"""Programs that know nothing of it work with files that only the access point has: real mounts, a real file agent."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from daemons.base.linux import is_zombie
from daemons.host.mounts import mounts
from daemons.host.namespaces import can_isolate
from daemons.starter.remote_io.served import SERVER_GONE
from pool.jobs.vocabulary.endings import Ending
from pool.jobs.vocabulary.hold_codes import HoldCode
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobEnded, JobExecuting

from .bench import PATIENCE_S, Bench, bench, job_user
from .test_cut_transfers import cut_bench

pytestmark = pytest.mark.skipif(
    not can_isolate() or not os.path.exists("/dev/fuse"), reason="file systems take root's rights and /dev/fuse"
)

MIB = 1 << 20
PROGRAM = """
set -e
sort words -o sorted
echo first > made; echo more >> made; cat made
mv made moved; chmod 640 moved; stat -c '%a %U %s' moved
mkdir d; echo inner > d/file; ls d; rm -r d
ln -s words link; head -1 link; readlink link
ln words second; stat -c %h words
truncate -s 3 moved; cat moved; echo
touch -d '2001-02-03 04:05:06 UTC' moved; stat -c %Y moved
mkfifo fifo 2> /dev/null || echo no fifo
( umask 077; echo > private; stat -c %a private )
ls -a | tr '\\n' ','; echo
grep NoNewPrivs /proc/self/status
"""
PRINTED = """first
more
640 {user} 11
file
b
words
2
fir
981173106
no fifo
600
.,..,err,link,moved,out,private,second,sorted,words,
NoNewPrivs:\t1
"""
UNLINKED = """
import os
with open("gone", "w+") as file:
    os.unlink("gone")
    file.write("still here")
    file.seek(0)
    print(file.read(), os.path.exists("gone"))
fd = os.open("sealed", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
os.write(fd, b"written")
os.close(fd)
print(oct(os.stat("sealed").st_mode), open("sealed").read())
with open("mixed", "w", buffering=1) as first, open("mixed", "a", buffering=1) as second:
    first.write("a first line\\n")
    second.write("appended\\n")
    first.seek(2)
    first.write("FIRST")
    second.write("again\\n")
print(open("mixed").read().split("\\n"))
with open("random", "w+b") as file:
    for at in (5_000_000, 0, 3_000_001, 1_234_567):
        file.seek(at)
        file.write(b"%d" % at)
    file.flush()
    found = []
    for at in (1_234_567, 3_000_001, 5_000_000, 2_000_000):
        file.seek(at)
        found.append(file.read(7))
    print(found, os.path.getsize("random"))
"""
ERRORS = """
import os
def tried(act, *args):
    try:
        act(*args)
    except OSError as error:
        print(act.__name__, error.strerror)
tried(open, "nowhere")
tried(open, "closed")
tried(os.mkdir, "sub")
tried(os.rmdir, "sub")
tried(open, "sub")
tried(os.listdir, "words")
tried(os.chown, "words", 0, 0)
tried(open, "out_of_here")
tried(open, "sub/../../beside")
tried(os.getxattr, "words", "user.x")
"""
LEFT = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open("small/other", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 3000000)
mapped = libc.mmap(None, ctypes.c_size_t(3000000), 3, 1, fd, ctypes.c_long(0))
os.close(fd)
ctypes.memset(mapped, 1, 3000000)
"""

APPENDS = """
import os, sys
for child in range(4):
    if not os.fork():
        fd = os.open("lines", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for number in range(2000):
            line = f"{child} {number} {'x' * (number % 300)}\\n".encode()
            assert os.write(fd, line) == len(line)
        os._exit(0)
print([os.wait()[1] for child in range(4)])
"""
"""Four processes that append to one file."""
FILLS = """
import errno, os, sys
path, sizes = sys.argv[1], [int(word) for word in sys.argv[2:]]
fd = os.open(path, os.O_WRONLY | os.O_CREAT)
said = "nothing"
try:
    for size in sizes:
        os.write(fd, bytes(size))
        said = "of write"
    said = "of close"
    os.close(fd)
except OSError as error:
    print(errno.errorcode[error.errno], said)
else:
    print("written")
"""
"""What does not fit is told by a write or by the close."""
REPLACED = """
import os, sys
left = int(sys.argv[1])
file = open("counted", "w")
file.write(str(left))
file.flush()
if left:
    os.execv(sys.executable, [sys.executable, "program.py", str(left - 1)])
print("replaced")
"""
"""An execve closes `file`, which has bytes that are not at home yet, while nobody can look at the process."""


def put(path: Path, data: bytes = b"", mode: int = 0o644) -> Path:
    """A file of the user's."""
    path.write_bytes(data)
    path.chmod(mode)
    shutil.chown(path, job_user())
    return path


async def begun(made: Bench, command: str, **attributes: object) -> str:
    """The activation of a job whose files stay at home."""
    job = made.job_ad(command, WantRemoteIO=True, **attributes)
    return await made.run(job, files=True, claim="claim")


async def ended(made: Bench, command: str, **attributes: object) -> JobEnded:
    """Its end."""
    return await made.ended(await begun(made, command, **attributes))


async def program(made: Bench, text: str, *words: str) -> str:
    """What a Python program at home prints."""
    put(made.iwd / "program.py", text.encode())
    end = await ended(made, " ".join(("python3 program.py", *words)))
    told = (made.iwd / "out").read_text() + (made.iwd / "err").read_text()
    assert code(end) == 0, told
    return told


def code(end: JobEnded) -> object:
    """The exit code of a job that ended by itself."""
    assert end.ending is Ending.EXITED, (end.ending, end.reason)
    return end.ad.eval("ExitCode")


def homes() -> list[str]:
    """What is mounted so, as far as this process sees."""
    return [one.point for one in mounts() if one.kind == "fuse" and one.source == "home"]


async def test_a_program_works_with_files_that_only_home_has() -> None:
    async with bench(agent=True) as made:
        put(made.iwd / "words", b"b\na\n")
        end = await ended(made, PROGRAM)
        assert (code(end), (made.iwd / "err").read_text()) == (0, "")
        assert (made.iwd / "out").read_text().splitlines() == PRINTED.format(user=job_user()).splitlines()
        assert (made.iwd / "sorted").read_bytes() == b"a\nb\n"
        assert {(made.iwd / name).owner() for name in ("sorted", "moved", "out")} == {job_user()}
        assert homes() == []
        # An open file without a name, and one that is closed to its own maker.
        assert await program(made, UNLINKED) == (
            "still here False\n0o100444 written\n['a FIRST line', 'appended', 'again', '']\n"
            "[b'1234567', b'3000001', b'5000000', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00'] 5000007\n"
        )
        assert not list(made.iwd.glob(".remote_io*"))


async def test_a_program_is_replaced_by_another_while_its_use_is_looked_at() -> None:
    async with bench(agent=True, processes_look_s=0.001) as made:
        assert await program(made, REPLACED, "30") == "replaced\n"
        assert (made.iwd / "counted").read_text() == "0"


async def test_what_fails_at_home_fails_so_for_the_program_and_nothing_outside_is_reached() -> None:
    async with bench(agent=True) as made:
        put(made.iwd / "words", b"b\na\n")
        put(made.iwd / "closed", b"", 0)
        (made.iwd / "sub").mkdir()
        put(made.iwd / "sub" / "inner")
        shutil.chown(made.iwd / "sub", job_user())
        (made.root / "beside").write_text("not the job's")
        (made.iwd / "out_of_here").symlink_to("/nowhere/at/all")
        assert await program(made, ERRORS) == (
            "open No such file or directory\nopen Permission denied\nmkdir File exists\nrmdir Directory not empty\n"
            "open Is a directory\nlistdir Not a directory\nchown Operation not permitted\n"
            "open No such file or directory\ngetxattr Operation not supported\n"
        )


async def test_a_job_whose_directory_is_not_there_is_held_before_it_starts() -> None:
    async with bench(agent=True) as made:
        missing = await ended(made, "true", Iwd=str(made.iwd / "nowhere"))
        system = await ended(made, "true", Iwd="/etc")
        for end, word in ((missing, "nowhere"), (system, "belongs to the machine")):
            held = end.ending, end.ad.eval("HoldReasonCode"), word in end.reason
            assert held == (Ending.HOLD, HoldCode.IWD_ERROR, True), (end.reason, end.ad)
        assert not [said for said in made.heard if isinstance(said, JobExecuting)]


@contextmanager
def full_directory(path: Path) -> Iterator[Path]:
    """A directory of the user's that holds one megabyte."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", path], check=True)
    try:
        shutil.chown(path, job_user())
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


async def test_a_full_disk_at_home_is_what_the_program_is_told() -> None:
    async with bench(agent=True) as made:
        with full_directory(made.iwd / "small"):
            end = await ended(made, "head -c 3000000 /dev/zero > small/file")
            assert code(end) == 1
            assert "No space left on device" in (made.iwd / "err").read_text()
            # What is written through a mapping after the last close is told nobody; the job is held instead.
            put(made.iwd / "left.py", LEFT.encode())
            held = await ended(made, "python3 left.py; true")
            assert (held.ending, held.ad.eval("HoldReasonSubCode")) == (Ending.HOLD, errno.ENOSPC), held


async def test_what_several_processes_append_to_a_file_is_all_there() -> None:
    async with bench(agent=True) as made:
        assert await program(made, APPENDS) == "[0, 0, 0, 0]\n"
        lines = (made.iwd / "lines").read_text().splitlines()
        expected = [f"{child} {number} {'x' * (number % 300)}" for child in range(4) for number in range(2000)]
        assert sorted(lines) == sorted(expected)
        for child in range(4):
            assert [line for line in lines if line[0] == str(child)] == expected[2000 * child : 2000 * (child + 1)]


async def test_what_does_not_fit_is_told_by_a_write_or_by_the_close() -> None:
    async with bench(agent=True) as made:
        with full_directory(made.iwd / "small"):
            assert await program(made, FILLS, "small/fits", "1000", "1000") == "written\n"
            assert await program(made, FILLS, "small/close", str(MIB + 1000)) == "ENOSPC of close\n"
            # So much is never under way at once that the first is not heard of meanwhile.
            assert await program(made, FILLS, "small/write", *["1000000"] * 500) == "ENOSPC of write\n"


async def test_a_cut_connection_costs_the_program_nothing_but_time() -> None:
    async with cut_bench(1_000_000, 900_000, 2_500_000, 700_000) as (made, cutter):
        put(made.iwd / "large", data := os.urandom(3_000_000))
        command = (
            "cat large > copy; echo one >> log; echo two >> log; mkdir made; mv copy made/copy; cat log large > end"
        )
        assert code(await ended(made, command)) == 0
        assert (made.iwd / "made" / "copy").read_bytes() == data
        assert (made.iwd / "log").read_text() == "one\ntwo\n"
        assert (made.iwd / "end").read_bytes() == b"one\ntwo\n" + data
        assert len(cutter.moved) >= 4
        assert "out of reach" in made.log()


async def test_a_job_that_waits_for_its_files_can_be_evicted() -> None:
    async with cut_bench(1_000_000, *[0] * 1000) as (made, _):
        put(made.iwd / "large", os.urandom(3_000_000))
        activation = await begun(made, "cat large > copy; cat large > /dev/null")
        await made.until(JobExecuting, activation)
        with trio.fail_after(PATIENCE_S):
            while "out of reach" not in made.log():
                await trio.sleep(0.01)
        await made.stop(activation, StopHow.FAST, reason="go")
        end = await made.ended(activation)
        assert (end.ending, end.reason) == (Ending.EVICTED, "go")
        assert homes() == []


async def at_work(made: Bench) -> tuple[str, int]:
    """A job that reads and writes for as long as that can be done: its activation, and its process."""
    activation = await begun(made, "echo > mark; while cat mark > copy; do :; done")
    executing = await made.until(JobExecuting, activation)
    with trio.fail_after(PATIENCE_S):
        while not (made.iwd / "mark").exists():
            await trio.sleep(0.01)
    return activation, executing.ad.eval_int("JobPid", 0)


async def test_a_job_begins_again_elsewhere_when_the_process_that_serves_its_files_is_killed() -> None:
    async with bench(agent=True) as made:
        activation, _ = await at_work(made)
        assert made.homes_server is not None
        made.homes_server.kill()
        end = await made.ended(activation)
        assert (end.ending, end.reason) == (Ending.EVICTED, SERVER_GONE)
        assert code(await ended(made, "cat mark")) == 0


@pytest.mark.slow
async def test_a_server_that_is_stuck_holds_nobody_up_when_the_job_has_to_leave() -> None:
    async with bench(agent=True) as made:
        activation, _ = await at_work(made)
        assert made.homes_server is not None
        made.homes_server.kill(signal.SIGSTOP)
        await made.stop(activation, StopHow.FAST, reason="go")
        end = await made.ended(activation)
        assert (end.ending, end.reason) == (Ending.EVICTED, "go")
        await made.homes_server.wait()


async def test_files_are_out_of_reach_at_once_when_the_starter_is_killed() -> None:
    async with bench(agent=True) as made:
        _, pid = await at_work(made)
        mounted = [line for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines() if " - fuse home " in line]
        assert len(mounted) == 1
        assert homes() == []
        os.kill(made.starter.pid, signal.SIGKILL)
        await made.starter.wait()
        # Nobody kills it here: its next operation has failed, or the one that it waited for.
        with trio.fail_after(PATIENCE_S):
            while not is_zombie(pid):
                await trio.sleep(0.01)
            assert made.homes_server is not None
            await made.homes_server.wait()
