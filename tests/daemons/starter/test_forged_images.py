"""Images of a program that its user has changed, made again by a real CRIU: no more rights come of them than a job has.

A checkpoint comes back from the access point, where its user can write what they like into it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from daemons.base.linux import descendants, status_fields, threads_of
from daemons.host.namespaces import can_isolate
from pool.classad import ClassAd
from pool.jobs.vocabulary.endings import Ending
from protocol.messages.shadow import JobExecuting

from .bench import Bench, bench
from .criu_images import Fields, edit, put
from .test_criu import CRIU, forge_manifest, python_job, until

pytestmark = pytest.mark.skipif(not CRIU or not can_isolate(), reason="takes root's rights and the program criu")

ENDLESS = """
import os, threading, time
ours = open("ours", "w")
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
if os.fork() == 0:
    time.sleep(600)
while not os.path.exists("go"):
    open("alive", "w").write("yes")
    time.sleep(0.02)
"""
"""A program with a thread and a child."""

CORE_THREAD, CREDS, SCHED_NICE = 5, 10, 3
PID, THREADS = 1, 5
CAP_INH, CAP_PRM, CAP_EFF, CAP_BND, CAP_AMB = 9, 10, 11, 12, 19
CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE = 21, 40


def cores(images: Path) -> tuple[Path, Path, Path]:
    """Those of the program, of its thread and of its child."""
    found: list[Fields] = []
    edit(images / "pstree.img", found.extend)
    (first, child) = ([value for number, value in entry if number in (PID, THREADS)] for entry in found)
    pid, thread = int(first[0]), next(int(one) for one in first[1:] if one != first[0])
    return images / f"core-{pid}.img", images / f"core-{thread}.img", images / f"core-{int(child[0])}.img"


def creds(path: Path, field: int, *values: int) -> None:
    """Have one field of a thread's credentials say this."""
    edit(path, lambda entries: put(entries[0], (CORE_THREAD, CREDS, field), *values))


def capability(path: Path, number: int) -> None:
    """Have a thread ask for it."""
    words = (1 << number & 0xFFFFFFFF, 1 << number >> 32)
    for field in (CAP_INH, CAP_PRM, CAP_EFF, CAP_BND, CAP_AMB):
        creds(path, field, *words)


def of_the_program(images: Path) -> None:
    capability(cores(images)[0], CAP_CHECKPOINT_RESTORE)


def of_a_thread(images: Path) -> None:
    capability(cores(images)[1], CAP_CHECKPOINT_RESTORE)


def of_a_child(images: Path) -> None:
    capability(cores(images)[2], CAP_CHECKPOINT_RESTORE)


def of_root(images: Path) -> None:
    capability(cores(images)[0], CAP_SYS_ADMIN)


def root_itself(images: Path) -> None:
    for number in range(1, 9):
        creds(cores(images)[0], number, 0)


def roots_group(images: Path) -> None:
    creds(cores(images)[0], 14, 0)


def open_file(images: Path, name: str) -> None:
    """Have a file of the program be another one."""

    def change(entries: list[Fields]) -> None:
        reg = next(entry for entry in entries if b"/ours" in (dict(entry).get(3) or b""))  # type: ignore[operator]
        put(reg, (3, 6), name.encode())
        put(reg, (3, 8), os.stat(name).st_size)
        put(reg, (3, 10), os.stat(name).st_mode)

    edit(images / "files.img", change)


def other_namespace(images: Path, field: int) -> None:
    """Have the program be in a namespace of its own: in another one than who has written it down."""
    edit(images / "inventory.img", lambda entries: put(entries[0], (3, field), 99))


def another_process(images: Path) -> None:
    """Have the program have one more child."""
    child = cores(images)[2]
    pid, extra = child.stem.partition("-")[2], "777"
    for path in images.glob(f"*-{pid}.img"):
        shutil.copy(path, path.with_name(path.name.replace(pid, extra)))

    def change(entries: list[Fields]) -> None:
        one = list(entries[-1])
        put(one, (1,), int(extra))
        put(one, (5,), int(extra))
        entries.append(one)

    edit(images / "pstree.img", change)


