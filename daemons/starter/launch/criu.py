"""Has CRIU write down a running program, or make one again: always as the job's account, in the job's namespaces.

Its files are in the sandbox, where the account can write: `pool/execute/criu.py` says why that is no way to more
rights. All it makes stands still until this process has looked at it. Rules: nothing is awaited inside the namespaces;
a CRIU that is not waited for any more is ended.

Source: criu(8); HTCondor's manual for what a checkpoint is to a job.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import trio

from daemons.base.killing import kill
from daemons.base.linux import children_of, descendants, status_fields, threads_of
from daemons.host import namespaces
from daemons.host.account import Account, acting_as
from daemons.host.first_process import FirstProcess
from daemons.host.processes import WatchedChild
from daemons.host.sandbox import read_as
from daemons.starter.launch.bare import BareBody
from daemons.starter.launch.body import Scene
from daemons.starter.launch.context import Context
from daemons.starter.launch.spawn import OOM_SCORE, bound_to
from daemons.starter.launch.terms import Terms
from pool.base.errors import PoolError
from pool.execute import criu
from pool.execute.cgroup import CgroupLimits

_GATE: Final = 'read go && exec "$@" </dev/null'
"""Waits until it is in the job's control group, and then becomes CRIU: so is all that CRIU makes."""
LOG_BYTES_MAX: Final = 64 * 1024
NUMBER_BYTES_MAX: Final = 20
ENDED: Final = ("Z", "X")
"""States of a thread that does nothing any more; a process may have others that do."""


class CriuFailed(PoolError):
    """It could not; the message says why, in CRIU's words."""


async def dump(context: Context, scene: Scene) -> None:
    """Write the job's processes down, which stand still from then on; CriuFailed when that cannot be: they go on."""
    account, images = scene.account, os.path.join(scene.sandbox, criu.IMAGES)
    _check_there(context)
    if lost := _orphans(context.processes.first_pid, account):
        raise CriuFailed(f"process {lost[0]} of the job is not below its first one any more")
    forget_images(scene.sandbox, account)
    with acting_as(account):
        os.mkdir(images, 0o700)
    program, inside = context.settings.criu, f"{criu.PLACE}/{criu.IMAGES}"
    argv = criu.dumping(program, _inner_pid(scene.pid), inside, account.uid, account.gid, _groups(account, scene.terms))
    with namespaces.joined(scene.pid, scene.terms.isolation):
        watched = context.processes.start(argv, **_apart())
    await _until_done(watched, images, account)


async def restore(context: Context, account: Account, terms: Terms, limits: CgroupLimits, sandbox: str) -> BareBody:
    """Make them again; they go on. CriuFailed when that cannot be."""
    _check_there(context)
    if context.group.works:
        for problem in context.group.prepare(limits):
            context.log.always("A limit could not be set", limit=problem)
    context.processes.tracking = terms.tracking
    images = os.path.join(sandbox, criu.IMAGES)
    try:
        watched = _start_restoring(context, account, terms)
        await _until_done(watched, images, account)
        pid = _made(images, account, context.processes.first_pid)
        body = BareBody(context.processes.watch(pid), context.processes, context.group)
        # Images can have what CRIU has stopped go on: by a timer, say. What is frozen stays where it is.
        body.suspend()
        _check_rights(context.processes.first_pid, account, _groups(account, terms))
        with namespaces.joined(body.watched.pid, terms.isolation):
            namespaces.begin_pids_after(_highest(body.watched.pid))
    except BaseException:
        with trio.CancelScope(shield=True):
            await context.processes.end_all(context.group)
        raise
    body.resume()
    context.processes.go_on()
    return body


def forget_images(sandbox: str, account: Account) -> None:
    """They are of no use any more."""
    with acting_as(account):
        shutil.rmtree(os.path.join(sandbox, criu.IMAGES), ignore_errors=True)


# ---- inside


