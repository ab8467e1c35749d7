"""Start a job's program without copying this process: what nearly every job takes.

A fork copies this process's page tables, and both sides pay for each page that they touch afterwards; that cost more
than all else in a short job. Here the starter itself takes on what the job is to have (limits, cpus), for the moment in
which it makes a child that borrows this process's memory, and takes it off again. Nothing is awaited meanwhile. The
control group is entered by the child alone, and so is the account: it opens the job's files with the account's rights
while no other process of the account may send it a signal, and becomes the account with its last step before the
program. Whatever is unusual or fails is left to `fork.py`, which can tell what went wrong.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from daemons.host import namespaces
from daemons.host.account import Account, acting_as
from daemons.host.cgroup import ControlGroup
from daemons.host.first_process import FirstProcess
from daemons.starter.launch import vfork as child
from daemons.starter.launch.terms import USUAL, Terms
from pool.execute.plan import NULL, RunPlan

OOM_SCORE: Final = b"800"
"""The kernel takes jobs before daemons when the machine runs out of memory (HTCondor's value)."""
JOB_UMASK: Final = 0o022
SIGNALS: Final = tuple(
    int(signum) for signum in signal.valid_signals() if signum not in (signal.SIGKILL, signal.SIGSTOP, 32, 33)
)
"""All that can be set; 32 and 33 are the C library's own."""

_SAME: Final = 0xFFFFFFFF
"""The id that is to stay as it is."""


class JobSpawner:
    """What a starter keeps between its jobs: how the kernel rates it when memory is short, and its signals."""

    def __init__(self, group: ControlGroup) -> None:
        self.group = group
        self._oom: tuple[int, bytes] | None = None
        self._handled: list[child.Step] | None = None

    def close(self) -> None:
        """Let go of it; the next job has it opened again."""
        if self._oom is not None:
            os.close(self._oom[0])
            self._oom = None

    def spawn(self, plan: RunPlan, account: Account, terms: Terms = USUAL) -> tuple[int, FirstProcess | None] | None:
        """The process of the job, whose program was executed, and the first one of its pid namespace, if it has one.

        None when this way cannot tell or do it.
        """
        if not child.is_possible():
            return None
        if not self.group.has_room():  # the kernel would end this process with the child, whose memory it is
            return None
        try:
            entrances = self.group.entrances()
            with (
                self._rated_as_a_job(),
                namespaces.inside(terms.isolation, account, entrances) as first,
                limited(plan.rlimits),
                bound_to(terms.cpus),
            ):
                return child.vfork(self._steps(plan, account, entrances)), first
        except (OSError, ValueError):  # ValueError: a null character, which no program can be given
            return None

    def _steps(self, plan: RunPlan, account: Account, entrances: Sequence[int]) -> list[child.Step]:
        """What the child does, in its order."""
        call = child.HERE
        steps: list[child.Step] = [(call.setsid,), *((call.write, entrance, b"0", 1) for entrance in entrances)]
        if account.switches:
            groups, gid, uid = account.groups, account.gid, account.uid
            steps += [
                (call.setgroups, len(groups), child.numbers(groups)),
                (call.setresgid, gid, gid, gid),
                (call.setresuid, _SAME, uid, _SAME),
            ]
        steps += [(call.chdir, os.fsencode(plan.directory)), *_file_steps(plan, account)]
        if self._handled is None:
            self._handled = child.default_signals(handled_signals())
        steps += self._handled
        if account.switches:  # from here on others of the account may stop it; its next step ends that it is ours
            steps.append((call.setresuid, uid, uid, uid))
        environment = [os.fsencode(f"{name}={value}") for name, value in plan.environment.items()]
        argv = child.words([os.fsencode(word) for word in plan.argv])
        return [*steps, (call.execve, os.fsencode(plan.program), argv, child.words(environment))]

    @contextmanager
    def _rated_as_a_job(self) -> Iterator[None]:
        """A child has its parent's rating, and not every starter may change another process's."""
        if self._oom is None:
            fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._oom = (fd, os.read(fd, 16).strip())
        fd, own = self._oom
        os.pwrite(fd, OOM_SCORE, 0)
        try:
            yield
        finally:
            os.pwrite(fd, own, 0)


@contextmanager
def bound_to(cpus: tuple[int, ...]) -> Iterator[None]:
    """This thread, and what it makes, runs on those cpus only inside the `with`; none: wherever it may."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def limited(rlimits: Mapping[str, int]) -> Iterator[None]:
    """The job's soft limits hold inside the `with`."""
    before = soft_limits(rlimits)
    try:
        yield
    finally:
        for kind, pair in before:
            resource.setrlimit(kind, pair)


def soft_limits(rlimits: Mapping[str, int]) -> list[tuple[int, tuple[int, int]]]:
    """Set soft limits; what exceeds the hard limit stops there. What was there before, where that was different."""
    before: list[tuple[int, tuple[int, int]]] = []
    for name, wanted in rlimits.items():
        kind: int = getattr(resource, f"RLIMIT_{name}")
        was, hard = resource.getrlimit(kind)
        soft = hard if wanted < 0 else wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            if soft != was:
                resource.setrlimit(kind, (soft, hard))
                before.append((kind, (was, hard)))
        except (OSError, ValueError):
            continue
    return before


def _file_steps(plan: RunPlan, account: Account) -> list[child.Step]:
    """How the standard files are opened; OSError when one of them might keep this process waiting, as a pipe does."""
    with acting_as(account):
        if not all(map(_opens_at_once, {plan.stdin, plan.stdout, plan.stderr})):
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    flags, mode = output_flags(plan), 0o666
    call = child.HERE
    steps: list[child.Step] = []
    steps += [(call.close, 0), (call.openat, child.AT_FDCWD, os.fsencode(plan.stdin), os.O_RDONLY | os.O_NOCTTY, 0)]
    steps += [(call.close, 1), (call.openat, child.AT_FDCWD, os.fsencode(plan.stdout), flags, mode)]
    if plan.stderr == plan.stdout:
        return [*steps, (call.dup3, 1, 2, 0)]
    return [*steps, (call.close, 2), (call.openat, child.AT_FDCWD, os.fsencode(plan.stderr), flags, mode)]


def handled_signals() -> list[int]:
    """The signals that a fresh program has otherwise; asked before a child is made, where each touch costs a page."""
    return [signum for signum in SIGNALS if signal.getsignal(signum) != signal.SIG_DFL]


def output_flags(plan: RunPlan) -> int:
    """How standard output and error are opened."""
    return os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | (os.O_APPEND if plan.append_output else os.O_TRUNC)


def _opens_at_once(path: str) -> bool:
    if path == NULL:
        return True
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:  # it is made, or whoever opens it is told why not
        return True