def leave_to_gain_rights(images: Path) -> None:
    """Do not ask that programs with rights of their own give none."""
    for path in cores(images):
        creds(path, 18, 0)


REFUSED: dict[str, Callable[[Path], None]] = {
    "a capability": of_the_program,
    "a capability of a thread": of_a_thread,
    "a capability of a child": of_a_child,
    "root's capability": of_root,
    "root itself": root_itself,
    "root's group": roots_group,
    "a file that the account cannot read": partial(open_file, name="/etc/shadow"),
    "a pid namespace": partial(other_namespace, field=5),
    "a network": partial(other_namespace, field=6),
    "mounts": partial(other_namespace, field=9),
    "a user namespace": partial(other_namespace, field=10),
}
HARMLESS: dict[str, Callable[[Path], None]] = {
    "another process": another_process,
    "rights of programs": leave_to_gain_rights,
}


def rights(pid: int) -> Iterator[tuple[str, ...]]:
    """Those of each thread of a process."""
    for thread in threads_of(pid):
        fields = status_fields(thread)
        names = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs")
        yield tuple(" ".join(fields[name]) for name in names)


def ours(b: Bench) -> set[int]:
    """The job's processes: not the two that are root's."""
    return {pid for pid in descendants(b.starter.pid) if status_fields(pid).get("Uid", ["0"])[0] != "0"}


async def written_down(b: Bench) -> tuple[ClassAd, Path, set[tuple[str, ...]]]:
    """A job that has left with a checkpoint; where that is kept, and the rights that its program had."""
    job = python_job(b, ENDLESS)
    first = await b.run(job, files=True, spool=True)
    await b.until(JobExecuting, first)
    await until(b, (b.sandbox / "alive").exists)
    await until(b, lambda: len(ours(b)) == 2)
    had = {right for pid in ours(b) for right in rights(pid)}
    await b.stop(first)
    assert (await b.ended(first)).ending is Ending.EVICTED, b.log()
    return job, b.iwd / "spool/_condor_checkpoint_0000", had


@pytest.mark.parametrize("forge", REFUSED.values(), ids=REFUSED)
async def test_images_that_ask_for_more_rights_hold_the_job(forge: Callable[[Path], None]) -> None:
    async with bench(agent=True, criu=CRIU) as b:
        job, kept, _ = await written_down(b)
        forge(kept / "_condor_criu")
        forge_manifest(kept)
        activation = await b.run(job, files=True, spool=True)
        end = await b.ended(activation)
        assert (end.ending, end.ad.eval("HoldReasonCode")) == (Ending.HOLD, 36), b.log()
        assert "cannot go on from its checkpoint" in (end.ad.eval_str("HoldReason") or "")
        assert not ours(b)


@pytest.mark.parametrize("forge", HARMLESS.values(), ids=HARMLESS)
async def test_images_that_ask_for_something_else_give_no_more_rights(forge: Callable[[Path], None]) -> None:
    async with bench(agent=True, criu=CRIU) as b:
        job, kept, had = await written_down(b)
        forge(kept / "_condor_criu")
        forge_manifest(kept)
        activation = await b.run(job, files=True, spool=True)
        await b.until(JobExecuting, activation)
        assert {right for pid in ours(b) for right in rights(pid)} == had
        (b.sandbox / "go").touch()
        await b.ended(activation)
        assert not ours(b)


async def test_images_cannot_make_the_program_less_nice_than_the_machine_has_it() -> None:
    async with bench(agent=True, criu=CRIU, nice="5") as b:
        job, kept, _ = await written_down(b)
        for path in cores(kept / "_condor_criu"):
            edit(path, lambda entries: put(entries[0], (CORE_THREAD, SCHED_NICE), 0))
        forge_manifest(kept)
        activation = await b.run(job, files=True, spool=True)
        await b.until(JobExecuting, activation)
        threads = [thread for pid in ours(b) for thread in threads_of(pid)]
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {5}
        (b.sandbox / "go").touch()
        await b.ended(activation)
