"""Checkpoints of programs that know nothing of them, by a real CRIU between a real starter and a real agent."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from daemons.host.namespaces import can_isolate
from pool.classad import ClassAd
from pool.files.checkpoint import MANIFEST, write_manifest
from pool.jobs.vocabulary.endings import Ending
from protocol.files.digest import digest_of
from protocol.messages.common import StopHow
from protocol.messages.shadow import JobEnded, JobExecuting, JobNotice, JobUpdate
from protocol.messages.starter import CheckpointJob

from .bench import PATIENCE_S, Bench, bench, job_user

CRIU = shutil.which("criu", path=os.environ["PATH"] + ":/usr/sbin:/sbin") or ""
ROOTS = pytest.mark.skipif(not can_isolate(), reason="takes root's rights")
# The first that does without root's rights is 3.18.
ABLE = bool(CRIU) and "--unprivileged" in subprocess.run([CRIU, "--help"], capture_output=True, text=True).stdout
REAL = pytest.mark.skipif(not ABLE or not can_isolate(), reason="takes root's rights and a program criu from 3.18 on")
FAKE = """#!/bin/sh
printf '%s\\n' "$*" "$(id -u)" >> {orders}
sed -n 's/^CapEff:.//p; s/^CapBnd:.//p; s/^NoNewPrivs:.//p' /proc/self/status >> {orders}
while [ "$1" != --images-dir ]; do shift; done
echo 'Error (cr-dump.c:1): no such luck' > "$2/criu.log"
exit 1
"""

WANTED = {"ShouldTransferFiles": "YES", "WantCheckpoint": "criu", "TransferOutput": "", "GlobalJobId": "here#1.0#7"}
COUNT = """
import os, time
mine, into = open("counted", "w"), os.pipe()
os.write(into[1], b"from before")
for n in range(1, 1000001):
    if n % 100 == 0:
        print(n, os.getpid(), file=mine, flush=True)
        time.sleep(0.01)
    if os.path.exists("go"):
        break
print(os.read(into[0], 100).decode(), n, flush=True)
"""
SEVERAL = """
import mmap, os, select, socket, threading, time
here, there = socket.socketpair()
shared, gone, poll, beats = mmap.mmap(-1, 8), open("gone", "w+"), select.epoll(), []
gone.write("kept")
gone.flush()
os.remove("gone")
child = os.fork()
if child == 0:
    here.close()
    while number := there.recv(8):
        shared[:] = number
        there.send(b"seen")
    os._exit(7)
there.close()
poll.register(here, select.EPOLLIN)
beat = lambda: [beats.append(time.sleep(0.01)) for _ in iter(lambda: os.path.exists("go"), True)]
threading.Thread(target=beat).start()
mine, n = open("counted", "w"), 0
while not os.path.exists("go"):
    n += 1
    here.send(n.to_bytes(8, "big"))
    poll.poll()
    assert (here.recv(8), shared[:]) == (b"seen", n.to_bytes(8, "big"))
    print(n, child, len(beats), file=mine, flush=True)
    time.sleep(0.01)