def _start_restoring(context: Context, account: Account, terms: Terms) -> WatchedChild:
    inside = f"{criu.PLACE}/{criu.IMAGES}"
    argv = criu.restoring(context.settings.criu, inside, account.uid, account.gid, _groups(account, terms))
    entrances = context.group.entrances()
    first: FirstProcess | None
    with ExitStack() as opened:
        gate, go = os.pipe2(os.O_CLOEXEC)
        opened.callback(os.close, go)
        opened.callback(os.close, gate)
        with bound_to(terms.cpus), namespaces.inside(terms.isolation, account, entrances) as first:
            watched = context.processes.start(["/bin/sh", "-c", _GATE, "sh", *argv], **_apart(gate))
        context.processes.are_with(first)
        for entrance in entrances:
            os.write(entrance, b"%d" % watched.pid)
        with open(f"/proc/{watched.pid}/oom_score_adj", "wb", buffering=0) as file:
            file.write(OOM_SCORE)
        # Images can only make more of it.
        os.setpriority(os.PRIO_PROCESS, watched.pid, os.getpriority(os.PRIO_PROCESS, 0) + terms.nice)
        os.write(go, b"\n")
    return watched


def _apart(stdin: int = subprocess.DEVNULL) -> dict[str, object]:
    none = subprocess.DEVNULL
    return {
        "stdin": stdin,
        "stdout": none,
        "stderr": none,
        "cwd": "/",
        "env": {"PATH": criu.PATH},
        "start_new_session": True,
    }


async def _until_done(watched: WatchedChild, images: str, account: Account) -> None:
    try:
        await watched.ended.wait()
    except trio.Cancelled:
        kill({watched.pid})
        raise
    if watched.status != 0:
        raise CriuFailed(criu.reason(read_as(account, os.path.join(images, criu.LOG), LOG_BYTES_MAX) or ""))


# ---- what is there


def _check_there(context: Context) -> None:
    """A job may have got here whose requirements were changed."""
    if not context.settings.criu:
        raise CriuFailed("this machine has no CRIU that works")


def _orphans(first: int, account: Account) -> list[int]:
    """What has been left to the first process of the namespace: CRIU would not see it."""
    return [pid for pid in children_of(first) if status_fields(pid).get("Uid", [""])[0] == str(account.uid)]


def _groups(account: Account, terms: Terms) -> Sequence[int]:
    return (*account.groups, terms.group_id) if terms.group_id else account.groups


def _inner_pid(pid: int) -> int:
    """Its number in its own pid namespace."""
    return int(status_fields(pid).get("NSpid", ["0"])[-1])


def _made(images: str, account: Account, first: int) -> int:
    """The child of this process that CRIU has made, of which it says the number in a file of the account's."""
    said = read_as(account, os.path.join(images, criu.PID_FILE), NUMBER_BYTES_MAX) or ""
    for pid in children_of(os.getpid()):
        fields = status_fields(pid)
        if pid != first and len(fields.get("NSpid", [])) > 1 and fields["NSpid"][-1] == said.strip():
            return pid
    raise CriuFailed("the processes that CRIU has made are gone")


def _check_rights(first: int, account: Account, groups: Sequence[int]) -> None:
    """Images say what rights each thread has, and anybody may have written them."""
    for pid in descendants(os.getpid()) - _of_root(first):
        for status in (status_fields(thread) for thread in threads_of(pid)):
            is_there = status and status["State"][0] not in ENDED
            if is_there and not criu.has_no_rights(status, account.uid, account.gid, groups):
                raise CriuFailed("the images ask for rights that no job has")


def _of_root(first: int) -> set[int]:
    """The first process of the namespace, and what that waits for: no account can make others."""
    return {first, *(pid for pid in children_of(first) if status_fields(pid).get("Uid") == ["0"] * 4)}


def _highest(pid: int) -> int:
    return max(criu.RESERVED_PIDS, *(_inner_pid(one) for one in {pid, *descendants(pid)}))
