"""The last bytes of what a running job writes, for its owner: its standard files, and outputs that it has announced.

Files are opened with the rights of the job's account, and only where the job's own files are; the answer is bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import trio

from daemons.host.account import acting_as
from daemons.starter.launch.body import Scene
from pool.base.errors import UserError
from pool.execute.plan import NULL
from pool.execute.remote_io import wants_remote_io
from pool.files.transfer import listed_outputs
from protocol.messages.live import TAIL_BYTES_MAX, TAIL_WAIT_MAX_S, Tail, TailFiles, Tails

LOOK_S: Final = 0.2
_FLAGS: Final = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class _Wanted:
    name: str
    path: str


async def tail(scene: Scene, request: TailFiles, is_over: Callable[[], bool]) -> Tails:
    """What is asked for, at once, or when there is something new; UserError when it may not be seen."""
    wanted = list(_wanted(scene, request))
    deadline = trio.current_time() + min(request.wait_s, TAIL_WAIT_MAX_S)
    while True:
        over = is_over()
        tails = _read_all(scene, wanted, request)
        if over or any(one.data for one in tails) or trio.current_time() >= deadline:
            return Tails(tails=tails, over=over)
        await trio.sleep(LOOK_S)


def _wanted(scene: Scene, request: TailFiles) -> Iterator[_Wanted]:
    plan, job = scene.plan, scene.job
    if wants_remote_io(job):
        raise UserError(
            "The job's files are at the access point while it runs (want_remote_io): they can be read there."
        )
    seen = set()
    for asked, path, attribute in ((request.stdout, plan.stdout, "Out"), (request.stderr, plan.stderr, "Err")):
        if asked and path != NULL:
            seen.add(job.eval_str(attribute))
            yield _Wanted(attribute, path)
    outputs = listed_outputs(job) or []
    standard = {job.eval_str("Out"): plan.stdout, job.eval_str("Err"): plan.stderr}
    for name in request.names:
        if name in standard:
            if name not in seen and standard[name] != NULL:
                yield _Wanted(name, standard[name])
        elif name in outputs:
            yield _Wanted(name, os.path.join(plan.directory, name))
        else:
            raise UserError(f"File {name} requested but not authorized to be sent.")


def _read_all(scene: Scene, wanted: list[_Wanted], request: TailFiles) -> list[Tail]:
    left = max(0, min(request.bytes_max, TAIL_BYTES_MAX))
    tails = []
    with acting_as(scene.account):
        for one in wanted:
            found = _read(scene, one, request.offsets.get(one.name), left)
            if found is not None:
                left -= len(found.data)
                tails.append(found)
    return tails


def _read(scene: Scene, wanted: _Wanted, offset: int | None, bytes_max: int) -> Tail | None:
    """At most so many bytes from the offset to the end, the last ones; None when there is no such file yet."""
    try:
        fd = os.open(wanted.path, _FLAGS)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        _check_place(scene, wanted, fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        begin = 0 if offset is None or offset > status.st_size else offset  # a file that was cut begins anew
        begin = max(begin, status.st_size - bytes_max)
        data = os.pread(fd, bytes_max, begin) if bytes_max else b""
        return Tail(name=wanted.name, offset=begin + len(data), data=data)
    finally:
        os.close(fd)


def _check_place(scene: Scene, wanted: _Wanted, fd: int) -> None:
    """A link that leads out of the sandbox is not followed for anybody."""
    if not scene.plan.transfers:
        return
    real, sandbox = os.readlink(f"/proc/self/fd/{fd}"), os.path.realpath(scene.sandbox)
    if not real.startswith(f"{sandbox}/"):
        raise UserError(f"Invalid symlink or filename ({wanted.path}) outside sandbox ({sandbox})")