here.close()
gone.seek(0)
print(gone.read(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Two processes that speak by a pair of sockets and by shared memory, a second thread, and a file that is no more."""


async def counted(b: Bench, activation: str, more_than: int) -> list[str]:
    """What a job has written, once it has counted so far."""
    await b.until(JobExecuting, activation)  # before that it leaves as one that has not begun
    path, since = b.sandbox / "counted", len(b.heard)
    with trio.fail_after(PATIENCE_S):
        while True:
            assert not [m for m in b.heard[since:] if isinstance(m, JobEnded)], (b.heard[-1], b.log())
            lines = path.read_text().splitlines() if path.exists() else []
            if lines and int(lines[-1].split()[0]) > more_than:
                return lines
            await trio.sleep(0.02)


def python_job(b: Bench, program: str, **attributes: object) -> ClassAd:
    """A job that runs this program of Python's."""
    job = b.job_ad("", Cmd="/usr/bin/python3", **WANTED, **attributes)
    job["Arguments"] = "-c '" + program.replace("'", "''") + "'"
    return job


def updates(b: Bench) -> list[ClassAd]:
    """What was told of the job."""
    return [m.ad for m in b.heard if isinstance(m, JobUpdate)]


async def until(b: Bench, condition: Callable[[], object]) -> None:
    """Wait for it."""
    with trio.fail_after(PATIENCE_S):
        while not condition():
            await trio.sleep(0.02)


def forge_manifest(kept: Path) -> None:
    """Have the manifest of a checkpoint agree with what a user has made of its files."""
    names = [path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file() and path.name != MANIFEST]
    (kept / MANIFEST).write_text(write_manifest({name: digest_of(str(kept / name)) for name in names}))


@REAL
async def test_a_program_that_counts_goes_on_where_it_was_in_another_sandbox() -> None:
    async with bench(agent=True, criu=CRIU) as b:
        job = python_job(b, COUNT)
        first = await b.run(job, files=True, spool=True)
        await counted(b, first, 1000)
        await b.stop(first)
        end = await b.ended(first)
        assert (end.ending, end.checkpointed) == (Ending.EVICTED, True), (end, b.log())
        (update,) = [m.ad for m in b.heard if isinstance(m, JobUpdate) and "CheckpointNumber" in m.ad]
        before = (b.iwd / "spool/_condor_checkpoint_0000/counted").read_text().splitlines()
        # A starter of its own, and so another directory.
        job.update(update)
        second = await b.run(job, files=True, spool=True)
        after = await counted(b, second, int(before[-1].split()[0]) + 1000)
        assert after[: len(before)] == before
        assert [int(line.split()[0]) for line in after] == list(range(100, 100 * len(after) + 1, 100))
        assert len({line.split()[1] for line in after}) == 1
        (b.sandbox / "go").touch()
        end = await b.ended(second)
        assert (end.ending, end.ad["ExitCode"]) == (Ending.EXITED, 0), (end, b.log())
        assert (b.iwd / "out").read_text().startswith("from before ")
        assert not (b.iwd / "_condor_criu").exists()


@REAL
async def test_processes_and_threads_go_on_with_what_is_between_them() -> None:
    async with bench(agent=True, criu=CRIU) as b:
        job = python_job(b, SEVERAL)
        first = await b.run(job, files=True, spool=True)
        await counted(b, first, 20)
        await b.stop(first)
        end = await b.ended(first)
        assert (end.ending, end.checkpointed) == (Ending.EVICTED, True), (end, b.log())
        (update,) = [ad for ad in updates(b) if "CheckpointNumber" in ad]
        before = (b.iwd / "spool/_condor_checkpoint_0000/counted").read_text().splitlines()
        job.update(update)
        second = await b.run(job, files=True, spool=True)
        after = [line.split() for line in await counted(b, second, len(before) + 20)]
        assert [int(number) for number, _, _ in after] == list(range(1, len(after) + 1))
        assert len({child for _, child, _ in after}) == 1
        assert int(after[-1][2]) > int(after[len(before) - 1][2]), "the second thread beats on"
        (b.sandbox / "go").touch()
        end = await b.ended(second)
        assert (end.ending, end.ad["ExitCode"]) == (Ending.EXITED, 0), (end, b.log())
        assert (b.iwd / "out").read_text() == "kept 7\n"


@REAL
async def test_a_running_program_is_written_down_and_goes_on_and_later_starts_from_there() -> None:
    async with bench(agent=True, criu=CRIU) as b:
        job = python_job(b, COUNT)
        first = await b.run(job, files=True, spool=True)
        await counted(b, first, 1000)
        await b.startd.call(CheckpointJob(activation=first))
        await until(b, lambda: [ad for ad in updates(b) if "CheckpointNumber" in ad])
        (update,) = [ad for ad in updates(b) if "CheckpointNumber" in ad]
        before = (b.iwd / "spool/_condor_checkpoint_0000/counted").read_text().splitlines()
        lines = await counted(b, first, int(before[-1].split()[0]) + 1000)
        assert lines[: len(before)] == before
        await b.stop(first, StopHow.FAST)
        assert (await b.ended(first)).ending is Ending.EVICTED
        job.update(update)
        second = await b.run(job, files=True, spool=True)
        again = await counted(b, second, int(before[-1].split()[0]) + 500)
        # What was done after the checkpoint is done once more, and nothing twice.
        assert [int(line.split()[0]) for line in again] == list(range(100, 100 * len(again) + 1, 100))
        await b.stop(second, StopHow.FAST)
        await b.ended(second)


@REAL
async def test_a_program_with_a_connection_goes_on_and_its_user_is_told_why_it_has_no_checkpoint() -> None:
    connected = """
import socket, os, time
a = socket.create_server(("127.0.0.1", 0))
b = socket.create_connection(a.getsockname())
c = a.accept()
open("counted", "w").write("1 1\\n")
while not os.path.exists("go"):
    time.sleep(0.01)
"""
    async with bench(agent=True, criu=CRIU) as b:
        activation = await b.run(python_job(b, connected), files=True, spool=True)
        await counted(b, activation, 0)
        await b.startd.call(CheckpointJob(activation=activation))
        notice = await b.until(JobNotice)
        assert notice.message.startswith("No checkpoint of the program was made: ")
        assert "sock" in notice.message
        await until(b, lambda: [ad for ad in updates(b) if "sock" in (ad.eval_str("CheckpointFailedReason") or "")])
        (b.sandbox / "go").touch()
        end = await b.ended(activation)
        assert (end.ending, end.ad["ExitCode"]) == (Ending.EXITED, 0)


@REAL
async def test_images_that_were_changed_hold_the_job_and_nothing_of_it_is_left() -> None:
    async with bench(agent=True, criu=CRIU) as b:
        job = python_job(b, COUNT)
        first = await b.run(job, files=True, spool=True)
        await counted(b, first, 500)
        await b.stop(first)
        assert (await b.ended(first)).ending is Ending.EVICTED
        kept = b.iwd / "spool/_condor_checkpoint_0000"
        (core,) = (kept / "_condor_criu").glob("core-*.img")
        core.write_bytes(core.read_bytes()[:-100])
        forge_manifest(kept)
        end = await b.ended(await b.run(job, files=True, spool=True))
        assert (end.ending, end.ad["HoldReasonCode"]) == (Ending.HOLD, 36)
        assert "cannot go on from its checkpoint" in (end.ad.eval_str("HoldReason") or "")


@ROOTS
async def test_what_criu_says_when_it_fails_is_told_and_the_job_leaves_in_the_usual_way() -> None:
    async with bench(agent=True, start=False) as b:
        fake = b.root / "criu"
        fake.write_text(FAKE.format(orders=b.root / "orders"))
        fake.chmod(0o755)
        (b.root / "orders").touch()
        (b.root / "orders").chmod(0o666)
        await b.start_starter(criu=str(fake))
        activation = await b.run(b.job_ad("echo 1 1 > counted; exec sleep 600", **WANTED), files=True, spool=True)
        await counted(b, activation, 0)
        await b.stop(activation)
        end = await b.ended(activation)
        assert (end.ending, end.checkpointed) == (Ending.EVICTED, False)
        assert (await b.until(JobNotice)).message == "No checkpoint of the program was made: no such luck"
        assert not list((b.iwd / "spool").glob("_condor_checkpoint_*"))
        orders = (b.root / "orders").read_text().splitlines()
        # As the account, with nothing but the one right, and the program by its number in its namespace.
        assert orders[0].split()[:3] == ["dump", "--tree", "301"]
        assert orders[1:] == [f"{pwd.getpwnam(job_user()).pw_uid}", "0000010000000000", "0000010000000000", "1"]
        # What leaves for good is not written down.
        activation = await b.run(b.job_ad("echo 1 1 > counted; exec sleep 600", **WANTED), files=True, spool=True)
        await counted(b, activation, 0)
        await b.stop(activation, cause="remove")
        await b.ended(activation)
        assert (b.root / "orders").read_text().splitlines() == orders
